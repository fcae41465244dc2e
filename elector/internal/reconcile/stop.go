package reconcile

import (
	"time"

	"github.com/vipod/vipod/elector/internal/claim"
)

// stopTimeout bounds the hand-over: others stop waiting for us after 20 s.
const stopTimeout = 10 * time.Second

// spreadLinger is for how long a VIP that nobody owns is announced as the worse
// choice before it is withdrawn: routers have moved traffic away by then.
const spreadLinger = 2 * time.Second

// stopping is where the way out is.
type stopping struct {
	since    time.Duration // 0 while running
	deadline time.Duration
	unready  bool // our Lease as last written says that this node is not ready
	released bool // nothing is claimed any more
	done     bool
}

// beginStop starts to hand everything over.
func (r *Reconciler) beginStop(now time.Duration) {
	r.stopping.since, r.stopping.deadline = now, now+stopTimeout
	r.stopping.unready = false
	r.Log.Info("stopping: handing over")
	// The others shall know at once, so that they go on serving until we are
	// done; a failure is told when the files are written next.
	if err := r.writeNode(); err != nil {
		r.Log.Error("writing node document", "err", err)
	}
}

// continueStop ends the process once nothing is owned, the Leases say so, and
// the released addresses have served their last cached clients. The node's
// Lease stays, empty and not ready: deleting it would need a right that
// nothing else needs, and it goes with its Node.
func (r *Reconciler) continueStop(now time.Duration) {
	if r.stopping.since == 0 || r.stopping.done {
		return
	}
	claimed, lingering := false, false
	r.machine.Addresses(func(_ addr, o claim.Ownership) {
		claimed = claimed || o.Phase == claim.Claiming || o.Phase == claim.Owned || o.Phase == claim.Draining
		lingering = lingering || o.Phase == claim.Released
	})
	if now < r.machine.Grant() {
		// The Lease shall say so as well: that nothing is claimed, and that
		// nobody need wait for this node's turn.
		claimed = claimed || r.lastClaims > 0
		lingering = lingering || !r.stopping.unready
	}
	if r.spreading() && now < r.stopping.since+spreadLinger {
		lingering = true
		r.retryBy(r.stopping.since + spreadLinger)
	}
	if r.lock != nil {
		p := r.lock.Phase()
		_, twin := r.machine.Twin(now) // which holds it under our name
		claimed = claimed || p == claim.Owned || p == claim.Draining || !twin && r.lock.Holder(now) == r.Config.NodeName
		lingering = lingering || p == claim.Released
	}
	if !claimed && !r.stopping.released {
		r.stopping.released = true
		r.Log.Info("stopping: released everything", "after", now-r.stopping.since)
	}
	if (claimed || lingering) && now < r.stopping.deadline {
		return
	}
	r.finish()
}

// finish removes the documents and says that the others may clean up.
func (r *Reconciler) finish() {
	r.stopping.done = true
	for key := range r.book.VIPs() {
		if err := r.book.Drop(key); err != nil {
			r.Log.Error("removing document", "key", key, "err", err)
		}
	}
	if err := r.self.CleanUp(); err != nil {
		r.Log.Error("removing the report about this daemon", "err", err)
	}
	if err := r.book.WriteGrant(nil); err != nil {
		r.Log.Error("writing grant", "err", err)
	}
	if err := r.writeNode(); err != nil {
		r.Log.Error("writing node document", "err", err)
	}
}
