package reconcile

import (
	"time"

	"github.com/vipod/vipod/shared/report"
	"github.com/vipod/vipod/shared/schema"
)

// Conditions of elector's report about itself, besides Ready: it writes
// complete documents.
const (
	// conditionSynced: everything that a plan needs is known.
	conditionSynced = "Synced"
	// conditionRenewed: the last write of this node's Lease was answered with
	// success.
	conditionRenewed = "LeaseRenewed"
	// conditionServing: this node can serve VIPs.
	conditionServing = "NodeReady"
)

// reportSelf writes elector's report about itself.
func (r *Reconciler) reportSelf(now time.Duration, failed error) {
	ready := report.Ready(true, failed)
	synced := condition(conditionSynced, r.listed && r.API.Synced(), "Listed", "NotListed",
		"Leases, Services, EndpointSlices or Nodes are not all listed yet")
	if failed == nil && r.planned == 0 {
		ready.Status, ready.Reason, ready.Message = schema.Unknown, "NoPlan", synced.Message
	}
	renewed := condition(conditionRenewed, r.leaseErr == "", "Written", "NotWritten", r.leaseErr)
	if r.leaseErr == "" && r.machine.Grant() == 0 {
		renewed.Status, renewed.Reason = schema.Unknown, "NotWrittenYet"
	}
	r.self.Daemon(schema.Daemon{Observed: r.book.Node(), Conditions: []schema.Condition{
		ready, synced, renewed, condition(conditionServing, r.wished.ready, "Ready", "NotReady", r.notReady),
	}})
	if retry, ok := r.self.Finish(); !ok {
		r.retryBy(now + retry)
	}
}

// retryBy makes another pass come by then.
func (r *Reconciler) retryBy(at time.Duration) {
	if r.retryAt == 0 || at < r.retryAt {
		r.retryAt = at
	}
}

func condition(kind string, so bool, yes, no, why string) schema.Condition {
	if so {
		return schema.Condition{Type: kind, Status: schema.True, Reason: yes}
	}
	return schema.Condition{Type: kind, Status: schema.False, Reason: no, Message: why}
}
