package claim

import "time"

// A twin is another machine that was given this node's name. The two write one
// Lease, in which neither can read what the other claims, so that they would
// claim the same addresses. So a Lease that a twin wrote last counts as another
// node's does: until it was seen unchanged for its whole duration, this node
// neither owns anything nor writes it. By compare-and-swap only one of the two
// can begin, and the other one waits for as long as that one renews.

// meetTwin takes our own Lease as a twin wrote it. The grant ends at once: a
// twin that keeps the rule wrote only after it had ended.
func (m *Machine) meetTwin(now time.Duration, own *seen) {
	m.update.know(own.Version)
	m.twin, m.valid = own.at+own.Duration, 0
	for _, a := range m.addrs {
		a.resumed = false
	}
	m.lapse(now)
}

// byTwin says whether the Lease keeps this node away. A twin that is not ready
// claims nothing, and one that has stopped leaves its Lease like that.
func (l *Lease) byTwin() bool { return l.Foreign && (l.Ready || len(l.Claims) > 0) }

// Twin says whether another machine of this node's name has the Lease, and
// until when if it renews no more.
func (m *Machine) Twin(now time.Duration) (until time.Duration, twin bool) {
	return m.twin, now < m.twin
}

// alone says whether no twin can have the Lease: it is ours and ready, which
// would keep a twin away, and our last update was based on it.
func (m *Machine) alone(now time.Duration) bool {
	own := m.view.leases[m.node]
	return now < m.valid && own != nil && !own.gone && !own.Foreign && own.Ready
}

// Beside makes the lock heed what the node's Lease says of a twin, which holds
// the control plane's Lease under our identity: only the machine whose Lease
// the node's is may take it, and none writes it beside a twin.
func (l *Lock) Beside(now time.Duration, m *Machine) {
	_, l.twin = m.Twin(now)
	l.unproven = !m.alone(now)
	if l.twin {
		l.shared, l.valid = true, 0
	}
	l.step(now)
}
