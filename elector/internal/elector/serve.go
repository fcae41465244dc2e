package elector

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/vipod/vipod/elector/internal/kube"
	"github.com/vipod/vipod/elector/internal/reconcile"
	"github.com/vipod/vipod/shared/daemon"
	"github.com/vipod/vipod/shared/metrics"
	"github.com/vipod/vipod/shared/ownership"
	"github.com/vipod/vipod/shared/sock"
)

// runTasks runs the loop until ctx ends and it has handed everything over; the
// watches and the socket go on until then.
func (e *Elector) runTasks(ctx context.Context, log *slog.Logger, stateDir string, cluster *kube.Cluster, loop daemon.Task, h http.Handler) error {
	l, err := sock.Listen(stateDir, ownership.Elector)
	if err != nil {
		return err
	}
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
			daemon.TaskFunc("socket", func(ctx context.Context, ready func()) error {
				ready()
				return sock.Serve(ctx, l, h)
			}))
	}()
	done := make(chan error, 1)
	loopCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		err := daemon.RunTasks(loopCtx, log, loop)
		done <- err
	}()
	select {
	case err = <-others: // without the API or the socket the loop is of no use
		cancel()
		<-done
		return err
	case err = <-done:
		stop()
		<-others
		return err
	}
}

// handler answers on the socket.
func handler(r *reconcile.Reconciler, registry *prometheus.Registry, ready func() error) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, req *http.Request) {
		answer(w, r.Healthz(req.Context()))
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) { answer(w, ready()) })
	mux.Handle("GET /metrics", metrics.Handler(registry))
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, req *http.Request) {
		report, err := r.Report(req.Context())
		if err != nil {
			answer(w, err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(report) // the asker is gone, if anything
	})
	return mux
}

func answer(w http.ResponseWriter, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	_, _ = w.Write([]byte("ok\n")) // the asker is gone, if anything
}
