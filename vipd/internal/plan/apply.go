package plan

import (
	"cmp"
	"net/netip"
	"slices"
)

// Apply returns what the kernel holds after the operations. It is the model
// that tests run on and that a pass reports from without asking the kernel
// again; the kernel's contract suite holds it to the truth.
func Apply(a Actual, ops ...Op) Actual {
	if len(ops) == 0 {
		return a
	}
	m := newModel(a)
	for _, op := range ops {
		m.apply(op)
	}
	return m.actual(a)
}

// place is what the kernel identifies an address by.
type place struct {
	link   string
	prefix netip.Prefix
}

// model is Actual in a form in which single changes are cheap.
type model struct {
	addresses map[place]Address
	fence     bool
	chains    map[string]bool
	muted     map[netip.Addr]bool
	vips      map[Grant]map[netip.Addr]bool
}

func newModel(a Actual) *model {
	m := &model{
		addresses: make(map[place]Address, len(a.Addresses)), fence: a.Fence.Exists,
		chains: setOf(a.Fence.Chains), muted: setOf(a.Fence.Muted), vips: map[Grant]map[netip.Addr]bool{},
	}
	for _, x := range a.Addresses {
		m.addresses[place{x.Link, x.Prefix}] = x
	}
	for _, g := range Grants {
		m.vips[g] = setOf(a.Fence.Vips[g])
	}
	return m
}

func (m *model) apply(op Op) {
	switch o := op.(type) {
	case AddTable:
		m.fence = true
	case DelTable:
		m.fence = false
		clear(m.chains)
		clear(m.muted)
		for _, set := range m.vips {
			clear(set)
		}
	case AddChain:
		m.chains[o.Link] = true
	case DelChain:
		delete(m.chains, o.Link)
	case Mute:
		m.muted[o.IP] = true
	case Unmute:
		delete(m.muted, o.IP)
	case Cover:
		m.vips[o.Grant][o.IP] = true
	case Uncover:
		delete(m.vips[o.Grant], o.IP)
	case AddAddress:
		m.addresses[place{o.Link, o.Prefix}] = o.Address
	case Refresh:
		m.addresses[place{o.Link, o.Prefix}] = o.Address
	case DelAddress:
		delete(m.addresses, place{o.Link, o.Prefix})
	}
}

// actual returns the model's state in a fixed order, with the links of a.
func (m *model) actual(a Actual) Actual {
	next := Actual{Links: a.Links, Fence: Fence{Exists: m.fence}}
	for _, x := range m.addresses {
		next.Addresses = append(next.Addresses, x)
	}
	SortAddresses(next.Addresses)
	if !m.fence {
		return next
	}
	for name := range m.chains {
		next.Fence.Chains = append(next.Fence.Chains, name)
	}
	slices.Sort(next.Fence.Chains)
	next.Fence.Muted = sorted(m.muted)
	next.Fence.Vips = map[Grant][]netip.Addr{}
	for _, g := range Grants {
		next.Fence.Vips[g] = sorted(m.vips[g])
	}
	next.Fence.Open = a.Fence.Open
	return next
}

// SortAddresses puts addresses into the order that plans and reports use.
func SortAddresses(list []Address) {
	slices.SortFunc(list, func(a, b Address) int {
		return cmp.Or(comparePrefixes(a.Prefix, b.Prefix), cmp.Compare(a.Link, b.Link))
	})
}
