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
	switch {
	case e.Relist:
		list := make([]claim.Lease, 0, len(e.Leases))
		gone := r.leases
		r.leases = make(map[string]seenLease, len(e.Leases))
		for _, l := range e.Leases {
			list = append(list, l.Lease)
			at := now
			if old, ok := gone[l.Node]; ok && old.Version == l.Version {
				at = old.at
			}
			r.leases[l.Node] = seenLease{l, at}
		}
		r.machine.Relist(now, list)
		r.listed = true
		return true
	case e.Deleted:
		for _, l := range e.Leases {
			delete(r.leases, l.Node)
			r.machine.Forget(now, l.Node)
		}
		return true
	}
	for _, l := range e.Leases {
		old, known := r.leases[l.Node]
		r.leases[l.Node] = seenLease{l, now}
		r.machine.Observe(now, l.Lease)
		pass = pass || !known || l.Node == r.Config.NodeName || old.Ready != l.Ready ||
			!r.live(old, now) || !slices.Equal(old.Claims, l.Claims)
		if l.Node == r.Config.NodeName && !slices.Equal(old.Claims, l.Claims) {
			r.Log.Debug("claims seen", "version", l.Version, "claims", len(l.Claims), "boottime", e.Seen.Nanoseconds())
		}
	}
	return pass
}

func (r *Reconciler) live(l seenLease, now time.Duration) bool {
	d := l.Duration
	if d <= 0 {
		d = r.Config.LeaseDuration
	}
	return now-l.at < d
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
func (r *Reconciler) speaker(now time.Duration) bool {
	for node, l := range r.leases {
		if node < r.Config.NodeName && r.live(l, now) {
			return false
		}
	}
	return true
}
