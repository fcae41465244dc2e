package reconcile

import (
	"fmt"
	"slices"
	"time"

	"github.com/vipod/vipod/elector/internal/kube"
	"github.com/vipod/vipod/elector/internal/plan"
	"github.com/vipod/vipod/shared/ownership"
	"github.com/vipod/vipod/shared/schema"
)

// gatesOfDaemons are the gates of the daemons that are asked here. A daemon
// that is switched off is asked as well if a VIP cannot do without it: then
// the answer is no.
func (r *Reconciler) gatesOfDaemons() []*gate {
	gates := []*gate{r.vipd, r.arpd, r.linkd}
	if r.has(ownership.Egressd) {
		gates = append(gates, r.egressd)
	}
	return gates
}

// has says whether the daemon is switched on for this node.
func (r *Reconciler) has(daemon string) bool { return slices.Contains(r.Config.Components, daemon) }

// whyNoEgressd says why egressd cannot be relied on, "" if it can: only
// Services that need it leave the node then.
func (r *Reconciler) whyNoEgressd(now time.Duration) string {
	open, why, until := r.egressd.open(now, r.has(ownership.Egressd), r.reports.egressdDaemon, r.book.Node())
	r.egressdUntil = until
	if open {
		return ""
	}
	return why
}

// egressPatience is for how long egressd may be behind before people hear of
// it.
const egressPatience = 2 * time.Second

// lookAtEgress notes what egressd cannot do for a VIP that this node serves.
func (r *Reconciler) lookAtEgress(now time.Duration, v *plan.VIP, doc *schema.VIP, state map[kube.Event]bool, failing map[string]time.Duration) {
	report, ok := r.reports.egressd[v.Key]
	if doc == nil || doc.State != schema.StateActive || !ok || report.Observed != doc.Seen() {
		return
	}
	c, ok := schema.FindCondition(report.Conditions, schema.ConditionEgress)
	if !ok {
		return
	}
	if c.Status == schema.True {
		state[r.about(v, false, "EgressActive", "Translating", fmt.Sprintf("on node %s %s", r.Config.NodeName, c.Message))] = true
		return
	}
	since, known := r.failing[v.Key]
	if !known {
		since = now
	}
	failing[v.Key] = since
	if at := since + egressPatience; now < at {
		r.observe.next = min(r.observe.next, at)
		return
	}
	state[r.about(v, true, "EgressHeld", "Translating", fmt.Sprintf("on node %s %s", r.Config.NodeName, c.Message))] = true
}
