package daemon_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/vipod/vipod/shared/daemon"
)

var errBroken = errors.New("broken")

func untilDone(ctx context.Context, ready func()) error {
	ready()
	ready() // saying it twice does no harm
	<-ctx.Done()
	return nil
}

func TestTasksRunUntilTheContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			done <- daemon.RunTasks(ctx, slog.New(slog.DiscardHandler),
				daemon.TaskFunc("a", untilDone), daemon.TaskFunc("b", untilDone))
		}()
		synctest.Wait()
		select {
		case err := <-done:
			t.Fatalf("the tasks ended by themselves: %v", err)
		default:
		}
		cancel()
		if err := <-done; err != nil {
			t.Errorf("error %v, want none", err)
		}
	})
}

func TestOneTaskEndsAll(t *testing.T) {
	for _, test := range []struct {
		name string
		run  func(ctx context.Context, ready func()) error
		is   error
		text string
	}{
		{"error", func(context.Context, func()) error { return errBroken }, errBroken, "running culprit: broken"},
		{"return", func(context.Context, func()) error { return nil }, daemon.ErrTaskEnded, "running culprit: task ended"},
		{"panic", func(context.Context, func()) error { panic("oh") }, nil, "running culprit: panic: oh"},
		{"panic of the runtime", func(context.Context, func()) error {
			return errors.New(strings.Repeat("x", -1))
		}, nil, "negative Repeat count"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var log bytes.Buffer
			err := daemon.RunTasks(t.Context(), slog.New(slog.NewTextHandler(&log, nil)),
				daemon.TaskFunc("innocent", untilDone), daemon.TaskFunc("culprit", test.run))
			if err == nil || !strings.Contains(err.Error(), test.text) || test.is != nil && !errors.Is(err, test.is) {
				t.Errorf("error %v, want one with %q", err, test.text)
			}
			panicked := strings.HasPrefix(test.name, "panic")
			if logged := strings.Contains(log.String(), "daemon_test.go"); logged != panicked {
				t.Errorf("stack in the log: %v, want %v:\n%s", logged, panicked, log.String())
			}
		})
	}
}

func TestErrorWhileStoppingIsReported(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := daemon.RunTasks(ctx, slog.New(slog.DiscardHandler),
		daemon.TaskFunc("a", func(context.Context, func()) error { return errBroken }))
	if !errors.Is(err, errBroken) {
		t.Errorf("error %v, want %v", err, errBroken)
	}
}

func TestReadyOnceEveryTaskIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go1 := make(chan struct{})
		a := daemon.TaskFunc("a", untilDone)
		b := daemon.TaskFunc("b", func(ctx context.Context, ready func()) error {
			<-go1
			return untilDone(ctx, ready)
		})
		ready := daemon.Readiness(a, b)
		if err := ready(); err == nil || err.Error() != "a is not ready" {
			t.Errorf("before the start: %v", err)
		}
		go func() { _ = daemon.RunTasks(ctx, slog.New(slog.DiscardHandler), a, b) }()
		synctest.Wait()
		if err := ready(); err == nil || err.Error() != "b is not ready" {
			t.Errorf("one of two: %v", err)
		}
		close(go1)
		synctest.Wait()
		if err := ready(); err != nil {
			t.Errorf("both: %v", err)
		}
		cancel()
		synctest.Wait()
	})
}
