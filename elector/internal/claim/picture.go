package claim

import (
	"hash/maphash"
	"net/netip"
	"time"
)

// Picture is a digest of who owns what. As long as it stays the same, so does
// everything that follows from ownership but for the passing of time.
type Picture struct {
	// Steady says that every address that this node is concerned with is
	// owned: nothing is being claimed, given up or probed.
	Steady bool
	// changes counts those of the Leases that were more than renewals.
	changes   uint64
	own, live uint64
}

var seed = maphash.MakeSeed()

// Picture returns the digest as of now.
func (m *Machine) Picture(now time.Duration) Picture {
	p := Picture{Steady: true, changes: m.view.changes}
	// Sums and not sequences: maps have no order.
	m.Addresses(func(ip netip.Addr, o Ownership) {
		p.Steady = p.Steady && o.Phase == Owned
		p.own += maphash.Comparable(seed, struct {
			ip netip.Addr
			Ownership
		}{ip, o})
	})
	for node, s := range m.view.leases {
		if s.live(now) {
			p.live += maphash.Comparable(seed, struct {
				node        string
				ready, gone bool
			}{node, s.Ready, s.gone})
		}
	}
	return p
}
