package reconcile

import (
	"slices"
	"time"

	"github.com/vipod/vipod/elector/internal/claim"
	"github.com/vipod/vipod/elector/internal/kube"
	"github.com/vipod/vipod/shared/bootclock"
)

// takeLeases feeds one step of the watch to the machine and says whether a
// pass must follow. Another node's mere renewal changes nothing here; it only
// lets its Lease end later than the timer assumes.
func (r *Reconciler) takeLeases(e kube.LeaseEvent) (pass bool) {
	now := bootclock.Now()
	if e.Relist {
		r.spoilt = map[string]error{}
	}
	list := make([]claim.Lease, 0, len(e.Leases))
	for _, l := range e.Leases {
		if l.Node == r.Config.NodeName {
			l.Foreign = l.Writer != "" && r.Writer != "" && l.Writer != r.Writer
			r.writer = l.Writer
		}
		list = append(list, l.Lease)
		if delete(r.spoilt, l.Node); l.Problem != nil && !e.Deleted {
			r.spoilt[l.Node] = l.Problem
		}
	}
	switch {
	case e.Relist:
		r.machine.Relist(now, list)
		r.listed = true
		return true
	case e.Deleted:
		for _, l := range list {
			r.machine.Forget(now, l.Node)
		}
		return true
	}
	for _, l := range list {
		if l.Node == r.Config.NodeName && !slices.Equal(l.Claims, r.seenClaims) {
			r.seenClaims = l.Claims
			r.Log.Debug("claims seen", "version", l.Version, "claims", len(l.Claims), "boottime", e.Seen.Nanoseconds())
		}
		pass = r.machine.Observe(now, l) || pass
	}
	return pass
}

func (r *Reconciler) takeLock(e kube.LockEvent) {
	if r.lock == nil {
		return
	}
	now := bootclock.Now()
	if e.Gone {
		r.lock.Forget(now)
	} else {
		r.lock.Observe(now, e.Record)
	}
}

// speaker says whether this node is the one that speaks about what concerns
// all nodes: the first of those whose Leases are live.
func (r *Reconciler) speaker(now time.Duration) bool { return r.machine.First(now) }
