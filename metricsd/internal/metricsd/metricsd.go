// Package metricsd puts the daemon together: it follows the state directory,
// serves the pod's pages where the node's settings say, and reports.
//
// Inputs: the documents of all daemons, their sockets. Outputs:
// metricsd/daemon.json, the pages. It owns nothing outside its directory.
package metricsd

import (
	"context"
	"time"

	"github.com/vipod/vipod/metricsd/internal/gather"
	"github.com/vipod/vipod/metricsd/internal/pod"
	"github.com/vipod/vipod/metricsd/internal/web"
	"github.com/vipod/vipod/shared/bootclock"
	"github.com/vipod/vipod/shared/daemon"
	"github.com/vipod/vipod/shared/metrics"
	"github.com/vipod/vipod/shared/ownership"
	"github.com/vipod/vipod/shared/report"
	"github.com/vipod/vipod/shared/sock"
	"github.com/vipod/vipod/shared/trigger"
)

// Times between two looks that nothing asked for.
const (
	resyncLow  = 30 * time.Second
	resyncHigh = 60 * time.Second
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
	listener, err := sock.Listen(env.StateDir, ownership.Metricsd)
	if err != nil {
		return err
	}
	g := newGatherer(env, boot)
	r := &reconciler{
		log: env.Log, gatherer: g, reports: reports, options: o,
		changed: trigger.New(), settings: trigger.New(),
	}
	r.server = web.NewServer(env.Log, web.Handler(env.Log, g), r.setListening)
	tasks := r.tasks(env.StateDir)
	handler := socketHandler(env.Log, g, daemon.Readiness(tasks...))
	tasks = append(tasks, daemon.TaskFunc("socket", func(ctx context.Context, ready func()) error {
		ready()
		return sock.Serve(ctx, listener, handler)
	}))
	// The pages are wanted most while the pod stops.
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	context.AfterFunc(ctx, func() {
		daemon.AwaitStop(work, env.Log, env.StateDir)
		stop()
	})
	return daemon.RunTasks(work, env.Log, tasks...)
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
