// Package metricsd puts the daemon together: it follows the state directory,
// serves the pod's pages where the node's settings say, and reports.
//
// Inputs: the documents of all daemons, their sockets. Outputs:
// metricsd/daemon.json, the pages. It owns nothing outside its directory.
package metricsd

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/vipod/vipod/metricsd/internal/gather"
	"github.com/vipod/vipod/metricsd/internal/pod"
	"github.com/vipod/vipod/metricsd/internal/web"
	"github.com/vipod/vipod/shared/bootclock"
	"github.com/vipod/vipod/shared/daemon"
	"github.com/vipod/vipod/shared/metrics"
	"github.com/vipod/vipod/shared/ownership"
	"github.com/vipod/vipod/shared/pulse"
	"github.com/vipod/vipod/shared/report"
	"github.com/vipod/vipod/shared/sock"
	"github.com/vipod/vipod/shared/trigger"
)

// Run does the daemon's work until ctx ends and the pod lets it go.
func (o *Options) Run(ctx context.Context, env *daemon.Env) error {
	boot, err := bootclock.ID()
	if err != nil {
		return err
	}
	reports, err := report.New(env.Log, env.StateDir, ownership.Metricsd, boot)
	if err != nil {
		return err
	}
	g := newGatherer(env, boot)
	r := &reconciler{
		log: env.Log, gatherer: g, reports: reports, options: o,
		changed: trigger.New(), renewed: trigger.New(), pulse: pulse.New("reconcile loop"),
	}
	r.server = web.NewServer(env.Log, web.Handler(env.Log, g), r.setListening)
	tasks := r.tasks(env.StateDir)
	tasks = append(tasks, daemon.Socket(env.StateDir, ownership.Metricsd, daemon.Handler(daemon.Answers{
		Healthy: func(ctx context.Context) error { return pulse.Check(ctx, r.pulse) },
		Ready:   daemon.Readiness(tasks...),
		Status:  func(ctx context.Context) (any, error) { return g.Report(ctx), nil },
		Metrics: page(env.Log, g),
	})))
	_, err = daemon.RunUntilReleased(ctx, env, tasks...) // the pages are wanted most while the pod stops
	return err
}

// page is the page of the whole pod, also where nothing listens on TCP.
func page(log *slog.Logger, source web.Source) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, err := source.Page(r.Context())
		if err != nil {
			log.Warn("metrics page is not complete", "err", err)
		}
		w.Header().Set("Content-Type", gather.ContentType)
		_, _ = w.Write(text) // a visitor who left
	})
}

func newGatherer(env *daemon.Env, boot string) *gather.Gatherer {
	siblings, names := map[string]gather.Sibling{}, []string{}
	for _, d := range ownership.Table() {
		if d.Name != ownership.Metricsd {
			names = append(names, d.Name)
			siblings[d.Name] = sock.NewClient(env.StateDir, d.Name)
		}
	}
	return &gather.Gatherer{
		Log:      env.Log,
		Reader:   pod.NewReader(env.Log, env.StateDir, boot, bootclock.Now),
		Siblings: siblings,
		Timeout:  gather.AskTimeout,
		Own:      metrics.New(),
		Counters: gather.NewCounters(names),
	}
}
