package gather

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/vipod/vipod/metricsd/internal/pod"
	"github.com/vipod/vipod/shared/ownership"
	"github.com/vipod/vipod/shared/version"
)

// Gatherer makes pages and reports of one pod.
type Gatherer struct {
	Log      *slog.Logger
	Reader   *pod.Reader
	Siblings map[string]Sibling
	// Timeout is how long a sibling may take.
	Timeout time.Duration
	// Own are the process metrics of metricsd itself.
	Own      prometheus.Gatherer
	Counters *Counters

	mu   sync.Mutex
	last map[string]Reason // what was wrong with each component, to log changes only
}

// Look reads the files and counts what changed since the last look.
func (g *Gatherer) Look() pod.Snapshot {
	snapshot, finished := g.Reader.Look()
	g.Counters.Failovers(finished)
	return snapshot
}

// Page returns the metrics of the whole pod as text. A sibling that answers
// nothing or nonsense is missing on the page, and counted on the next one.
func (g *Gatherer) Page(ctx context.Context) ([]byte, error) {
	snapshot := g.Look()
	results := each(ctx, g.Timeout, g.enabled(snapshot), metrics)
	results[ownership.Metricsd] = g.own()
	f := files{snapshot: snapshot, up: map[string]bool{}}
	for name, r := range results {
		f.up[name] = r.Up
	}
	reserved, err := g.Counters.gather(f)
	if err != nil {
		return nil, fmt.Errorf("gathering own metrics: %w", err)
	}
	page := NewPage(reserved)
	for _, d := range ownership.Table() {
		r, asked := results[d.Name]
		if err := page.Add(d.Name, r.Families); err != nil {
			r.Err, r.Reason = err, ReasonConflict
		}
		if asked {
			g.note(d.Name, r)
		}
	}
	return page.Text()
}

// Report returns the whole pod for a person.
func (g *Gatherer) Report(ctx context.Context) pod.Report {
	snapshot := g.Look()
	answers := each(ctx, g.Timeout, g.enabled(snapshot), answer)
	answers[ownership.Metricsd] = pod.Answer{Up: true, Ready: true, Version: version.Version}
	return snapshot.Report(answers)
}

func (g *Gatherer) enabled(s pod.Snapshot) map[string]Sibling {
	siblings := map[string]Sibling{}
	for _, name := range s.Components() {
		if sibling, ok := g.Siblings[name]; ok {
			siblings[name] = sibling
		}
	}
	return siblings
}

func (g *Gatherer) own() Result {
	r := Result{Up: true, Families: map[string]*dto.MetricFamily{}}
	var list []*dto.MetricFamily
	if list, r.Err = g.Own.Gather(); r.Err != nil {
		r.Reason = ReasonMalformed
	}
	for _, mf := range list {
		r.Families[mf.GetName()] = mf
	}
	return r
}

// note counts what is wrong with a component's metrics, and logs it when it
// changes.
func (g *Gatherer) note(name string, r Result) {
	if r.Err != nil {
		g.Counters.errors.WithLabelValues(name, string(r.Reason)).Inc()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.last[name] == r.Reason {
		return
	}
	if g.last == nil {
		g.last = map[string]Reason{}
	}
	g.last[name] = r.Reason
	if r.Err != nil {
		g.Log.Warn("metrics cannot be used", "component", name, "reason", string(r.Reason), "err", r.Err)
	} else {
		g.Log.Info("metrics can be used again", "component", name)
	}
}
