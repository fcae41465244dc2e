package pod

import (
	"time"

	"github.com/vipod/vipod/shared/schema"
)

// Failover is a VIP that this node took over: from the moment that elector's
// document was seen active until the announcement of that very document was
// seen, or its presence where nothing announces it.
//
// It is this node's share of a fail-over as the files tell it. What passed
// before, until elector claimed the VIP, is not in it, nor what passes after,
// until the neighbours believe.
type Failover struct {
	Key string
	// Took is only known if begin and end were seen by different looks.
	Took  time.Duration
	Known bool
}

// failovers follows VIPs from active to announced.
type failovers struct {
	looked bool
	active map[string]begun
}

// begun is a VIP that is active here.
type begun struct {
	epoch string
	// at is the time of the look that saw it become active.
	at time.Duration
	// from is the document that made it active.
	from schema.Observed
	done bool
}

// observe compares the VIPs with those of the last look. What was active at
// the first look became so at an unknown time and is left out.
func (f *failovers) observe(now time.Duration, vips []VIP) []Failover {
	active := map[string]begun{}
	var finished []Failover
	for _, v := range vips {
		if !v.Active() {
			continue
		}
		b, ok := f.active[v.Key]
		if !ok || b.epoch != v.Intent.Epoch {
			b = begun{epoch: v.Intent.Epoch, at: now, from: v.Intent.Seen(), done: !f.looked}
		}
		if b.from.Instance != v.Intent.Instance {
			b.from = v.Intent.Seen() // elector restarted and counts anew
		}
		if !b.done && v.effective(b.from) {
			b.done = true
			finished = append(finished, Failover{Key: v.Key, Took: now - b.at, Known: b.at != now})
		}
		active[v.Key] = b
	}
	f.looked, f.active = true, active
	return finished
}

// effective says whether the VIP is announced, or present if nothing
// announces it, under the document from or a later one.
func (v VIP) effective(from schema.Observed) bool {
	report, condition := v.announcer(), schema.ConditionAnnounced
	if len(v.Intent.Announce) == 0 || v.Intent.Announces(schema.AnnounceRoute) || v.tunnelled() {
		report, condition = v.Vipd, schema.ConditionPresent
	}
	return report != nil && schema.IsTrue(report.Conditions, condition) &&
		report.Observed.Instance == from.Instance && report.Observed.Generation >= from.Generation
}
