package kube

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// podServer is an API server that has one pod.
type podServer struct {
	t               *testing.T
	lists, watchers atomic.Int64
	fields          atomic.Value
}

func (s *podServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.fields.Store(r.URL.Query().Get("fieldSelector"))
	w.Header().Set("Content-Type", "application/json")
	if r.URL.Query().Get("watch") != "" {
		s.watchers.Add(1)
		defer s.watchers.Add(-1)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		return
	}
	s.lists.Add(1)
	list := corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, ListMeta: metav1.ListMeta{ResourceVersion: "1"}}
	list.Items = []corev1.Pod{{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1", Labels: map[string]string{"app": "web"}, Annotations: map[string]string{"big": "text"}},
		Spec:       corev1.PodSpec{NodeName: "n1", Containers: []corev1.Container{{Name: "web", Env: []corev1.EnvVar{{Name: "PASSWORD", Value: "secret"}}}}},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "203.0.113.2", PodIPs: []corev1.PodIP{{IP: "203.0.113.2"}}, Message: "text"},
	}}
	if err := json.NewEncoder(w).Encode(list); err != nil {
		s.t.Log(err) // the client has gone
	}
}

func TestPodsOfTheNodeAreFollowedWhileTheyAreWanted(t *testing.T) {
	s := &podServer{t: t}
	web := httptest.NewServer(s)
	t.Cleanup(web.Close)
	c, err := newClient(slog.New(slog.NewTextHandler(io.Discard, nil)), &rest.Config{Host: web.URL}, nil)
	if err != nil {
		t.Fatal(err)
	}
	p := c.pods("n1", func(string) {})
	done := make(chan struct{})
	go func() { p.run(t.Context()); close(done) }()
	until := func(what string, ok func() bool) {
		t.Helper()
		for begin := time.Now(); !ok(); time.Sleep(time.Millisecond) {
			if time.Since(begin) > 20*time.Second {
				t.Fatalf("waited for: %s", what)
			}
		}
	}
	if p.store.Synced() || s.lists.Load() > 0 {
		t.Error("pods are read before anybody wants them")
	}
	for range 2 {
		p.follow(true)
		until("the pods are known and watched", func() bool { return p.store.Synced() && s.watchers.Load() == 1 })
		want := []*corev1.Pod{{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1", Labels: map[string]string{"app": "web"}},
			Spec:       corev1.PodSpec{NodeName: "n1"},
			Status:     corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "203.0.113.2", PodIPs: []corev1.PodIP{{IP: "203.0.113.2"}}},
		}}
		if diff := cmp.Diff(want, p.store.List()); diff != "" {
			t.Errorf("(-want +have):\n%s", diff)
		}
		if got := s.fields.Load(); got != "spec.nodeName=n1" {
			t.Errorf("asked for %v", got)
		}
		p.follow(false)
		until("nothing is kept or watched", func() bool { return !p.store.Synced() && len(p.store.List()) == 0 && s.watchers.Load() == 0 })
	}
}
