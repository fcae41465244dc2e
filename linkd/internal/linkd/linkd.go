// Package linkd wires the daemon: the reconcile loop, what wakes it, and the
// socket.
package linkd

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"golang.org/x/sys/unix"

	"github.com/vipod/vipod/linkd/internal/client"
	"github.com/vipod/vipod/linkd/internal/kernel"
	"github.com/vipod/vipod/linkd/internal/reconcile"
	"github.com/vipod/vipod/shared/bootclock"
	"github.com/vipod/vipod/shared/daemon"
	"github.com/vipod/vipod/shared/metrics"
	"github.com/vipod/vipod/shared/netsafe"
	"github.com/vipod/vipod/shared/ownership"
	"github.com/vipod/vipod/shared/pulse"
)

// Run is the daemon: it works until ctx ends and then until the order of
// stopping lets it go.
func Run(ctx context.Context, env *daemon.Env) error {
	boot, err := bootclock.ID()
	if err != nil {
		return err
	}
	registry := metrics.New()
	r, err := reconcile.New(reconcile.Config{
		Log: env.Log, StateDir: env.StateDir, Boot: boot, Kernel: kernel.Linux{},
		Client:  func(o client.Options) reconcile.DHCP { return client.Start(o) },
		Metrics: reconcile.NewMetrics(registry),
	})
	if err != nil {
		return err
	}
	tasks := tasks(env, r)
	tasks = append(tasks, daemon.Socket(env.StateDir, ownership.Linkd, daemon.Handler(daemon.Answers{
		Healthy: func(ctx context.Context) error { return pulse.Check(ctx, r.Pulse) },
		Ready:   daemon.Readiness(tasks...),
		Status:  func(context.Context) (any, error) { return r.Report(), nil },
		Metrics: metrics.Handler(registry),
	})))
	leave, err := daemon.RunUntilReleased(ctx, env, tasks...)
	if err == nil && leave == daemon.CleanUp {
		return r.CleanUp()
	}
	return err
}

// tasks are the loop and everything that wakes it.
func tasks(env *daemon.Env, r *reconcile.Reconciler) []daemon.Task {
	return []daemon.Task{
		daemon.TaskFunc("reconcile loop", r.Run),
		daemon.Watch(env.Log, "watch of the grant", r.Renewed.Fire, ownership.Dir(env.StateDir, ownership.Elector)),
		daemon.Watch(env.Log, "watch of VIPs", r.Changed.Fire, ownership.VIPs(env.StateDir, ownership.Elector)),
		daemon.Resync(r.Changed),
		daemon.Follow("watch of links", r.Netlink.Fire, func(ctx context.Context, fire func()) error {
			return netsafe.Subscribe(ctx, fire, unix.RTNLGRP_LINK, unix.RTNLGRP_IPV6_IFADDR)
		}),
	}
}

// PrintStatus prints the /status answer for a person.
func PrintStatus(out io.Writer, answer []byte) error {
	var report reconcile.Report
	if err := json.Unmarshal(answer, &report); err != nil {
		return fmt.Errorf("reading status: %w", err)
	}
	return report.Print(out)
}
