package daemon

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/vipod/vipod/shared/sock"
	"github.com/vipod/vipod/shared/statefile"
	"github.com/vipod/vipod/shared/trigger"
)

// Resync times: how often, at random between the two, everything is read anew
// without an event.
const (
	resyncLow  = 30 * time.Second
	resyncHigh = 60 * time.Second
)

// RunUntilReleased runs the tasks until one of them fails, or until ctx ends
// and the order of stopping lets the daemon go (AwaitStop), and says how. The
// tasks work on while that is being decided.
func RunUntilReleased(ctx context.Context, env *Env, tasks ...Task) (Leave, error) {
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	leave := Keep
	order := TaskFunc("stop order", func(work context.Context, ready func()) error {
		ready()
		select {
		case <-work.Done():
		case <-ctx.Done():
			leave = AwaitStop(work, env.Log, env.StateDir)
			stop()
		}
		return nil
	})
	err := RunTasks(work, env.Log, append(tasks[:len(tasks):len(tasks)], order)...)
	return leave, err
}

// Follow is a task that follows something and fires when it may have changed.
// It is ready once it has fired for the first time, which follow does when
// nothing can be missed any more.
func Follow(name string, fire func(), follow func(ctx context.Context, fire func()) error) Task {
	return TaskFunc(name, func(ctx context.Context, ready func()) error {
		return follow(ctx, func() { fire(); ready() })
	})
}

// Watch is a task that fires when something in the directories may have
// changed. It is ready when the first of them is watched.
func Watch(log *slog.Logger, name string, fire func(), dirs ...string) Task {
	return Follow(name, fire, func(ctx context.Context, fire func()) error {
		return statefile.Watch(ctx, log, fire, dirs...)
	})
}

// Resync is a task that fires from time to time. It stands behind every watch,
// whose events may be lost.
func Resync(t *trigger.Trigger) Task {
	return TaskFunc("resync", func(ctx context.Context, ready func()) error {
		ready()
		t.Resync(ctx, resyncLow, resyncHigh)
		return nil
	})
}

// Socket is a task that answers on the named daemon's socket.
func Socket(stateDir, name string, h http.Handler) Task {
	return TaskFunc("socket", func(ctx context.Context, ready func()) error {
		l, err := sock.Listen(stateDir, name)
		if err != nil {
			return err
		}
		ready()
		return sock.Serve(ctx, l, h)
	})
}
