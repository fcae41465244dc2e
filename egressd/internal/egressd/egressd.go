// Package egressd wires the daemon: the reconcile loop, what wakes it, and the
// socket.
package egressd

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/vipod/vipod/egressd/internal/kernel"
	"github.com/vipod/vipod/egressd/internal/mirror"
	"github.com/vipod/vipod/egressd/internal/plan"
	"github.com/vipod/vipod/egressd/internal/reconcile"
	"github.com/vipod/vipod/egressd/internal/way"
	"github.com/vipod/vipod/egressd/internal/wg"
	"github.com/vipod/vipod/shared/bootclock"
	"github.com/vipod/vipod/shared/daemon"
	"github.com/vipod/vipod/shared/metrics"
	"github.com/vipod/vipod/shared/netsafe"
	"github.com/vipod/vipod/shared/ownership"
	"github.com/vipod/vipod/shared/pulse"
)

// Daemon is egressd with its own flags.
type Daemon struct {
	// Getenv is os.Getenv.
	Getenv func(string) string

	adopt   bool
	tunnels string
}

// DefaultTunnels is where the file of tunnels is mounted.
const DefaultTunnels = "/etc/vipod/wireguard/tunnels"

// Flags adds the daemon's own flags.
func (d *Daemon) Flags(fs *flag.FlagSet) {
	fs.BoolVar(&d.adopt, "adopt-kube-vip", d.Getenv("VIPOD_ADOPT_KUBE_VIP") == "true",
		"remove at start what kube-vip left in nftables and iptables-nft; without it that is reported (environment: VIPOD_ADOPT_KUBE_VIP)")
	file := d.Getenv("VIPOD_WIREGUARD_TUNNELS")
	if file == "" {
		file = DefaultTunnels
	}
	fs.StringVar(&d.tunnels, "tunnels", file,
		"file of WireGuard tunnels, the key \"tunnels\" of kube-vip's Secret (environment: VIPOD_WIREGUARD_TUNNELS)")
}

// Check says whether the file of tunnels is good, if it is there.
func (d *Daemon) Check(*daemon.Env) error { return reconcile.CheckTunnels(d.tunnels) }

// Run is the daemon: it works until ctx ends and then until the order of
// stopping lets it go.
func (d *Daemon) Run(ctx context.Context, env *daemon.Env) error {
	boot, err := bootclock.ID()
	if err != nil {
		return err
	}
	var opened current
	registry := metrics.New()
	r, err := reconcile.New(reconcile.Config{
		Log: env.Log, StateDir: env.StateDir, Boot: boot, Open: opened.open,
		Mirror: func(instance string) reconcile.Mirror { return mirror.Linux{Instance: instance} }, Leftovers: d.leftovers(env.Log),
		Ways: func(instance string, protocol int) reconcile.Ways {
			return way.Linux{Instance: instance, Protocol: protocol}
		},
		Metrics: reconcile.NewMetrics(registry, opened.dropped),
		Tunnels: reconcile.TunnelConfig{
			File: d.tunnels, Available: wg.Available,
			Open: func(protocol uint8) wg.Kernel { return wg.Linux{Protocol: protocol} },
		},
	})
	if err != nil {
		return err
	}
	tasks := append(tasks(env, r, &opened), d.tunnelTasks(env, r)...)
	tasks = append(tasks, daemon.Socket(env.StateDir, ownership.Egressd, daemon.Handler(daemon.Answers{
		Healthy: func(ctx context.Context) error { return pulse.Check(ctx, r.Pulse) },
		Ready:   daemon.Readiness(tasks...),
		Status:  func(context.Context) (any, error) { return r.Report(), nil },
		Metrics: metrics.Handler(registry),
	})))
	leave, err := daemon.RunUntilReleased(ctx, env, tasks...)
	if err == nil && leave == daemon.CleanUp {
		err = r.CleanUp()
	}
	return errors.Join(err, opened.close())
}

// current is the kernel that is open, for those that ask from elsewhere.
type current struct{ kernel atomic.Pointer[kernel.Linux] }

func (c *current) open(instance string) kernel.Kernel {
	k := kernel.NewLinux(instance)
	c.kernel.Store(k)
	return k
}

func (c *current) dropped() (map[plan.Kind]uint64, error) {
	if k := c.kernel.Load(); k != nil {
		return k.Dropped()
	}
	return nil, nil
}

func (c *current) ours(port uint32) bool {
	k := c.kernel.Load()
	return k != nil && k.Ours(port)
}

func (c *current) close() error {
	if k := c.kernel.Load(); k != nil {
		return k.Close()
	}
	return nil
}

// tasks are the loop and everything that wakes it.
func tasks(env *daemon.Env, r *reconcile.Reconciler, k *current) []daemon.Task {
	return []daemon.Task{
		daemon.TaskFunc("reconcile loop", r.Run),
		daemon.Watch(env.Log, "watch of the grant", r.Renewed.Fire, ownership.Dir(env.StateDir, ownership.Elector)),
		daemon.Watch(env.Log, "watch of VIPs", r.Changed.Fire, ownership.VIPs(env.StateDir, ownership.Elector)),
		daemon.Watch(env.Log, "watch of egress", r.Changed.Fire, ownership.Egress(env.StateDir)),
		daemon.Resync(r.Resync),
		daemon.Follow("watch of tables", r.Touched, func(ctx context.Context, fire func()) error {
			return watchTables(ctx, k, fire)
		}),
	}
}

// watchTables fires when somebody else changes a table of ours.
func watchTables(ctx context.Context, k *current, fire func()) error {
	foreign := func(m syscall.NetlinkMessage) bool {
		return !k.ours(m.Header.Pid) && slices.ContainsFunc(plan.Kinds, func(kind plan.Kind) bool {
			return bytes.Contains(m.Data, []byte(kind.TableName("")))
		})
	}
	err := netsafe.Monitor(ctx, unix.NETLINK_NETFILTER, foreign, fire, unix.NFNLGRP_NFTABLES)
	if err != nil {
		return fmt.Errorf("watching nf_tables: %w", err)
	}
	return nil
}
