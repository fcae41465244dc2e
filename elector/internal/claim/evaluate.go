package claim

import (
	"hash/fnv"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// evaluate moves every address on: claims what is free and ours to claim,
// drains what this node shall not or cannot serve, ends what has ended.
func (m *Machine) evaluate(now time.Duration) {
	wanted := make(map[netip.Addr]bool, len(m.addrs))
	for _, g := range m.groups {
		for _, ip := range g.Addresses {
			wanted[ip] = true
		}
	}
	for ip, a := range m.addrs {
		if !wanted[ip] {
			m.retire(now, a, true)
		}
		if a.Phase == Released && now >= a.until {
			a.Ownership = Ownership{}
		}
		if !wanted[ip] && a.Phase == Idle {
			delete(m.addrs, ip)
		}
	}
	for _, g := range m.groups {
		m.place(now, g)
	}
}

// retire takes an address away from this node in the order that its phase
// demands. Unwanted addresses do not linger: their documents are gone.
func (m *Machine) retire(now time.Duration, a *address, unwanted bool) {
	switch a.Phase {
	case Probing:
		a.Phase = Idle
	case Claiming:
		m.drop(now, a) // never active
	case Owned:
		a.Phase = Draining
		if m.flaws.noMute {
			m.release(now, a)
		}
	case Released:
		if unwanted {
			a.until = now
		}
	}
}

// place decides one group.
func (m *Machine) place(now time.Duration, g Group) {
	if !m.serves(g) || !m.first(now, g) {
		for _, ip := range g.Addresses {
			if a := m.addrs[ip]; a != nil {
				m.retire(now, a, false)
				a.free = 0
			}
		}
		return
	}
	m.reclaim(g)
	taken := m.note(now, g)
	if taken || !m.claimable(now) {
		return
	}
	if at, waiting := m.turn(now, g); waiting && now < at {
		return
	}
	if !m.proven(now, g) {
		return
	}
	for _, ip := range g.Addresses {
		if a := m.addrs[ip]; !a.claimed() {
			a.Ownership = Ownership{Phase: Claiming}
			a.after, a.decided = m.update.newest, now
			m.update.changed(now)
		}
	}
}

// serves says whether this node may own the group.
func (m *Machine) serves(g Group) bool { return m.ready && g.Eligible }

// claimable says whether this node may claim anything: only under a grant.
func (m *Machine) claimable(now time.Duration) bool {
	return m.synced && m.ready && !m.suspended && now < m.valid && now >= m.hold
}

// first says whether this node wins a group that lies on several nodes, which
// happens when two groups become one. The owner of the lowest address wins.
func (m *Machine) first(now time.Duration, g Group) bool {
	var lowest netip.Addr
	mine := true
	for _, ip := range g.Addresses {
		if lowest.IsValid() && before(lowest, ip) {
			continue
		}
		if a := m.addrs[ip]; a != nil && a.has() {
			lowest, mine = ip, true
		} else if m.view.holder(now, ip, m.node) != "" {
			lowest, mine = ip, false
		}
	}
	return mine || !m.owns(g)
}

// before orders what a group holds: tokens come first, since the address that
// belongs to one is found out only by its owner.
func before(a, b netip.Addr) bool {
	if IsToken(a) != IsToken(b) {
		return IsToken(a)
	}
	return a.Less(b)
}

func (m *Machine) owns(g Group) bool {
	return slices.ContainsFunc(g.Addresses, func(ip netip.Addr) bool {
		a := m.addrs[ip]
		return a != nil && a.has()
	})
}

// reclaim takes back what was being drained and never left our Lease.
func (m *Machine) reclaim(g Group) {
	for _, ip := range g.Addresses {
		if a := m.addrs[ip]; a != nil && a.Phase == Draining && !a.lost {
			a.Phase = Owned
		}
	}
}

// note keeps book of since when the group's addresses are free and says
// whether another node holds one of them or all are claimed already.
func (m *Machine) note(now time.Duration, g Group) (taken bool) {
	all := true
	for _, ip := range g.Addresses {
		a := m.addrs[ip]
		if a == nil {
			a = &address{}
			m.addrs[ip] = a
		}
		switch {
		case a.claimed():
			continue
		case m.view.holder(now, ip, m.node) != "":
			taken, a.free = true, 0
			if a.Phase == Probing {
				a.Phase = Idle
			}
		case a.free == 0:
			a.free = max(now, 1)
		}
		all = false
	}
	return taken || all
}

// turn returns when it is this node's turn to claim the group, and whether
// the group waits for that. A group that this node owns in part needs no turn.
func (m *Machine) turn(now time.Duration, g Group) (at time.Duration, waiting bool) {
	if !m.serves(g) || m.owns(g) {
		return 0, false
	}
	wait := stagger
	for _, ip := range g.Addresses {
		a := m.addrs[ip]
		if a == nil || a.free == 0 || a.Phase == Probing || a.claimed() {
			return 0, false
		}
		at = max(at, a.free)
		if !m.known(now, ip, a) {
			wait = probeStagger
		}
	}
	at += time.Duration(m.rank(now, g)) * wait
	return at, at > now
}

// rank is this node's place in the group's order of preference.
func (m *Machine) rank(now time.Duration, g Group) int {
	nodes := m.Live(now)
	if g.Candidates != nil {
		nodes = slices.DeleteFunc(nodes, func(n string) bool {
			return n != m.node && !slices.Contains(g.Candidates, n)
		})
	}
	key := slices.MinFunc(g.Addresses, netip.Addr.Compare)
	return slices.Index(Prefer(key, nodes), m.node)
}

// Prefer orders nodes by preference for a key: rendezvous hashing, so that
// every node computes the same order and the loss of a node moves only what
// it owned.
func Prefer(key netip.Addr, nodes []string) []string {
	weights := make(map[string]uint64, len(nodes))
	for _, n := range nodes {
		weights[n] = weight(key, n)
	}
	sorted := slices.Clone(nodes)
	slices.SortFunc(sorted, func(a, b string) int {
		switch wa, wb := weights[a], weights[b]; {
		case wa > wb:
			return -1
		case wa < wb:
			return 1
		}
		return strings.Compare(a, b)
	})
	return sorted
}

func weight(key netip.Addr, node string) uint64 {
	h := fnv.New64a()
	b := key.As16()
	_, _ = h.Write(b[:]) // hash.Hash never fails
	_, _ = h.Write([]byte(node))
	// FNV alone spreads keys that differ in their last byte poorly; the
	// finalizer of MurmurHash3 mixes all bits.
	x := h.Sum64()
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

// proven says whether no stranger has the group's addresses, and starts to
// probe those of which that is not known.
func (m *Machine) proven(now time.Duration, g Group) bool {
	ok := true
	for _, ip := range g.Addresses {
		if a := m.addrs[ip]; !m.known(now, ip, a) {
			a.Ownership = Ownership{Phase: Probing}
			ok = false
		}
	}
	return ok
}

// known says whether no stranger has the address: it is ours, or was one of
// ours until a moment ago, or a probe found nobody. Of a token nobody else
// knows.
func (m *Machine) known(now time.Duration, ip netip.Addr, a *address) bool {
	return IsToken(ip) || a.claimed() || a.Phase == Released || m.view.recent(now, ip) ||
		a.probed != 0 && now-a.probed < Proven
}
