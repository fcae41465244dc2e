package reconcile

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/vipod/vipod/arpd/internal/engine"
	"github.com/vipod/vipod/shared/ownership"
	"github.com/vipod/vipod/shared/pulse"
	"github.com/vipod/vipod/shared/report"
	"github.com/vipod/vipod/shared/schema"
	"github.com/vipod/vipod/shared/trigger"
)

// maxRest is the longest rest after a report, however long it took.
const maxRest = 100 * time.Millisecond

// Reporter is the loop that writes the daemon's documents.
type Reporter struct {
	log       *slog.Logger
	engine    *engine.Engine
	reconcile *Reconciler
	// Wake makes it look for changes.
	Wake *trigger.Trigger
	// Pulse asks the loop whether it lives.
	Pulse   *pulse.Pulse
	reports *report.Reporter
	gauge   *prometheus.GaugeVec
	shown   map[claimed]bool // on the gauge
}

// NewReporter returns a reporter that writes into the daemon's directory.
// wake is its trigger, which r and e fire.
func NewReporter(log *slog.Logger, stateDir, boot string, e *engine.Engine, r *Reconciler, wake *trigger.Trigger, reg prometheus.Registerer) (*Reporter, error) {
	reports, err := report.New(log, stateDir, ownership.Arpd, boot)
	if err != nil {
		return nil, err
	}
	gauge := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "vipod_arpd_conflict",
		Help: "1 while another host claims the address.",
	}, []string{"key", "address"})
	reg.MustRegister(gauge)
	return &Reporter{
		log: log, engine: e, reconcile: r, Wake: wake, Pulse: pulse.New("reporting loop"), reports: reports, gauge: gauge,
	}, nil
}

// claimed is an address that another host claims.
type claimed struct{ key, address string }

// Run writes until ctx ends.
func (r *Reporter) Run(ctx context.Context) error {
	retry := time.NewTimer(never)
	defer retry.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.Pulse.C():
			continue
		case <-r.Wake.C():
		case <-retry.C:
		}
		began := time.Now()
		r.write()
		if wait, ok := r.reports.Finish(); !ok {
			retry.Reset(wait)
			continue
		}
		// While many addresses are being announced no more than half of a
		// processor goes into reports about them.
		time.Sleep(min(time.Since(began), maxRest))
	}
}

// write brings all documents up to date; those that did not change stay.
func (r *Reporter) write() {
	result, states := r.reconcile.Result(), r.engine.States()
	current, conflicts := map[string]bool{}, map[claimed]bool{}
	for _, v := range result.Plan.VIPs {
		current[v.Key] = true
		s := statusOf(v, states)
		r.logChanges(s)
		for _, a := range s.Addresses {
			if a.ConflictMAC != "" && v.State == schema.StateActive {
				conflicts[claimed{v.Key, a.IP.String()}] = true
			}
		}
		r.reports.VIP(s)
	}
	r.show(conflicts)
	for _, key := range r.reports.Keys() {
		if !current[key] && result.Documents.Complete {
			r.reports.Remove(key)
		}
	}
	r.reports.Daemon(schema.Daemon{
		Observed:   result.Documents.Seen(),
		Conditions: []schema.Condition{report.Ready(result.Documents.Node != nil, result.Err), result.Documents.Problems.Condition()},
	})
}

// show brings the gauge up to date.
func (r *Reporter) show(conflicts map[claimed]bool) {
	for c := range r.shown {
		if !conflicts[c] {
			r.gauge.DeleteLabelValues(c.key, c.address)
		}
	}
	for c := range conflicts {
		r.gauge.WithLabelValues(c.key, c.address).Set(1)
	}
	r.shown = conflicts
}

// logChanges logs conditions whose status is new; of a new document only what
// is not as everybody expects at first.
func (r *Reporter) logChanges(s schema.Status) {
	last, _ := r.reports.Last(s.Key)
	for _, c := range s.Conditions {
		stranger := c.Type == schema.ConditionConflict && c.Status == schema.True ||
			c.Type == schema.ConditionUnclaimed && c.Status == schema.False
		old, known := schema.FindCondition(last.Conditions, c.Type)
		if known && old.Status == c.Status || !known && c.Status != schema.True && !stranger {
			continue
		}
		level := slog.LevelInfo
		if stranger {
			level = slog.LevelWarn
		}
		r.log.Log(context.Background(), level, "condition", "vip", s.Key, "type", c.Type, "status", c.Status,
			"reason", c.Reason, "message", c.Message)
	}
}

// CleanUp removes all documents, when the pod goes for good.
func (r *Reporter) CleanUp() error { return r.reports.CleanUp() }
