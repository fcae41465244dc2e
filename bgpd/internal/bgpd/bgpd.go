// Package bgpd wires the daemon: the reconcile loop, the speaker, what wakes
// them, and the socket.
package bgpd

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"

	"github.com/vipod/vipod/bgpd/internal/reconcile"
	"github.com/vipod/vipod/bgpd/internal/secret"
	"github.com/vipod/vipod/bgpd/internal/speaker"
	"github.com/vipod/vipod/shared/bootclock"
	"github.com/vipod/vipod/shared/daemon"
	"github.com/vipod/vipod/shared/metrics"
	"github.com/vipod/vipod/shared/ownership"
	"github.com/vipod/vipod/shared/pulse"
	"github.com/vipod/vipod/shared/trigger"
)

// Daemon is bgpd with its own flags.
type Daemon struct {
	// Getenv is os.Getenv.
	Getenv func(string) string

	passwords string
}

// DefaultPasswords is where the passwords of peers are mounted.
const DefaultPasswords = "/etc/vipod/bgp"

// Flags adds the daemon's own flags.
func (d *Daemon) Flags(fs *flag.FlagSet) {
	dir := d.Getenv("VIPOD_BGP_PASSWORDS")
	if dir == "" {
		dir = DefaultPasswords
	}
	fs.StringVar(&d.passwords, "passwords", dir,
		"directory with a file per peer, called by its name or address, that holds its password (environment: VIPOD_BGP_PASSWORDS)")
}

// Check says whether the passwords' directory can be read, if it is there.
func (d *Daemon) Check(*daemon.Env) error {
	_, err := os.ReadDir(d.passwords)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("reading passwords: %w", err)
	}
	return nil
}

// Run works until ctx ends and elector has no more need of it.
func (d *Daemon) Run(ctx context.Context, env *daemon.Env) error {
	boot, err := bootclock.ID()
	if err != nil {
		return err
	}
	registry := metrics.New()
	news := trigger.New()
	s := speaker.New(env.Log, news.Fire)
	r, err := reconcile.New(reconcile.Config{
		Log: env.Log, StateDir: env.StateDir, Boot: boot, Speaker: s, Metrics: reconcile.NewMetrics(registry),
		Secrets: secret.Source{Dir: d.passwords, Getenv: d.Getenv}, News: news,
	})
	if err != nil {
		return err
	}
	tasks := d.tasks(env, r)
	tasks = append(tasks, daemon.Socket(env.StateDir, ownership.Bgpd, daemon.Handler(daemon.Answers{
		Healthy: func(ctx context.Context) error { return pulse.Check(ctx, r.Pulses...) },
		Ready:   daemon.Readiness(tasks...),
		Status:  func(context.Context) (any, error) { return r.Report(), nil },
		Metrics: metrics.Handler(registry),
	})))
	leave, err := daemon.RunUntilReleased(ctx, env, tasks...)
	return errors.Join(err, end(env.Log, s, r, leave))
}

// end withdraws what is announced when the pod goes for good; else peers with
// graceful restart keep it for the successor.
func end(log *slog.Logger, s speaker.Speaker, r *reconcile.Reconciler, leave daemon.Leave) error {
	if leave == daemon.Keep {
		s.Leave()
		return nil
	}
	s.Close()
	log.Info("every path is withdrawn")
	return r.CleanUp()
}

// tasks are the loop and everything that wakes it.
func (d *Daemon) tasks(env *daemon.Env, r *reconcile.Reconciler) []daemon.Task {
	tasks := []daemon.Task{
		daemon.TaskFunc("reconcile loop", r.Run),
		daemon.Watch(env.Log, "watch of VIPs", r.Changed.Fire, ownership.VIPs(env.StateDir, ownership.Elector)),
		daemon.Watch(env.Log, "watch of the grant", r.Renewed.Fire, ownership.Dir(env.StateDir, ownership.Elector)),
		daemon.Resync(r.Changed),
	}
	if _, err := os.Stat(d.passwords); err == nil {
		tasks = append(tasks, daemon.Watch(env.Log, "watch of passwords", r.Changed.Fire, d.passwords))
	}
	return tasks
}
