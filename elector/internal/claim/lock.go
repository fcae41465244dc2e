package claim

import "time"

// Record is the control plane's Lease as client-go's leader election has it.
type Record struct {
	// Version is the resourceVersion.
	Version uint64
	// Holder is the holder's identity, "" when it was released.
	Holder string
	// Duration is how long the Lease lasts after a renewal.
	Duration time.Duration
}

// LockUpdate is what the control plane's Lease shall become.
type LockUpdate struct {
	// Base is the resourceVersion that the update is based on, 0 to create
	// the Lease.
	Base uint64
	// Holder is this node's identity, or "" to release the Lease.
	Holder string
}

// Lock is this node's side of the control plane's Lease: the one address set
// that all nodes compete for by compare-and-swap on a single object. It is
// not safe for concurrent use.
type Lock struct {
	identity string
	timing   Timing

	synced   bool
	told     bool // Want was called
	exists   bool
	record   Record
	at       time.Duration // when record was seen to change
	eligible bool

	phase     Phase
	epoch     uint64
	until     time.Duration // end of Released
	valid     time.Duration // the grant
	suspended bool

	update  updater
	sending string // holder that the update in flight writes

	// See Beside: a twin has the node's Lease, none is ruled out, the Lease may
	// be a twin's though it names us.
	twin, unproven, shared bool
}

// NewLock returns the lock of the node with the given identity.
func NewLock(identity string, t Timing) *Lock {
	return &Lock{identity: identity, timing: t}
}

// Resume goes on where an earlier process of this boot stopped, Owned or
// Draining, if its grant has not ended. It must come first. Until Want is
// called the Lease is kept, but not taken.
func (l *Lock) Resume(now time.Duration, held Ownership, valid time.Duration) {
	if now < valid && (held.Phase == Owned || held.Phase == Draining) {
		l.phase, l.epoch, l.valid = held.Phase, held.Epoch, valid
	}
}

// Observe takes the Lease from a watch or a list.
func (l *Lock) Observe(now time.Duration, r Record) {
	l.synced = true
	if l.exists && r.Version < l.record.Version {
		l.step(now) // late: an answer to our own update was faster
		return
	}
	l.take(now, r)
	l.step(now)
}

// take makes r the record that counts, seen to change now unless it is the
// one that is known.
func (l *Lock) take(now time.Duration, r Record) {
	if r.Duration <= 0 {
		r.Duration = l.timing.Duration
	}
	if !l.exists || r.Version != l.record.Version {
		l.record, l.at = r, now
	}
	l.exists = true
	l.update.know(r.Version)
	if r.Holder != l.identity {
		l.valid = 0 // by our own release, or the Lease was taken by hand
		if l.phase != Released {
			l.phase = Idle
		}
	}
}

// Forget takes the deletion of the Lease, or a list without it. The last
// holder's grant is still in force for as long as it may last.
func (l *Lock) Forget(now time.Duration) {
	l.synced = true
	l.update.know(0)
	l.record.Version = 0
	l.step(now)
}

// Want says whether this node can serve the control plane's VIP.
func (l *Lock) Want(now time.Duration, eligible bool) {
	l.eligible, l.told = eligible, true
	l.step(now)
}

// Silent says that no frame of this node claims the VIP any more.
func (l *Lock) Silent(now time.Duration) {
	if l.phase == Draining {
		l.phase, l.until = Released, now+linger
		l.update.changed(now)
	}
	l.step(now)
}

// Suspend stops the renewals while vipd does not answer, see Machine.Suspend.
func (l *Lock) Suspend(now time.Duration, suspended bool) {
	l.suspended = suspended
	l.step(now)
}

// Wait keeps the Lease as it is, see Machine.Wait.
func (l *Lock) Wait(now time.Duration, wait bool) {
	l.update.waits = wait
	l.step(now)
}

// Tick lets time pass.
func (l *Lock) Tick(now time.Duration) { l.step(now) }

// Phase returns Idle, Owned, Draining or Released.
func (l *Lock) Phase() Phase { return l.phase }

