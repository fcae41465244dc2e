// Package vipd wires the daemon: the reconcile loop, what wakes it, and the
// socket.
package vipd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/vipod/vipod/shared/bootclock"
	"github.com/vipod/vipod/shared/daemon"
	"github.com/vipod/vipod/shared/metrics"
	"github.com/vipod/vipod/shared/netsafe"
	"github.com/vipod/vipod/shared/ownership"
	"github.com/vipod/vipod/shared/pulse"
	"github.com/vipod/vipod/vipd/internal/anycast"
	"github.com/vipod/vipod/vipd/internal/flows"
	"github.com/vipod/vipod/vipd/internal/kernel"
	"github.com/vipod/vipod/vipd/internal/reconcile"
	"github.com/vipod/vipod/vipd/internal/routes"
)

// Run is the daemon: it works until ctx ends and then until the order of
// stopping lets it go.
func Run(ctx context.Context, env *daemon.Env) error {
	boot, err := bootclock.ID()
	if err != nil {
		return err
	}
	registry := metrics.New()
	forgetter := flows.New(env.Log, flows.Forget)
	r, err := reconcile.New(reconcile.Config{
		Log: env.Log, StateDir: env.StateDir, Boot: boot,
		Open: opener(env.Log, kernel.ProbeFence), Metrics: reconcile.NewMetrics(registry), Routes: routes.Linux{}, Anycast: anycast.Linux{}, Added: forgetter.Added,
	})
	if err != nil {
		return err
	}
	tasks := append(tasks(env, r), daemon.TaskFunc("deletion of flows", forgetter.Run))
	ready := daemon.Readiness(tasks...)
	// A node may be without linkd: then there is nothing to watch, ever.
	tasks = append(tasks, daemon.Watch(env.Log, "watch of leases", r.Changed.Fire, ownership.Links(env.StateDir)))
	tasks = append(tasks, daemon.Socket(env.StateDir, ownership.Vipd, daemon.Handler(daemon.Answers{
		Healthy: func(ctx context.Context) error { return pulse.Check(ctx, r.Pulse) },
		Ready:   ready,
		Status:  func(context.Context) (any, error) { return r.Report(), nil },
		Metrics: metrics.Handler(registry),
	})))
	leave, err := daemon.RunUntilReleased(ctx, env, tasks...)
	if err == nil && leave == daemon.CleanUp {
		return r.CleanUp()
	}
	return err
}

// opener returns how the reconciler opens the kernel. Whether the kernel can
// do a fence is found out once: it is an error while the answer is not known.
func opener(log *slog.Logger, probe func(table string) error) func(string) (kernel.Kernel, bool, error) {
	var tried, can bool
	return func(table string) (kernel.Kernel, bool, error) {
		if table == "" {
			return kernel.NewLinux(""), false, nil
		}
		if !tried {
			err := probe(table)
			switch {
			case err != nil && !kernel.Lacking(err):
				return nil, false, err
			case err != nil:
				log.Warn("no fence in the kernel: short address lifetimes take its place", "err", err)
			}
			tried, can = true, err == nil
		}
		if !can {
			table = ""
		}
		return kernel.NewLinux(table), can, nil
	}
}

// tasks are the loop and everything that wakes it.
func tasks(env *daemon.Env, r *reconcile.Reconciler) []daemon.Task {
	return []daemon.Task{
		daemon.TaskFunc("reconcile loop", r.Run),
		daemon.Watch(env.Log, "watch of the grant", r.Renewed.Fire, ownership.Dir(env.StateDir, ownership.Elector)),
		daemon.Watch(env.Log, "watch of VIPs", r.Changed.Fire, ownership.VIPs(env.StateDir, ownership.Elector)),
		daemon.Resync(r.Changed),
		daemon.Follow("watch of addresses", r.Kernel.Fire, func(ctx context.Context, fire func()) error {
			return netsafe.Monitor(ctx, unix.NETLINK_ROUTE, matters(r), fire, unix.RTNLGRP_LINK,
				unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR, unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV6_ROUTE)
		}),
		daemon.Follow("watch of the fence", r.Kernel.Fire, func(ctx context.Context, fire func()) error {
			return watchFence(ctx, env.Log, fire)
		}),
	}
}

// matters says which messages of the kernel a pass may have to answer: of the
// many about specific routes only that one of ours is gone.
func matters(r *reconcile.Reconciler) func(syscall.NetlinkMessage) bool {
	return func(m syscall.NetlinkMessage) bool {
		return netsafe.NotASpecificRoute(m) || netsafe.LostRoute(m, uint8(r.RouteProtocol.Load()))
	}
}

// watchFence fires when somebody removes a part of a fence. Elements are not
// watched: each prolongation of a grant replaces some.
func watchFence(ctx context.Context, log *slog.Logger, fire func()) error {
	lost := func(m syscall.NetlinkMessage) bool {
		switch int(m.Header.Type) &^ (unix.NFNL_SUBSYS_NFTABLES << 8) {
		case unix.NFT_MSG_DELTABLE, unix.NFT_MSG_DELCHAIN, unix.NFT_MSG_DELRULE, unix.NFT_MSG_DELSET:
			return bytes.Contains(m.Data, []byte(kernel.TableName("")))
		}
		return false
	}
	err := netsafe.Monitor(ctx, unix.NETLINK_NETFILTER, lost, fire, unix.NFNLGRP_NFTABLES)
	if errors.Is(err, unix.EPROTONOSUPPORT) || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EINVAL) {
		log.Info("no nf_tables to watch", "err", err)
		fire()
		<-ctx.Done()
		return nil
	}
	if err != nil {
		return fmt.Errorf("watching nf_tables: %w", err)
	}
	return nil
}
