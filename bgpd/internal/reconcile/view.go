package reconcile

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/vipod/vipod/bgpd/internal/plan"
	"github.com/vipod/vipod/bgpd/internal/speaker"
	"github.com/vipod/vipod/shared/intent"
	"github.com/vipod/vipod/shared/ownership"
	"github.com/vipod/vipod/shared/pulse"
	"github.com/vipod/vipod/shared/report"
	"github.com/vipod/vipod/shared/trigger"
)

// view is what a pass left behind. Nobody changes it.
type view struct {
	docs     intent.Documents
	wanted   speaker.Wanted
	problems map[string]string
	why      map[string]plan.Reason
	set      bool
}

// names returns the configured peers in order.
func (v *view) names() []string {
	all := map[string]bool{}
	if b := v.docs.Settings().BGP; b != nil {
		for _, p := range b.Peers {
			all[p.Name] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// reporter writes the reports about the last view. It has a goroutine of its
// own, so that no path waits for thousands of reports.
type reporter struct {
	log     *slog.Logger
	speaker speaker.Speaker
	metrics *Metrics
	wake    *trigger.Trigger
	pulse   *pulse.Pulse
	seen    atomic.Pointer[view]
	answer  atomic.Pointer[snapshot]

	// What follows belongs to the goroutine of run.
	*view
	reports *report.Reporter
}

func newReporter(c Config) (*reporter, error) {
	reports, err := report.New(c.Log, c.StateDir, ownership.Bgpd, c.Boot)
	if err != nil {
		return nil, err
	}
	r := &reporter{
		log: c.Log, speaker: c.Speaker, metrics: c.Metrics, wake: c.News, pulse: pulse.New("reporter"),
		view: &view{}, reports: reports,
	}
	r.seen.Store(r.view)
	r.answer.Store(&snapshot{})
	return r, nil
}

// show gives it the view to report about.
func (r *reporter) show(v *view) {
	r.seen.Store(v)
	r.wake.Fire()
}

const (
	// settle is how long a report waits for what it is about: sessions are to
	// have the processor first.
	settle = 10 * time.Millisecond
	// rest is the least time between two reports: thousands of paths at once
	// are no reason for as many reports.
	rest = 20 * time.Millisecond
)

// run reports until ctx ends; wait is for how long nothing is due.
func (r *reporter) run(ctx context.Context, wait time.Duration) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	var last time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.pulse.C():
			continue
		case <-r.wake.C():
		case <-timer.C:
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(max(settle, time.Until(last.Add(rest)))):
		}
		timer.Reset(r.reportAll())
		last = time.Now()
	}
}
