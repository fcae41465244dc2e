package web

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vipod/vipod/metricsd/internal/pod"
	"github.com/vipod/vipod/shared/schema"
)

var quiet = slog.New(slog.DiscardHandler)

// source gives what a test wants.
type source struct {
	page   func() ([]byte, error)
	report pod.Report
}

func (s source) Page(context.Context) ([]byte, error) { return s.page() }
func (s source) Report(context.Context) pod.Report    { return s.report }
func text(s string, err error) func() ([]byte, error) {
	return func() ([]byte, error) { return []byte(s), err }
}

func get(h http.Handler, method, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, path, http.NoBody))
	return w
}

func TestStatusPageEscapesWhatOthersWrote(t *testing.T) {
	const evil = `<script>alert(1)</script>"'><a href=javascript:x`
	r := pod.Report{
		Node: evil, Phase: schema.Phase(evil),
		Components: []pod.Component{{Name: evil, Answer: pod.Answer{Enabled: true, Version: evil, Message: evil},
			Conditions: []schema.Condition{{Type: evil, Status: schema.ConditionStatus(evil), Message: evil}}}},
		VIPs:     []pod.VIPReport{{Key: evil, State: schema.State(evil), Grant: schema.GrantName(evil)}},
		Problems: map[string]string{evil: evil},
	}
	w := get(Handler(quiet, source{report: r}), http.MethodGet, "/")
	if w.Code != http.StatusOK {
		t.Fatalf("status %d", w.Code)
	}
	body := w.Body.String()
	if n := strings.Count(body, "&lt;script&gt;"); n < 10 {
		t.Errorf("the text is on the page %d times:\n%s", n, body)
	}
	if strings.Contains(body, "<script") || strings.Contains(body, "<a href=javascript") {
		t.Errorf("page is not escaped:\n%s", body)
	}
	if csp := w.Header().Get("Content-Security-Policy"); !strings.HasPrefix(csp, "default-src 'none'") {
		t.Errorf("Content-Security-Policy is %q", csp)
	}
}

func TestHandlerAnswersOnlyWhatItHas(t *testing.T) {
	h := Handler(quiet, source{page: text("x 1\n", errors.New("one family is missing"))})
	for _, test := range []struct {
		method, path string
		want         int
	}{
		{http.MethodGet, "/metrics", http.StatusOK},
		{http.MethodHead, "/metrics", http.StatusOK},
		{http.MethodPost, "/metrics", http.StatusMethodNotAllowed},
		{http.MethodGet, "/", http.StatusOK},
		{http.MethodGet, "/status", http.StatusNotFound},
		{http.MethodGet, "/healthz", http.StatusNotFound},
		{http.MethodGet, "/debug/pprof/", http.StatusNotFound},
	} {
		if w := get(h, test.method, test.path); w.Code != test.want {
			t.Errorf("%s %s: %d, want %d", test.method, test.path, w.Code, test.want)
		}
	}
	if w := get(Handler(quiet, source{page: text("", errors.New("x"))}), http.MethodGet, "/metrics"); w.Code != http.StatusInternalServerError {
		t.Errorf("no metrics at all: %d", w.Code)
	}
}

func TestOnlySoManyPagesAreMadeAtATime(t *testing.T) {
	release, made := make(chan struct{}), make(chan struct{})
	h := Handler(quiet, source{page: func() ([]byte, error) {
		made <- struct{}{}
		<-release
		return []byte("x 1\n"), nil
	}})
	var wg sync.WaitGroup
	for range maxScrapes {
		wg.Go(func() { get(h, http.MethodGet, "/metrics") })
		<-made
	}
	if w := get(h, http.MethodGet, "/metrics"); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
		t.Errorf("one more: %d %v, want 503 with Retry-After", w.Code, w.Header())
	}
	close(release)
	wg.Wait()
}

// states collects what a server reports.
func states() (report func(State), next func(t *testing.T) State) {
	c := make(chan State, 100)
	return func(s State) { c <- s }, func(t *testing.T) State {
		t.Helper()
		select {
		case s := <-c:
			return s
		case <-time.After(30 * time.Second):
			t.Fatal("no new state")
			return State{}
		}
	}
}

func free(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

func start(t *testing.T, s *Server) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); s.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
}

func fetch(address string) (string, error) {
	c := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 30 * time.Second}
	r, err := c.Get("http://" + address + "/metrics")
	if err != nil {
		return "", err
	}
	defer func() { _ = r.Body.Close() }()
	b, err := io.ReadAll(r.Body)
	return string(b), err
}

func TestServerFollowsItsAddress(t *testing.T) {
	report, next := states()
	s := NewServer(quiet, Handler(quiet, source{page: text("x 1\n", nil)}), report)
	start(t, s)
	if got := next(t); got != (State{}) {
		t.Fatalf("at the start: %+v, want off", got)
	}
	first, second := free(t), free(t)
	for _, address := range []string{first, second, first} {
		s.Listen(address)
		if got := next(t); got.Address != address || got.Err != nil {
			t.Fatalf("state %+v, want %s", got, address)
		}
		if body, err := fetch(address); body != "x 1\n" {
			t.Errorf("%s answers %q, %v", address, body, err)
		}
	}
	if _, err := fetch(second); err == nil {
		t.Error("the former address still answers")
	}
	s.Listen("")
	if got := next(t); got != (State{}) {
		t.Errorf("state %+v, want off", got)
	}
	if _, err := fetch(first); err == nil {
		t.Error("answers although it is off")
	}
}

func TestServerReportsAnAddressInUseAndTriesAgain(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	report, next := states()
	s := NewServer(quiet, Handler(quiet, source{page: text("x 1\n", nil)}), report)
	start(t, s)
	next(t)
	s.Listen(address)
	if got := next(t); got.Address != address || got.Err == nil {
		t.Fatalf("state %+v, want an error", got)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	got := next(t)
	for got.Err != nil { // tried again before it was free
		got = next(t)
	}
	if body, err := fetch(address); body != "x 1\n" {
		t.Errorf("answers %q, %v", body, err)
	}
}

func TestServerWaitsLongerAfterEachFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at []time.Time
		s := NewServer(quiet, http.NotFoundHandler(), func(State) { at = append(at, time.Now()) })
		s.Listen("192.0.2.1.:none") // cannot be listened on, and nobody is asked
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		s.Run(ctx)
		if n := len(at); n < 10 || n > 25 {
			t.Errorf("%d attempts in ten minutes, want one a minute after the first few", n)
		}
	})
}

func TestVisitorsWhoSayNothingDoNotKeepOthersOut(t *testing.T) {
	report, next := states()
	s := NewServer(quiet, Handler(quiet, source{page: text("x 1\n", nil)}), report)
	start(t, s)
	next(t)
	address := free(t)
	s.Listen(address)
	next(t)
	for range 2 * maxConns {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
	}
	if body, err := fetch(address); body != "x 1\n" {
		t.Errorf("answers %q, %v", body, err)
	}
}
