package claim

import (
	"net/netip"
	"time"
)

// Machine is this node's side of the claim protocol. Every time that goes in
// is a reading of CLOCK_BOOTTIME that never goes back. It is not safe for
// concurrent use.
type Machine struct {
	node   string
	timing Timing

	synced bool // a list of all Leases was seen
	told   bool // Want was called
	view   view

	groups []Group
	ready  bool
	addrs  map[netip.Addr]*address

	valid     time.Duration // the grant
	hold      time.Duration // until when nothing is claimed
	suspended bool
	twin      time.Duration // until when a twin's Lease counts
	update    updater

	flaws flaws
}

// flaws take single rules out, so that the model check can show that it finds
// a fault when a rule is missing.
type flaws struct {
	noForfeit  bool // keep what was owned across a lapse of the grant
	noOrder    bool // own an address when the update is answered
	noLagGuard bool // take a late event of an earlier claim for the new one
	noMute     bool // release an address without waiting for silence
	noTwin     bool // take a twin's Lease for our own
}

// address is one address that this node is concerned with.
type address struct {
	Ownership
	// after is the newest version that our Lease ever had when the address was
	// added to our claims: an older event that holds the address is of an
	// earlier claim, which may have been released since, or of a Lease that was
	// deleted since.
	after uint64
	// decided is when this node decided to claim the address.
	decided time.Duration
	// lost: our Lease no longer keeps others away, so that the address must
	// become silent and cannot be taken back while Draining.
	lost bool
	// resumed: found in the documents and not yet in a list of Leases.
	resumed bool
	// until ends Released.
	until time.Duration
	// free is since when nobody held the address, and probed when a probe
	// last found nobody; both 0 for never.
	free, probed time.Duration
}

// claimed says whether the address stands in our Lease as we want it.
func (a *address) claimed() bool {
	return a.Phase == Claiming || a.Phase == Owned || a.Phase == Draining
}

// has says whether the address is ours, for as long as it was not released.
func (a *address) has() bool {
	return a.Phase == Owned || a.Phase == Draining && !a.lost
}

// New returns the machine of the named node, which owns nothing.
func New(node string, t Timing) *Machine {
	return &Machine{
		node: node, timing: t,
		view:  view{leases: map[string]*seen{}, held: map[netip.Addr]time.Duration{}},
		addrs: map[netip.Addr]*address{},
	}
}

// Resume goes on where an earlier process of this boot stopped: what its
// documents say was Owned or Draining, with the epochs, under a grant until
// valid. It must come first. A grant that has ended was forfeited, and nothing
// is resumed. Until Want says what shall be owned, what was resumed goes on as
// it is, and nothing is claimed.
func (m *Machine) Resume(now time.Duration, held map[netip.Addr]Ownership, valid time.Duration) {
	if now >= valid {
		return
	}
	m.valid = valid
	for ip, o := range held {
		if o.Phase == Owned || o.Phase == Draining {
			m.addrs[ip] = &address{Ownership: o, resumed: true}
			m.ready = true // as it was
		}
	}
}

// State returns the state of one address.
func (m *Machine) State(ip netip.Addr) Ownership {
	if a := m.addrs[ip]; a != nil {
		return a.Ownership
	}
	return Ownership{}
}

// Addresses calls f for every address that is not idle.
func (m *Machine) Addresses(f func(netip.Addr, Ownership)) {
	for ip, a := range m.addrs {
		if a.Phase != Idle {
			f(ip, a.Ownership)
		}
	}
}

// Grant returns until when this node may claim what it owns.
func (m *Machine) Grant() time.Duration { return m.valid }

// Holder returns the node whose live Lease claims the address, "" for none.
func (m *Machine) Holder(now time.Duration, ip netip.Addr) string {
	if a := m.addrs[ip]; a != nil && a.Phase >= Owned && a.Phase != Released {
		return m.node
	}
	return m.view.holder(now, ip, m.node)
}

// Live returns the nodes whose Leases are live and ready, this one included
// if it is ready, sorted.
func (m *Machine) Live(now time.Duration) []string {
	return m.view.ready(now, m.node, m.ready)
}

// Want is the complete list of groups that shall have an owner, and whether
// this node can serve VIPs at all.
func (m *Machine) Want(now time.Duration, groups []Group, ready bool) {
	m.groups, m.ready, m.told = groups, ready, true
	m.step(now)
}

// Silent says that no frame of this node claims the address any more: vipd
// has muted or removed it. What follows from it follows at the next Tick, so
// that thousands of answers cost one look at everything.
func (m *Machine) Silent(now time.Duration, ip netip.Addr) {
	if a := m.addrs[ip]; a != nil && a.Phase == Draining {
		if a.lost {
			m.drop(now, a)
		} else {
			m.release(now, a)
		}
	}
}

func (m *Machine) release(now time.Duration, a *address) {
	a.Phase, a.until, a.free = Released, now+linger, 0
	m.update.changed(now)
}

// Probed is the answer to Probing: whether nobody answers for the address.
// What follows from it follows at the next Tick.
func (m *Machine) Probed(now time.Duration, ip netip.Addr, free bool) {
	a := m.addrs[ip]
	if a == nil || a.Phase != Probing {
		return
	}
	a.probed = 0
	if free {
		a.probed = now
	}
}

// Suspend stops the renewals while vipd does not answer: a release would not
// be safe, since nobody could mute the address. The grant runs out instead.
func (m *Machine) Suspend(now time.Duration, suspended bool) {
	m.suspended = suspended
	m.step(now)
}

// Wait keeps this node's Lease as it is, neither renewed nor changed, while it
// is not known what an earlier process left on the wire: until that is silent,
// no claim may be given up and no grant be had.
func (m *Machine) Wait(now time.Duration, wait bool) {
	m.update.waits = wait
	m.step(now)
}

// Tick lets time pass.
func (m *Machine) Tick(now time.Duration) { m.step(now) }

// step brings every address to where it belongs.
func (m *Machine) step(now time.Duration) {
	m.lapse(now)
	if m.synced && m.told {
		m.evaluate(now)
	}
}

// lapse forfeits everything once the grant has ended.
func (m *Machine) lapse(now time.Duration) {
	if now < m.valid || m.flaws.noForfeit {
		return
	}
	for _, a := range m.addrs {
		if a.claimed() {
			m.drop(now, a)
		}
	}
}

// drop gives an address up at once. It is safe when the address was never
// active, or is silent, or the grant has ended.
func (m *Machine) drop(now time.Duration, a *address) {
	a.Ownership, a.lost, a.free = Ownership{}, false, 0
	m.update.changed(now)
}

// Deadline returns when Tick or Next must be called at the latest.
func (m *Machine) Deadline(now time.Duration) time.Duration {
	d := m.update.due(m.timing, m.blocked(now))
	for _, a := range m.addrs {
		switch {
		case a.claimed():
			d = min(d, m.valid)
		case a.Phase == Released && m.told:
			d = min(d, a.until)
		}
	}
	d = min(d, m.view.nextExpiry(now, m.node))
	if now < m.twin {
		d = min(d, m.twin)
	}
	if now < m.hold {
		d = min(d, m.hold)
	}
	if m.claimable(now) {
		for _, g := range m.groups {
			if t, waiting := m.turn(now, g); waiting {
				d = min(d, t)
			}
		}
	}
	return max(d, now)
}
