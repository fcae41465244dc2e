package kube

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// server is an API server that knows Leases and answers in JSON.
type server struct {
	t       *testing.T
	http    *httptest.Server
	mu      sync.Mutex
	version int
	objects map[string]*coordinationv1.Lease
	log     []change
	changed chan struct{} // closed and replaced at every change
	oldest  int           // changes up to here are compacted
	lists   int
	watches int
	hang    bool                      // requests are not answered
	silent  bool                      // watches deliver nothing
	answer  func(r *http.Request) int // an error code instead of an answer
}

type change struct {
	version int
	kind    string
	lease   *coordinationv1.Lease
}

func newServer(t *testing.T) (*server, *Client) {
	t.Helper()
	s := &server{t: t, objects: map[string]*coordinationv1.Lease{}, version: 100, changed: make(chan struct{})}
	s.http = httptest.NewServer(s)
	t.Cleanup(func() {
		s.http.CloseClientConnections()
		s.http.Close()
	})
	c, err := newClient(slog.New(slog.DiscardHandler), &rest.Config{Host: s.http.URL}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s, c
}

func (s *server) note(kind string, l *coordinationv1.Lease) {
	s.log = append(s.log, change{s.version, kind, l.DeepCopy()})
	close(s.changed)
	s.changed = make(chan struct{})
}

// put writes a Lease behind the clients' backs.
func (s *server) put(l *coordinationv1.Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.store(l)
}

func (s *server) store(l *coordinationv1.Lease) {
	s.version++
	l.ResourceVersion = strconv.Itoa(s.version)
	kind := "MODIFIED"
	if s.objects[l.Name] == nil {
		kind = "ADDED"
	}
	s.objects[l.Name] = l.DeepCopy()
	s.note(kind, l)
}

func (s *server) remove(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.objects[name]
	delete(s.objects, name)
	s.version++
	l.ResourceVersion = strconv.Itoa(s.version)
	s.note("DELETED", l)
}

// compact forgets old changes and ends all watches.
func (s *server) compact() {
	s.mu.Lock()
	s.oldest = s.version
	s.mu.Unlock()
	s.http.CloseClientConnections()
}

func (s *server) fail(w http.ResponseWriter, code int, reason metav1.StatusReason) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	s.encode(w, metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: "Failure", Code: int32(code), Reason: reason,
	})
}

func (s *server) encode(w io.Writer, v any) {
	if err := json.NewEncoder(w).Encode(v); err != nil {
		s.t.Log(err) // the client has gone
	}
}

func typed(l *coordinationv1.Lease) *coordinationv1.Lease {
	l = l.DeepCopy()
	l.TypeMeta = metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"}
	return l
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	hang, answer := s.hang, s.answer
	s.mu.Unlock()
	if hang {
		// The server notices a client that goes only once the body is read.
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			s.t.Log(err)
		}
		<-r.Context().Done()
		return
	}
	if answer != nil {
		if code := answer(r); code != 0 {
			s.fail(w, code, metav1.StatusReasonInternalError)
			return
		}
	}
	name := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
	switch {
	case r.Method == http.MethodGet && r.URL.Query().Get("watch") != "":
		s.watch(w, r)
	case r.Method == http.MethodGet && name == "leases":
		s.list(w)
	case r.Method == http.MethodGet:
		s.get(w, name)
	default:
		s.write(w, r)
	}
}

func (s *server) list(w http.ResponseWriter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lists++
	list := coordinationv1.LeaseList{
		TypeMeta: metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "LeaseList"},
		ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(s.version)},
	}
	for _, l := range s.objects {
		list.Items = append(list.Items, *l)
	}
	w.Header().Set("Content-Type", "application/json")
	s.encode(w, list)
}

func (s *server) get(w http.ResponseWriter, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.objects[name]
	if l == nil {
		s.fail(w, http.StatusNotFound, metav1.StatusReasonNotFound)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	s.encode(w, typed(l))
}

func (s *server) write(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		s.t.Error(err)
	}
	codecs, _ := newCodecs()
	obj, _, err := codecs.UniversalDeserializer().Decode(body, nil, nil)
	l, ok := obj.(*coordinationv1.Lease)
	if err != nil || !ok {
		s.t.Errorf("body of %s %s: %T, %v", r.Method, r.URL, obj, err)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.objects[l.Name]
	switch {
	case r.Method == http.MethodPost && old != nil:
		s.fail(w, http.StatusConflict, metav1.StatusReasonAlreadyExists)
		return
	case r.Method == http.MethodPut && old == nil:
		s.fail(w, http.StatusNotFound, metav1.StatusReasonNotFound)
		return
	case r.Method == http.MethodPut && old.ResourceVersion != l.ResourceVersion:
		s.fail(w, http.StatusConflict, metav1.StatusReasonConflict)
		return
	}
	s.store(l)
	w.Header().Set("Content-Type", "application/json")
	s.encode(w, typed(l))
}

func (s *server) watch(w http.ResponseWriter, r *http.Request) {
	from, err := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
	if err != nil {
		s.t.Errorf("watch from %q", r.URL.Query().Get("resourceVersion"))
	}
	s.mu.Lock()
	s.watches++
	expired := from < s.oldest
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if expired {
		fmt.Fprintln(w, `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","code":410,"reason":"Expired"}}`)
		return
	}
	w.(http.Flusher).Flush()
	for {
		s.mu.Lock()
		changed, silent := s.changed, s.silent
		var events []change
		for _, c := range s.log {
			if c.version > from && !silent {
				events = append(events, c)
				from = c.version
			}
		}
		s.mu.Unlock()
		for _, c := range events {
			s.encode(w, map[string]any{"type": c.kind, "object": typed(c.lease)})
		}
		w.(http.Flusher).Flush()
		select {
		case <-r.Context().Done():
			return
		case <-changed:
		case <-time.After(20 * time.Millisecond):
		}
	}
}
