package metricsd

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/vipod/vipod/metricsd/internal/gather"
	"github.com/vipod/vipod/metricsd/internal/web"
	"github.com/vipod/vipod/shared/daemon"
	"github.com/vipod/vipod/shared/intent"
	"github.com/vipod/vipod/shared/ownership"
	"github.com/vipod/vipod/shared/pulse"
	"github.com/vipod/vipod/shared/report"
	"github.com/vipod/vipod/shared/schema"
	"github.com/vipod/vipod/shared/trigger"
)

// conditionListening, in metricsd/daemon.json: the endpoint is where it should
// be.
const conditionListening = "Listening"

// reconciler makes the listener match the node's settings and reports.
type reconciler struct {
	log      *slog.Logger
	gatherer *gather.Gatherer
	server   *web.Server
	reports  *report.Reporter
	options  *Options
	// renewed wakes it for node.json and grant.json, which are written at every
	// renewal, changed for anything else.
	renewed, changed *trigger.Trigger
	pulse            *pulse.Pulse

	mu        sync.Mutex
	listening web.State
}

// tasks returns the parts of the daemon that follow the state directory.
func (r *reconciler) tasks(stateDir string) []daemon.Task {
	return []daemon.Task{
		daemon.TaskFunc("reconcile loop", r.run),
		daemon.TaskFunc("listener", func(ctx context.Context, ready func()) error {
			ready()
			r.server.Run(ctx)
			return nil
		}),
		daemon.Watch(r.log, "watch of settings", r.renewed.Fire, ownership.Dir(stateDir, ownership.Elector)),
		daemon.Watch(r.log, "watch of VIPs", r.changed.Fire, ownership.VIPs(stateDir, ownership.Elector),
			ownership.VIPs(stateDir, ownership.Vipd), ownership.VIPs(stateDir, ownership.Arpd),
			ownership.VIPs(stateDir, ownership.Bgpd)),
		daemon.Resync(r.changed),
	}
}

func (r *reconciler) run(ctx context.Context, ready func()) error {
	problems := intent.Problems{}
	retry := time.NewTimer(0)
	defer retry.Stop()
	r.changed.Fire()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.pulse.C():
			continue
		case <-r.changed.C():
			problems = r.gatherer.Look().Problems
		case <-r.renewed.C():
		case <-retry.C:
		}
		r.pass(problems)
		if wait, ok := r.reports.Finish(); !ok {
			retry.Reset(wait)
		}
		ready()
	}
}

// pass follows the settings and writes the report.
func (r *reconciler) pass(problems intent.Problems) {
	node := r.gatherer.Reader.Node()
	address, known := r.address(node)
	if known {
		r.server.Listen(address)
	}
	r.mu.Lock()
	state := r.listening
	r.mu.Unlock()
	doc := schema.Daemon{Conditions: []schema.Condition{
		report.Ready(true, nil), listening(state, known), problems.Condition(),
	}}
	if node != nil {
		doc.Observed = node.Seen()
	}
	r.reports.Daemon(doc)
}

// address returns where to listen. Before elector has said so once nothing is
// known: a port that was switched off must not be open for a moment.
func (r *reconciler) address(node *schema.Node) (address string, known bool) {
	switch {
	case r.options.Listen.given:
		return r.options.Listen.value, true
	case node == nil:
		return "", false
	}
	return node.Settings.MetricsAddress, true
}

// setListening takes the listener's state, and reports it.
func (r *reconciler) setListening(s web.State) {
	r.mu.Lock()
	r.listening = s
	r.mu.Unlock()
	r.renewed.Fire()
}

func listening(s web.State, known bool) schema.Condition {
	c := schema.Condition{Type: conditionListening, Status: schema.True, Reason: "Listening", Message: "on " + s.Address}
	switch {
	case !known:
		c.Status, c.Reason, c.Message = schema.Unknown, "NoSettings", "nothing known from elector yet"
	case s.Err != nil:
		c.Status, c.Reason, c.Message = schema.False, "CannotListen", s.Err.Error()
	case s.Address == "":
		c.Reason, c.Message = "Off", "no address is set"
	}
	return c
}
