// Package daemon is the life of a process of the pod: tasks, signals,
// readiness, and the order in which a pod stops.
package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"

	"golang.org/x/sync/errgroup"
)

// Task is a part of a daemon that runs until its context ends.
type Task interface {
	// Run does the work. It returns nil once ctx ended; another return ends
	// the daemon.
	Run(ctx context.Context) error
	// Ready is closed when the task does its work for the first time.
	Ready() <-chan struct{}
	fmt.Stringer
}

// ErrTaskEnded is a task that returned without being told to.
var ErrTaskEnded = errors.New("task ended by itself")

// RunTasks runs the tasks side by side until ctx ends or one of them fails.
// A panic of a task is its error.
func RunTasks(ctx context.Context, log *slog.Logger, tasks ...Task) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, t := range tasks {
		g.Go(func() error { return runTask(ctx, log, t) })
	}
	return g.Wait()
}

func runTask(ctx context.Context, log *slog.Logger, t Task) (err error) {
	defer func() {
		if r := recover(); r != nil {
			log.Error("task panicked", "task", t.String(), "panic", r, "stack", string(debug.Stack()))
			err = fmt.Errorf("running %s: panic: %v", t, r)
		}
	}()
	err = t.Run(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("running %s: %w", t, err)
	case ctx.Err() == nil:
		return fmt.Errorf("running %s: %w", t, ErrTaskEnded)
	}
	return nil
}

// TaskFunc makes a Task of a function. The task is ready once the function
// calls ready, which it may do more than once.
func TaskFunc(name string, run func(ctx context.Context, ready func()) error) Task {
	return &taskFunc{name: name, run: run, ready: make(chan struct{})}
}

type taskFunc struct {
	name  string
	run   func(ctx context.Context, ready func()) error
	once  sync.Once
	ready chan struct{}
}

func (t *taskFunc) Run(ctx context.Context) error {
	return t.run(ctx, func() { t.once.Do(func() { close(t.ready) }) })
}

func (t *taskFunc) Ready() <-chan struct{} { return t.ready }
func (t *taskFunc) String() string         { return t.name }

// Readiness returns a function that says whether every task is ready.
func Readiness(tasks ...Task) func() error {
	return func() error {
		for _, t := range tasks {
			select {
			case <-t.Ready():
			default:
				return fmt.Errorf("%s is not ready", t)
			}
		}
		return nil
	}
}
