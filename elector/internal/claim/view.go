package claim

import (
	"math"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// never is a time that does not come.
const never = time.Duration(math.MaxInt64)

// view is what this node knows of all Leases.
type view struct {
	leases map[string]*seen
	// held is when somebody was last seen to give an address up.
	held map[netip.Addr]time.Duration
	// changes counts what was more than a renewal.
	changes uint64
}

// seen is one Lease and when it was last seen to change.
type seen struct {
	Lease
	claims map[netip.Addr]struct{}
	at     time.Duration
	// gone: the Lease was deleted, which does not end its holder's grant.
	gone bool
}

func (s *seen) live(now time.Duration) bool { return now-s.at < s.Duration }

// observe takes one Lease as seen now and says whether anything but the time
// of its renewal changed.
func (v *view) observe(now time.Duration, l Lease, fallback time.Duration) (changed bool) {
	if l.Duration <= 0 {
		l.Duration = fallback
	}
	old := v.leases[l.Node]
	s := &seen{Lease: l, at: now}
	switch {
	case old == nil:
		changed = true
	case old.Version == l.Version && !old.gone:
		return false // a list may repeat what is known: still unchanged
	default:
		changed = !old.live(now) || old.gone || old.Ready != l.Ready || !slices.Equal(old.Claims, l.Claims)
	}
	if old != nil && !changed {
		s.claims = old.claims
	} else {
		s.claims = make(map[netip.Addr]struct{}, len(l.Claims))
		for _, ip := range l.Claims {
			s.claims[ip] = struct{}{}
		}
	}
	if old != nil && changed {
		for ip := range old.claims {
			if _, still := s.claims[ip]; !still {
				v.held[ip] = now
			}
		}
	}
	v.leases[l.Node] = s
	if changed {
		v.changes++
	}
	return changed
}

// forget notes that a Lease was deleted. Its claims stay in force until the
// grant that came with them must have ended: the holder may not know yet.
func (v *view) forget(now time.Duration, node string, renewed bool) {
	s := v.leases[node]
	if s == nil {
		return
	}
	s.gone = true
	v.changes++
	if renewed {
		s.at = now
	}
	if len(s.claims) == 0 {
		delete(v.leases, node)
	}
}

// holder returns a node other than self whose live Lease claims the address.
func (v *view) holder(now time.Duration, ip netip.Addr, self string) string {
	found := ""
	for name, s := range v.leases {
		if name == self || !s.live(now) {
			continue
		}
		if _, ok := s.claims[ip]; ok && (found == "" || name < found) {
			found = name
		}
	}
	return found
}

// recent says whether somebody owned the address a short while ago, so that a
// stranger can hardly have taken it since.
func (v *view) recent(now time.Duration, ip netip.Addr) bool {
	if t, ok := v.held[ip]; ok && now-t < remembered {
		return true
	}
	for _, s := range v.leases {
		if _, ok := s.claims[ip]; ok && now-s.at < s.Duration+remembered {
			return true
		}
	}
	return false
}

// ready returns the live and ready nodes in order; self counts as said.
func (v *view) ready(now time.Duration, self string, selfReady bool) []string {
	var nodes []string
	if selfReady {
		nodes = append(nodes, self)
	}
	for name, s := range v.leases {
		if name != self && s.Ready && !s.gone && s.live(now) {
			nodes = append(nodes, name)
		}
	}
	slices.Sort(nodes)
	return nodes
}

// nextExpiry returns when the next Lease that claims something dies.
func (v *view) nextExpiry(now time.Duration, self string) time.Duration {
	next := never
	for name, s := range v.leases {
		if name != self && len(s.claims) > 0 && s.live(now) {
			next = min(next, s.at+s.Duration)
		}
	}
	return next
}

// prune forgets what no longer matters: addresses given up long ago and
// deleted Leases that have died.
func (v *view) prune(now time.Duration) {
	for ip, t := range v.held {
		if now-t >= remembered {
			delete(v.held, ip)
		}
	}
	for name, s := range v.leases {
		if s.gone && now-s.at >= s.Duration+remembered {
			delete(v.leases, name)
		}
	}
}

// LeaseState is a Lease as this node sees it.
type LeaseState struct {
	Lease
	// Live: not yet seen unchanged for its whole duration.
	Live bool
	// Age is since when it was seen unchanged.
	Age time.Duration
}

// Leases returns all Leases there are, this node's included, by node.
func (m *Machine) Leases(now time.Duration) []LeaseState {
	var list []LeaseState
	for _, s := range m.view.leases {
		if !s.gone {
			list = append(list, LeaseState{Lease: s.Lease, Live: s.live(now), Age: now - s.at})
		}
	}
	slices.SortFunc(list, func(a, b LeaseState) int { return strings.Compare(a.Node, b.Node) })
	return list
}

// Alive says whether the node has a live Lease.
func (m *Machine) Alive(now time.Duration, node string) bool {
	s := m.view.leases[node]
	return s != nil && !s.gone && s.live(now)
}

// First says whether no node before this one in the order of their names has
// a live Lease.
func (m *Machine) First(now time.Duration) bool {
	for node := range m.view.leases {
		if node < m.node && m.Alive(now, node) {
			return false
		}
	}
	return true
}

// Relist takes the complete list of Leases, in whose order nothing can be
// read: an address being claimed is ours only if no other live Lease in the
// list claims it.
func (m *Machine) Relist(now time.Duration, leases []Lease) {
	listed := map[string]bool{}
	for _, l := range leases {
		listed[l.Node] = true
		m.view.observe(now, l, m.timing.Duration)
	}
	for name, s := range m.view.leases {
		if listed[name] || s.gone {
			continue
		}
		// Deleted while we did not watch. Its holder may have renewed it after
		// we last saw it, and claimed what we never saw: nothing is free until
		// the last grant must have ended.
		m.hold = max(m.hold, now+s.Duration)
		m.view.forget(now, name, true)
	}
	m.synced = true
	m.view.prune(now)
	if own := m.view.leases[m.node]; own != nil && !own.gone {
		m.ownLease(now, own)
	} else {
		m.lostLease(now)
	}
	m.step(now)
}

// Observe takes one event of the watch, in the order of the watch, and says
// whether it was more than another node's renewal.
func (m *Machine) Observe(now time.Duration, l Lease) (changed bool) {
	changed = m.view.observe(now, l, m.timing.Duration)
	if l.Node == m.node {
		m.lapse(now)
		m.ownLease(now, m.view.leases[m.node])
		changed = true
	}
	if changed {
		m.step(now)
	}
	return changed
}

// Forget takes the deletion of a node's Lease.
func (m *Machine) Forget(now time.Duration, node string) {
	m.view.forget(now, node, false)
	if node == m.node {
		m.lostLease(now)
	}
	m.step(now)
}

// ownLease learns from an event of our own Lease which claims came first.
func (m *Machine) ownLease(now time.Duration, own *seen) {
	if own.byTwin() && !m.flaws.noTwin {
		m.meetTwin(now, own)
		return
	}
	m.twin = 0
	m.update.know(own.Version)
	for ip, a := range m.addrs {
		_, listed := own.claims[ip]
		switch {
		case a.Phase == Claiming && listed && (own.Version > a.after || m.flaws.noLagGuard):
			m.settle(now, ip, a, own.Version)
		case a.Phase == Draining && a.resumed && !listed:
			a.Phase, a.until = Released, now+linger // before the restart
		case a.claimed() && a.Phase != Claiming && !listed && own.Version > a.Epoch:
			m.lose(now, a) // somebody edited our Lease
		}
		a.resumed = false
	}
}

// settle decides a claim whose update came back on the watch as version.
//
// Another claim that came before ours counts unless its Lease was dead when we
// decided to claim. That it is dead by now says nothing: this process may have
// been frozen, and the renewals that the holder made meanwhile come after our
// own update in the watch.
func (m *Machine) settle(now time.Duration, ip netip.Addr, a *address, version uint64) {
	if m.view.holder(a.decided, ip, m.node) != "" || now >= m.valid {
		m.drop(now, a)
		return
	}
	a.Ownership = Ownership{Phase: Owned, Epoch: version}
}

// lostLease ends everything when our Lease was deleted.
func (m *Machine) lostLease(now time.Duration) {
	m.update.know(0)
	for _, a := range m.addrs {
		if a.claimed() {
			m.lose(now, a)
		}
	}
}

// lose ends an address whose claim is gone from our Lease without our doing.
// What was active goes back into the Lease until it is silent, since others
// would claim it at once.
func (m *Machine) lose(now time.Duration, a *address) {
	if a.Phase == Claiming {
		m.drop(now, a)
		return
	}
	a.Phase, a.lost = Draining, true
	m.update.changed(now)
}
