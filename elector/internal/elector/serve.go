package elector

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/vipod/vipod/elector/internal/kube"
	"github.com/vipod/vipod/elector/internal/reconcile"
	"github.com/vipod/vipod/shared/daemon"
	"github.com/vipod/vipod/shared/metrics"
	"github.com/vipod/vipod/shared/ownership"
)

// runTasks runs the loop until ctx ends and it has handed everything over; the
// watches and the socket go on until then.
func (e *Elector) runTasks(ctx context.Context, log *slog.Logger, stateDir string, cluster *kube.Cluster, loop daemon.Task, h http.Handler) error {
	rest, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	others := make(chan error, 1)
	go func() {
		others <- daemon.RunTasks(rest, log,
			daemon.TaskFunc("cluster", func(ctx context.Context, ready func()) error {
				ready()
				cluster.Run(ctx)
				return nil
			}),
			daemon.Socket(stateDir, ownership.Elector, h))
	}()
	done := make(chan error, 1)
	loopCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		err := daemon.RunTasks(loopCtx, log, loop)
		done <- err
	}()
	select {
	case err := <-others: // without the API or the socket the loop is of no use
		cancel()
		<-done
		return err
	case err := <-done:
		stop()
		<-others
		return err
	}
}

// handler answers on the socket.
func handler(r *reconcile.Reconciler, registry *prometheus.Registry, ready func() error) http.Handler {
	return daemon.Handler(daemon.Answers{
		Healthy: r.Healthz, Ready: ready, Metrics: metrics.Handler(registry),
		Status: func(ctx context.Context) (any, error) { return r.Report(ctx) },
	})
}
