// Package arpd puts the daemon together: the planning loop, the loop that
// sends, the loop that reports, and what wakes them.
package arpd

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/vipod/vipod/arpd/internal/engine"
	"github.com/vipod/vipod/arpd/internal/link"
	"github.com/vipod/vipod/arpd/internal/reconcile"
	"github.com/vipod/vipod/shared/bootclock"
	"github.com/vipod/vipod/shared/daemon"
	"github.com/vipod/vipod/shared/metrics"
	"github.com/vipod/vipod/shared/netsafe"
	"github.com/vipod/vipod/shared/ownership"
	"github.com/vipod/vipod/shared/pulse"
	"github.com/vipod/vipod/shared/trigger"
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

// Receives implements reconcile.Kernel.
func (kernel) Receives(ip netip.Addr) (bool, error) { return receives(ip) }

func receives(ip netip.Addr) (bool, error) {
	routes, err := netlink.RouteGet(ip.AsSlice())
	if errors.Is(err, unix.ENETUNREACH) || errors.Is(err, unix.EHOSTUNREACH) {
		return false, nil
	}
	return err == nil && len(routes) > 0 && routes[0].Type == unix.RTN_LOCAL, err
}

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
	leave, err := daemon.RunUntilReleased(ctx, env, d.tasks...)
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
		daemon.TaskFunc("planning loop", rec.Run),
		daemon.TaskFunc("sending loop", loop(e.Run)),
		daemon.TaskFunc("reporting loop", loop(rep.Run)),
		daemon.Follow("watch of addresses", rec.Changed.Fire, host.Subscribe),
		daemon.Watch(env.Log, "watch of the grant", rec.Renewed.Fire, ownership.Dir(env.StateDir, ownership.Elector)),
		daemon.Watch(env.Log, "watch of VIPs", rec.Changed.Fire, ownership.VIPs(env.StateDir, ownership.Elector)),
		daemon.Resync(rec.Changed),
	}
	ready := daemon.Readiness(p.tasks...)
	p.tasks = append(p.tasks, daemon.Socket(env.StateDir, ownership.Arpd, daemon.Handler(daemon.Answers{
		Healthy: func(ctx context.Context) error { return pulse.Check(ctx, rec.Pulse, e.Pulse, rep.Pulse) },
		Ready:   func() error { return errors.Join(ready(), rec.Result().Err) },
		Status:  func(context.Context) (any, error) { return p.report(bootclock.Now()), nil },
		Metrics: metrics.Handler(registry),
	})))
	return p, nil
}

// loop makes a task's function of one that is ready from the start.
func loop(run func(context.Context) error) func(context.Context, func()) error {
	return func(ctx context.Context, ready func()) error {
		ready()
		return run(ctx)
	}
}