// Epoch returns the resourceVersion by which this node became the holder.
func (l *Lock) Epoch() uint64 { return l.epoch }

// Grant returns until when this node may claim the VIP.
func (l *Lock) Grant() time.Duration { return l.valid }

// Holder returns who holds the Lease, "" for nobody or a dead holder.
func (l *Lock) Holder(now time.Duration) string {
	if !l.exists || !l.heldBy(now) {
		return ""
	}
	return l.record.Holder
}

// heldBy says whether the record's holder may still act on it.
func (l *Lock) heldBy(now time.Duration) bool {
	return l.record.Holder != "" && now-l.at < l.record.Duration
}

func (l *Lock) step(now time.Duration) {
	if now >= l.valid && (l.phase == Owned || l.phase == Draining) {
		l.phase = Idle // the kernel is silent since the grant ended
	}
	switch {
	case l.phase == Owned && !l.eligible && l.synced && l.told:
		l.phase = Draining
	case l.phase == Draining && l.eligible && l.synced:
		l.phase = Owned // never left the Lease
	case l.phase == Released && now >= l.until:
		l.phase = Idle
	}
}

// intent returns which holder this node would write now, and when.
func (l *Lock) intent(now time.Duration) (holder string, at time.Duration) {
	mine := l.exists && l.record.Holder == l.identity
	switch {
	case !l.synced || l.update.waits || l.twin || l.suspended && l.phase != Idle:
		return "", never
	case l.phase == Owned || l.phase == Draining:
		if l.update.version == 0 {
			return l.identity, now // deleted under us
		}
		return l.identity, l.update.sent + l.timing.Renew
	case !l.told:
		return "", never
	case mine && !l.eligible && !l.shared && l.update.version != 0:
		return "", now
	case !l.eligible || l.suspended || l.unproven:
		return "", never
	case !l.exists, l.record.Holder == "", mine && !l.shared && l.update.version != 0:
		return l.identity, now
	}
	return l.identity, max(now, l.at+l.record.Duration)
}

// Next returns the update to send now, if one is due. Its outcome must be
// told by Committed or Failed before there is another.
func (l *Lock) Next(now time.Duration) (LockUpdate, bool) {
	l.step(now)
	holder, at := l.intent(now)
	if l.update.flight || now < at || l.update.failures > 0 && now < l.update.retry {
		return LockUpdate{}, false
	}
	l.update.flight, l.update.started, l.update.sent = true, true, now
	l.sending = holder
	return LockUpdate{Base: l.update.version, Holder: holder}, true
}

// Committed says that the update in flight was written as version.
func (l *Lock) Committed(now time.Duration, version uint64) {
	l.step(now)
	l.update.flight, l.update.failures = false, 0
	if version < l.record.Version {
		l.step(now) // somebody else wrote since
		return
	}
	l.exists = true
	l.record = Record{Version: version, Holder: l.sending, Duration: l.timing.Duration}
	l.at = now
	l.update.know(version)
	if l.sending == l.identity && !l.suspended {
		l.valid = l.timing.grant(l.update.sent)
		if l.phase == Idle || l.phase == Released {
			l.phase, l.epoch, l.shared = Owned, version, false
		}
	}
	l.step(now)
}

// Failed says that the update in flight was refused, or that its outcome is
// not known.
func (l *Lock) Failed(now time.Duration) {
	l.update.failed(now, l.timing)
	l.step(now)
}

// Rebase takes the Lease as read after a conflict.
func (l *Lock) Rebase(now time.Duration, r Record) {
	l.update.retry = now
	l.Observe(now, r)
}

// Deadline returns when Tick or Next must be called at the latest.
func (l *Lock) Deadline(now time.Duration) time.Duration {
	d := never
	if _, at := l.intent(now); !l.update.flight {
		d = at
		if l.update.failures > 0 {
			d = max(d, l.update.retry)
		}
	}
	switch l.phase {
	case Owned, Draining:
		d = min(d, l.valid)
	case Released:
		d = min(d, l.until)
	}
	return max(d, now)
}
