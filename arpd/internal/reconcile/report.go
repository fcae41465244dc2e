package reconcile

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/vipod/vipod/arpd/internal/engine"
	"github.com/vipod/vipod/arpd/internal/pulse"
	"github.com/vipod/vipod/shared/ownership"
	"github.com/vipod/vipod/shared/schema"
	"github.com/vipod/vipod/shared/statefile"
	"github.com/vipod/vipod/shared/trigger"
)

// daemonName is the document about the daemon itself.
const daemonName = "daemon"

// maxRest is the longest rest after a report, however long it took.
const maxRest = 100 * time.Millisecond

// Reporter is the loop that writes the daemon's documents.
type Reporter struct {
	log       *slog.Logger
	engine    *engine.Engine
	reconcile *Reconciler
	// Wake makes it look for changes.
	Wake    *trigger.Trigger
	pulse   *pulse.Pulse
	self    *statefile.Writer
	vips    *statefile.Writer
	backoff trigger.Backoff
	gauge   *prometheus.GaugeVec
	shown   map[claimed]bool // on the gauge
	// conditions are those last reported, by key of the document, and own
	// those about the daemon.
	conditions map[string][]schema.Condition
	own        []schema.Condition
}

// NewReporter returns a reporter that writes into the daemon's directory.
// wake is its trigger, which r and e fire.
func NewReporter(log *slog.Logger, stateDir, boot string, e *engine.Engine, r *Reconciler, wake *trigger.Trigger, reg prometheus.Registerer) (*Reporter, error) {
	instance := statefile.Instance(boot)
	self, err := statefile.NewWriter(ownership.Dir(stateDir, ownership.Arpd), instance)
	if err != nil {
		return nil, err
	}
	vips, err := statefile.NewWriter(ownership.VIPs(stateDir, ownership.Arpd), instance)
	if err != nil {
		return nil, err
	}
	gauge := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "vipod_arpd_conflict",
		Help: "1 while another host claims the address.",
	}, []string{"key", "address"})
	reg.MustRegister(gauge)
	return &Reporter{
		log: log, engine: e, reconcile: r, Wake: wake, pulse: pulse.New("reporting loop"), self: self, vips: vips,
		backoff: trigger.Backoff{Min: 100 * time.Millisecond, Max: 10 * time.Second},
		gauge:   gauge, conditions: map[string][]schema.Condition{},
	}, nil
}

// claimed is an address that another host claims.
type claimed struct{ key, address string }

// Check returns an error if the loop is stuck.
func (r *Reporter) Check(ctx context.Context) error { return r.pulse.Check(ctx) }

// Run writes until ctx ends.
func (r *Reporter) Run(ctx context.Context) error {
	retry := time.NewTimer(never)
	defer retry.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.pulse.C():
			continue
		case <-r.Wake.C():
		case <-retry.C:
		}
		began := time.Now()
		if err := r.write(began); err != nil {
			r.log.Error("cannot write status", "err", err)
			retry.Reset(r.backoff.Failed())
			continue
		}
		r.backoff.Reset()
		// While many addresses are being announced no more than half of a
		// processor goes into reports about them.
		time.Sleep(min(time.Since(began), maxRest))
	}
}

// write brings all documents up to date; those that did not change stay.
func (r *Reporter) write(now time.Time) error {
	result, states := r.reconcile.Result(), r.engine.States()
	current, conflicts := map[string]bool{}, map[claimed]bool{}
	var errs []error
	for _, v := range result.Plan.VIPs {
		current[v.Key] = true
		s := statusOf(v, states, r.conditions[v.Key], now)
		r.note(v.Key, s.Conditions)
		for _, a := range s.Addresses {
			if a.ConflictMAC != "" && v.State == schema.StateActive {
				conflicts[claimed{v.Key, a.IP.String()}] = true
			}
		}
		if _, err := r.vips.Write(v.Key, &s); err != nil {
			errs = append(errs, err)
		}
	}
	r.show(conflicts)
	if result.Documents.Complete {
		errs = append(errs, r.remove(current))
	}
	errs = append(errs, r.writeSelf(result, now))
	return errors.Join(errs...)
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

// note keeps the conditions and logs those whose status changed; of a new
// document only what is not as everybody expects at first.
func (r *Reporter) note(key string, conditions []schema.Condition) {
	for _, c := range conditions {
		stranger := c.Type == schema.ConditionConflict && c.Status == schema.True ||
			c.Type == schema.ConditionUnclaimed && c.Status == schema.False
		old, known := schema.FindCondition(r.conditions[key], c.Type)
		if known && old.Status == c.Status || !known && c.Status != schema.True && !stranger {
			continue
		}
		level := slog.LevelInfo
		if stranger {
			level = slog.LevelWarn
		}
		r.log.Log(context.Background(), level, "condition", "vip", key, "type", c.Type, "status", c.Status,
			"reason", c.Reason, "message", c.Message)
	}
	r.conditions[key] = conditions
}

// remove removes reports about documents that are gone.
func (r *Reporter) remove(current map[string]bool) error {
	var errs []error
	for _, name := range r.vips.Names() {
		if current[name] {
			continue
		}
		delete(r.conditions, name)
		errs = append(errs, r.vips.Remove(name))
	}
	return errors.Join(errs...)
}

func (r *Reporter) writeSelf(result Result, now time.Time) error {
	ready := schema.Condition{Type: schema.ConditionReady, Status: schema.True, Reason: "Running"}
	if result.Err != nil {
		ready = schema.Condition{
			Type: schema.ConditionReady, Status: schema.False, Reason: "PassFailed", Message: result.Err.Error(),
		}
	}
	d := schema.Daemon{
		Name: ownership.Arpd, Observed: result.Documents.Seen(), Conditions: r.own,
	}
	for _, c := range []schema.Condition{ready, result.Documents.Problems.Condition()} {
		d.Conditions = schema.SetCondition(d.Conditions, c, now)
	}
	r.own = d.Conditions
	_, err := r.self.Write(daemonName, &d)
	return err
}

// CleanUp removes all documents, when the pod goes for good.
func (r *Reporter) CleanUp() error {
	return errors.Join(r.remove(nil), r.self.Remove(daemonName))
}
