package daemon_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vipod/vipod/shared/daemon"
	"github.com/vipod/vipod/shared/schema"
	"github.com/vipod/vipod/shared/trigger"
)

// released runs tasks as a daemon whose SIGTERM is the cancelling of ctx.
func released(ctx context.Context, stateDir string, tasks ...daemon.Task) (daemon.Leave, error) {
	return daemon.RunUntilReleased(ctx, &daemon.Env{Log: slog.New(slog.DiscardHandler), StateDir: stateDir}, tasks...)
}

// working is a task that ends with its context, or with what comes from fail.
func working(fail <-chan error) daemon.Task {
	return daemon.TaskFunc("work", func(ctx context.Context, ready func()) error {
		ready()
		select {
		case <-ctx.Done():
			return nil
		case err := <-fail:
			return err
		}
	})
}

func TestNetnsTasksWorkUntilElectorLetsGo(t *testing.T) {
	e := newElector(t)
	e.phase(schema.PhaseStopping)
	e.answers()
	ctx, term := context.WithCancel(t.Context())
	term()
	task, done := working(nil), make(chan daemon.Leave, 1)
	go func() {
		leave, err := released(ctx, e.stateDir, task)
		if err != nil {
			t.Error(err)
		}
		done <- leave
	}()
	<-task.Ready()
	select {
	case <-done:
		t.Fatal("left while elector hands over")
	case <-time.After(200 * time.Millisecond):
	}
	e.phase(schema.PhaseStopped)
	if leave := <-done; leave != daemon.CleanUp {
		t.Errorf("leave %d, want CleanUp", leave)
	}
}

func TestNetnsTaskThatFailsEndsTheDaemonAtAnyTime(t *testing.T) {
	e := newElector(t)
	e.phase(schema.PhaseStopping)
	e.answers()
	for name, stopping := range map[string]bool{"at work": false, "while it waits for elector": true} {
		ctx, term := context.WithCancel(t.Context())
		if stopping {
			term()
		}
		fail := make(chan error, 1)
		time.AfterFunc(100*time.Millisecond, func() { fail <- errBroken })
		start := time.Now()
		if _, err := released(ctx, e.stateDir, working(fail)); !errors.Is(err, errBroken) {
			t.Errorf("%s: error %v", name, err)
		}
		if waited := time.Since(start); waited > 10*time.Second {
			t.Errorf("%s: noticed after %s", name, waited)
		}
		term()
	}
}

func TestWatchIsReadyWhenADirectoryIsWatched(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "vips")
	wake := trigger.New()
	task := daemon.Watch(slog.New(slog.DiscardHandler), "watch", wake.Fire, dir)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- task.Run(ctx) }()
	select {
	case <-task.Ready():
		t.Error("ready without a directory")
	case <-time.After(100 * time.Millisecond):
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	<-task.Ready()
	<-wake.C()
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestHandlerAnswersWhatItIsTold(t *testing.T) {
	var sick error
	s := httptest.NewServer(daemon.Handler(daemon.Answers{
		Healthy: func(context.Context) error { return sick },
		Ready:   func() error { return errBroken },
		Status:  func(context.Context) (any, error) { return map[string]int{"a": 1}, sick },
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "metrics") }),
	}))
	defer s.Close()
	get := func(path string) (int, string) {
		t.Helper()
		r, err := s.Client().Get(s.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = r.Body.Close() }()
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		return r.StatusCode, string(b)
	}
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 503, "/metrics": 200, "/status": 200, "/other": 404} {
		if code, body := get(path); code != want || path == "/readyz" && !strings.Contains(body, errBroken.Error()) {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	_, body := get("/status")
	var answer map[string]int
	if err := json.Unmarshal([]byte(body), &answer); err != nil || answer["a"] != 1 {
		t.Errorf("status: %s", body)
	}
	sick = errBroken
	for _, path := range []string{"/healthz", "/status"} {
		if code, _ := get(path); code != http.StatusServiceUnavailable {
			t.Errorf("%s: %d", path, code)
		}
	}
}
