package reconcile

import (
	"time"

	"github.com/vipod/vipod/elector/internal/claim"
)

// picture is all that documents, Events and Services' status follow from, but
// for what stirs the loop by its own event.
type picture struct {
	claims claim.Picture
	wish   wish
	lock   claim.Phase
	epoch  uint64
	holder string
	waits  bool // egressWaits
}

// resting says whether nothing has happened since the last whole pass but
// renewals, of which there are several a second: then the documents, thousands
// perhaps, are as they shall be. In doubt it says no.
func (r *Reconciler) resting(now time.Duration) bool {
	p := picture{claims: r.machine.Picture(now), wish: r.wished, waits: r.egressWaits(now)}
	if r.lock != nil {
		p.lock, p.epoch, p.holder = r.lock.Phase(), r.lock.Epoch(), r.lock.Holder(now)
	}
	same := p == r.pictured
	r.pictured = p
	busy := r.stirred || r.unwritten || r.doubt || r.stopping.since != 0 ||
		r.retryAt != 0 || len(r.taken) > 0 || now >= r.observe.next
	r.stirred = false
	return same && !busy && r.planned > 0 && p.claims.Steady && (r.lock == nil || p.lock == claim.Idle || p.lock == claim.Owned)
}

// renew is what remains of a pass while nothing else happens.
func (r *Reconciler) renew(now time.Duration) {
	r.writeFiles(now, r.writeGrant)
	r.measureGrants(now)
}
