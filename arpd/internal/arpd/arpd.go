// Package arpd puts the daemon together: the planning loop, the loop that
// sends, the loop that reports, and what wakes them.
package arpd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vipod/vipod/arpd/internal/engine"
	"github.com/vipod/vipod/arpd/internal/link"
	"github.com/vipod/vipod/arpd/internal/reconcile"
	"github.com/vipod/vipod/shared/bootclock"
	"github.com/vipod/vipod/shared/daemon"
	"github.com/vipod/vipod/shared/metrics"
	"github.com/vipod/vipod/shared/netsafe"
	"github.com/vipod/vipod/shared/ownership"
	"github.com/vipod/vipod/shared/sock"
	"github.com/vipod/vipod/shared/statefile"
	"github.com/vipod/vipod/shared/trigger"
)

// Resync is how often, at random between the two, everything is read anew
// without an event.
const (
	resyncLow  = 30 * time.Second
	resyncHigh = 60 * time.Second
)

// Host is the machine that the daemon runs on.
type Host struct {
	reconcile.Kernel
	link.Network
	// Subscribe calls fire when links or addresses may have changed.
	Subscribe func(ctx context.Context, fire func()) error
}

// ThisHost is the real one.
func ThisHost() Host {
	return Host{Kernel: kernel{}, Network: link.Kernel{}, Subscribe: subscribe}
}

type kernel struct{}

func (kernel) Links() ([]netsafe.Link, error)        { return netsafe.Links() }
func (kernel) Addresses() ([]netsafe.Address, error) { return netsafe.Addresses() }

func subscribe(ctx context.Context, fire func()) error {
	return netsafe.Subscribe(ctx, fire, unix.RTNLGRP_LINK, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR)
}

// Run works until ctx ends and elector has no more need of it.
func Run(ctx context.Context, env *daemon.Env) error { return RunOn(ctx, env, ThisHost()) }

// RunOn is Run on a given host.
func RunOn(ctx context.Context, env *daemon.Env, host Host) error {
	d, err := build(env, host)
	if err != nil {
		return err
	}
	work, stop := context.WithCancel(context.Background())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- daemon.RunTasks(work, env.Log, d.tasks...) }()
	leave := daemon.Keep
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		leave = daemon.AwaitStop(context.WithoutCancel(ctx), env.Log, env.StateDir)
	}
	stop()
	err = <-ended
	if leave == daemon.CleanUp {
		err = errors.Join(err, d.reporter.CleanUp())
	}
	return err
}

type parts struct {
	engine     *engine.Engine
	reconciler *reconcile.Reconciler
	reporter   *reconcile.Reporter
	tasks      []daemon.Task
}

func build(env *daemon.Env, host Host) (*parts, error) {
	boot, err := bootclock.ID()
	if err != nil {
		return nil, err
	}
	registry := metrics.New()
	wake := trigger.New()
	e := engine.New(host.Network, bootclock.Now, wake.Fire, registry)
	rec := reconcile.New(env.Log, env.StateDir, boot, host.Kernel, e, bootclock.Now, wake.Fire)
	rep, err := reconcile.NewReporter(env.Log, env.StateDir, boot, e, rec, wake, registry)
	if err != nil {
		return nil, fmt.Errorf("preparing documents: %w", err)
	}
	p := &parts{engine: e, reconciler: rec, reporter: rep}
	p.tasks = []daemon.Task{
		daemon.TaskFunc("announcing", always(e.Run)),
		daemon.TaskFunc("planning", rec.Run),
		daemon.TaskFunc("reporting", always(rep.Run)),
		daemon.TaskFunc("kernel watch", always(func(ctx context.Context) error {
			return host.Subscribe(ctx, rec.Changed.Fire)
		})),
		daemon.TaskFunc("intent watch", always(func(ctx context.Context) error {
			return watch(ctx, env.Log, env.StateDir, rec)
		})),
		daemon.TaskFunc("resync", always(func(ctx context.Context) error {
			rec.Changed.Resync(ctx, resyncLow, resyncHigh)
			return nil
		})),
	}
	ready := daemon.Readiness(p.tasks...)
	p.tasks = append(p.tasks, daemon.TaskFunc("socket", always(func(ctx context.Context) error {
		l, err := sock.Listen(env.StateDir, ownership.Arpd)
		if err != nil {
			return err
		}
		return sock.Serve(ctx, l, p.handler(ready, metrics.Handler(registry)))
	})))
	return p, nil
}

// always makes a task's function of one that is ready from the start.
func always(run func(context.Context) error) func(context.Context, func()) error {
	return func(ctx context.Context, ready func()) error {
		ready()
		return run(ctx)
	}
}

// watch wakes the planning loop: for node.json and grant.json, which change
// with every renewal of the grant, only to read those two.
func watch(ctx context.Context, log *slog.Logger, stateDir string, r *reconcile.Reconciler) error {
	both, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 2)
	for dir, fire := range map[string]func(){
		ownership.Dir(stateDir, ownership.Elector):  r.Granted.Fire,
		ownership.VIPs(stateDir, ownership.Elector): r.Changed.Fire,
	} {
		go func() { ended <- statefile.Watch(both, log, fire, dir) }()
	}
	err := <-ended
	stop()
	return errors.Join(err, <-ended)
}
