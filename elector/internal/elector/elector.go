// Package elector wires the parts of the daemon together.
package elector

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/vipod/vipod/elector/internal/config"
	"github.com/vipod/vipod/elector/internal/kube"
	"github.com/vipod/vipod/elector/internal/names"
	"github.com/vipod/vipod/elector/internal/reconcile"
	"github.com/vipod/vipod/shared/bootclock"
	"github.com/vipod/vipod/shared/daemon"
	"github.com/vipod/vipod/shared/metrics"
	"github.com/vipod/vipod/shared/ownership"
	"github.com/vipod/vipod/shared/sock"
	"github.com/vipod/vipod/shared/trigger"
)

// Elector is the daemon.
type Elector struct {
	// LookupEnv reads the environment, as os.LookupEnv does.
	LookupEnv func(string) (string, bool)
	// Environ lists the environment, as os.Environ does; nil lists nothing.
	Environ func() []string
	// Stderr is where lines go that vip_loglevel asks for beyond --log-level.
	Stderr io.Writer

	flags config.Flags
}

// Flags adds the settings to fs.
func (e *Elector) Flags(fs *flag.FlagSet) { e.flags = config.AddFlags(fs) }

func (e *Elector) config() (*config.Config, error) {
	return config.Parse(config.Sources{
		Flags: e.flags, LookupEnv: e.LookupEnv, Environ: e.Environ, ReadFile: os.ReadFile, Hostname: os.Hostname,
	})
}

// Check validates the settings without asking anybody, and warns of those
// that change nothing. It is also the first thing that run does.
func (e *Elector) Check(env *daemon.Env) error {
	cfg, err := e.config()
	if err != nil {
		return err
	}
	for _, notice := range cfg.Notices {
		env.Log.Warn("setting", "notice", notice)
	}
	return nil
}

// Status prints the answer to /status as tables.
func (e *Elector) Status(out io.Writer, answer []byte) error {
	var report reconcile.Report
	if err := json.Unmarshal(answer, &report); err != nil {
		return fmt.Errorf("reading status: %w", err)
	}
	return report.Print(out)
}

// Run works until ctx ends and everything is handed over.
func (e *Elector) Run(ctx context.Context, env *daemon.Env) error {
	cfg, err := e.config()
	if err != nil {
		return err
	}
	log := env.Log
	if !log.Enabled(ctx, cfg.LogLevel) { // what vip_loglevel asks for beyond --log-level
		log = slog.New(slog.NewTextHandler(e.Stderr, &slog.HandlerOptions{Level: cfg.LogLevel}))
	}
	boot, err := bootclock.ID()
	if err != nil {
		return err
	}
	writer, err := kube.Writer(boot)
	if err != nil {
		return err
	}
	registry := metrics.New()
	m := reconcile.NewMetrics(registry, cfg.NodeName)
	changed := trigger.New()
	cluster, err := newCluster(log, cfg, writer, m, changed)
	if err != nil {
		return err
	}
	opts := reconcile.Options{
		Log: log, Config: cfg, StateDir: env.StateDir, BootID: boot, Writer: writer, API: cluster, Changed: changed,
		Ask: asker(env.StateDir), Server: kube.ServerHealth(), UID: ownership.UID, Metrics: m, Query: names.System,
	}
	if cfg.ControlPlane.Enabled {
		if opts.Healthy, err = kube.LocalHealth(cfg.ControlPlane.Health.Address, cfg.ControlPlane.Health.CAPath,
			cfg.ControlPlane.Port); err != nil {
			return err
		}
	}
	r, err := reconcile.New(opts)
	if err != nil {
		return err
	}
	loop := daemon.TaskFunc("reconciler", r.Run)
	return e.runTasks(ctx, log, env.StateDir, cluster, loop, handler(r, registry, daemon.Readiness(loop)))
}

// newCluster prepares what is followed in the cluster.
func newCluster(log *slog.Logger, cfg *config.Config, writer string, m *reconcile.Metrics, changed *trigger.Trigger) (*kube.Cluster, error) {
	client, err := kube.NewClient(log, kube.Options{Kubeconfig: cfg.Kubeconfig, Host: cfg.APIServer, Observe: m.Request})
	if err != nil {
		return nil, err
	}
	opts := kube.ClusterOptions{
		Identity: kube.Identity{
			Node: cfg.NodeName, Writer: writer, Instance: cfg.InstanceName, Protocol: cfg.Protocol, Duration: cfg.LeaseDuration,
		},
		Namespace: cfg.Namespace, Services: cfg.Services.Enabled, ServicesNamespace: cfg.Services.Namespace,
		Stall: 2*cfg.RetryPeriod + cfg.RetryPeriod/2,
		Changed: func(resource, kind string) {
			if resource == "services" {
				m.ServiceEvent(kind)
			}
			changed.Fire()
		},
	}
	opts.NodeAnnotations = cfg.BGP.AnnotationPrefix
	if cp := cfg.ControlPlane; cfg.ElectsControlPlane() {
		opts.LockNamespace, opts.LockName, opts.Addresses = cp.LeaseNamespace, cp.LeaseName, cp.Addresses
	}
	return kube.NewCluster(client, opts), nil
}

// asker returns the question by which a daemon's health is known.
func asker(stateDir string) func(ctx context.Context, daemon string) error {
	clients := map[string]*sock.Client{}
	for _, name := range []string{ownership.Vipd, ownership.Linkd, ownership.Arpd, ownership.Bgpd, ownership.Egressd} {
		clients[name] = sock.NewClient(stateDir, name)
	}
	return func(ctx context.Context, daemon string) error {
		_, err := clients[daemon].Get(ctx, "/healthz")
		return err
	}
}
