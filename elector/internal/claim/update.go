package claim

import (
	"net/netip"
	"slices"
	"time"
)

// updater keeps the updates of our Lease apart: one in flight at a time, each
// based on the newest version that is known.
type updater struct {
	version uint64 // newest known version of our Lease, 0 when there is none
	newest  uint64 // newest version that it ever had

	flight  bool
	sent    time.Duration // when the last update was sent
	started bool          // an update was ever sent

	pending   bool          // something changed that was not sent yet
	claimedAt time.Duration // when an update last carried a change
	changedAt time.Duration

	failures int
	retry    time.Duration
	waits    bool // see Machine.Wait
}

// know takes in a version of our Lease: from a watch, an answer or a read.
// 0 says that there is none.
func (u *updater) know(version uint64) {
	if version == 0 || version > u.version {
		u.version = version
	}
	u.newest = max(u.newest, version)
}

func (u *updater) changed(now time.Duration) {
	if !u.pending {
		u.pending, u.changedAt = true, now
	}
}

// due returns when the next update is to be sent.
func (u *updater) due(t Timing, blocked bool) time.Duration {
	switch {
	case u.flight || u.waits || blocked:
		return never
	case !u.started:
		return 0
	case u.failures > 0:
		return u.retry
	case u.pending:
		return min(max(u.changedAt, u.claimedAt+spacing), u.sent+t.Renew)
	}
	return u.sent + t.Renew
}

func (u *updater) failed(now time.Duration, t Timing) {
	u.flight, u.pending = false, true
	wait := min(retryMin<<min(u.failures, 10), t.Renew)
	u.failures++
	u.retry = now + wait
}

// blocked says whether no update may be sent: not beside a twin, and while
// suspended nothing is renewed as long as something is owned.
func (m *Machine) blocked(now time.Duration) bool {
	if !m.synced || now < m.twin {
		return true
	}
	if !m.suspended {
		return false
	}
	for _, a := range m.addrs {
		if a.claimed() {
			return true
		}
	}
	return false
}

// Next returns the update to send now, if one is due. Its outcome must be
// told by Committed or Failed before there is another.
func (m *Machine) Next(now time.Duration) (Update, bool) {
	m.step(now)
	u := &m.update
	if now < u.due(m.timing, m.blocked(now)) {
		return Update{}, false
	}
	if u.pending {
		u.claimedAt = now
	}
	u.flight, u.started, u.pending, u.sent = true, true, false, now
	return Update{Base: u.version, Ready: m.ready, Claims: m.claims()}, true
}

func (m *Machine) claims() []netip.Addr {
	var claims []netip.Addr
	for ip, a := range m.addrs {
		if a.claimed() {
			claims = append(claims, ip)
		}
	}
	slices.SortFunc(claims, netip.Addr.Compare)
	return claims
}

// Committed says that the update in flight was written as version.
func (m *Machine) Committed(now time.Duration, version uint64) {
	m.lapse(now)
	m.update.flight, m.update.failures = false, 0
	m.update.know(version)
	if !m.suspended && now >= m.twin { // not behind a twin's update
		m.valid = m.timing.grant(m.update.sent)
	}
	if m.flaws.noOrder {
		for _, a := range m.addrs {
			if a.Phase == Claiming {
				a.Ownership = Ownership{Phase: Owned, Epoch: version}
			}
		}
	}
	m.step(now)
}

// Failed says that the update in flight was refused, or that its outcome is
// not known: it may still be written later, but only if ours is not.
func (m *Machine) Failed(now time.Duration) {
	m.update.failed(now, m.timing)
	m.step(now)
}

// Rebase takes the version of our Lease that was read after a conflict, 0 if
// there is none.
func (m *Machine) Rebase(now time.Duration, version uint64) {
	m.update.know(version)
	m.update.retry = now
	if version == 0 {
		m.lostLease(now)
	}
	m.step(now)
}
