package plan

import (
	"cmp"
	"net/netip"
	"slices"
)

// Plan returns the operations that lead from actual to desired, in order.
func Plan(desired Desired, actual Actual) []Op {
	p := newPlanner(desired, actual)
	p.inOneGo()
	var ops []Op
	ops = append(ops, p.closing()...)
	ops = append(ops, p.removals()...)
	ops = append(ops, p.additions()...)
	return append(ops, p.openings()...)
}

// planner indexes what Plan is given.
type planner struct {
	Desired
	actual  Actual
	wants   []Want // one per address, sorted
	byIP    map[netip.Addr]Want
	links   map[string]Link
	ours    map[netip.Addr][]Address
	foreign map[netip.Addr]bool
	gone    map[netip.Addr]bool
	muted   map[netip.Addr]bool
	vips    map[Grant]map[netip.Addr]bool
}

func newPlanner(d Desired, a Actual) *planner {
	p := &planner{
		Desired: d, actual: a,
		byIP: map[netip.Addr]Want{}, links: map[string]Link{},
		ours: map[netip.Addr][]Address{}, foreign: map[netip.Addr]bool{},
		gone: setOf(d.Gone), muted: setOf(a.Fence.Muted), vips: map[Grant]map[netip.Addr]bool{},
	}
	for _, g := range Grants {
		p.vips[g] = setOf(a.Fence.Vips[g])
	}
	for _, l := range a.Links {
		p.links[l.Name] = l
	}
	for _, addr := range a.Addresses {
		ip := addr.Prefix.Addr()
		if addr.Protocol == d.Protocol {
			p.ours[ip] = append(p.ours[ip], addr)
		} else {
			p.foreign[ip] = true
		}
	}
	wants := slices.Clone(d.Wants)
	slices.SortStableFunc(wants, compareWants)
	for _, w := range wants {
		ip := w.Prefix.Addr()
		if _, dup := p.byIP[ip]; !dup {
			p.byIP[ip] = w
			p.wants = append(p.wants, w)
		}
	}
	return p
}

func compareWants(a, b Want) int {
	return cmp.Or(comparePrefixes(a.Prefix, b.Prefix), cmp.Compare(a.Link, b.Link))
}

func comparePrefixes(a, b netip.Prefix) int {
	return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
}

func setOf[T comparable](list []T) map[T]bool {
	m := make(map[T]bool, len(list))
	for _, v := range list {
		m[v] = true
	}
	return m
}

// needed says whether a want is the fence's business.
func (w Want) needed() bool { return w.Muted || len(w.Grants) > 0 }

// fenced says whether there shall be a fence.
func (p *planner) fenced() bool {
	return p.Fence && (p.Standing || slices.ContainsFunc(p.wants, Want.needed))
}

// closing puts every wanted address behind the fence, on every link by which
// it could be claimed.
func (p *planner) closing() []Op {
	if !p.fenced() {
		return nil
	}
	var ops []Op
	if !p.actual.Fence.Exists {
		ops = append(ops, AddTable{})
	}
	for _, name := range p.chains() {
		if !slices.Contains(p.actual.Fence.Chains, name) {
			ops = append(ops, AddChain{Link: name})
		}
	}
	for _, w := range p.wants {
		ip := w.Prefix.Addr()
		if w.Muted && !p.muted[ip] {
			ops = append(ops, Mute{IP: ip})
		}
		for _, g := range Grants {
			if slices.Contains(w.Grants, g) && !p.vips[g][ip] {
				ops = append(ops, Cover{Grant: g, IP: ip})
			}
		}
	}
	return ops
}

// chains returns the links that belong behind the fence. The kernel answers
// on any link for an address of any other (arp_ignore, ip-sysctl.rst), so
// those of the VIPs alone are not enough.
func (p *planner) chains() []string {
	used := map[string]bool{}
	for _, w := range p.wants {
		used[w.Link] = true
	}
	doomed := map[Address]bool{}
	for _, op := range p.removalsOf(p.Sweep) {
		doomed[op.Address] = true
	}
	for _, a := range p.actual.Addresses {
		if a.Prefix.Addr().IsGlobalUnicast() && !doomed[a] {
			used[a.Link] = true
		}
	}
	var names []string
	for name, l := range p.links {
		if !l.Loopback && (used[name] || l.Resolves && l.Admin && !l.Virtual) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// removals are addresses of ours that are not wanted where they are.
func (p *planner) removals() []Op {
	var ops []Op
	for _, op := range p.removalsOf(p.Sweep) {
		ops = append(ops, op)
	}
	return ops
}

// removalsOf returns the removals that are made when the documents are
// complete, or those of what documents name.
func (p *planner) removalsOf(complete bool) []DelAddress {
	var doomed []Address
	for ip, list := range p.ours {
		w, wanted := p.byIP[ip]
		wanted = wanted && !p.foreign[ip]
		if !wanted && !complete && !p.gone[ip] {
			continue
		}
		for _, a := range list {
			if !wanted || !p.keeps(w) || a.Link != w.Link || a.Prefix != w.Prefix {
				doomed = append(doomed, a)
			}
		}
	}
	SortAddresses(doomed)
	ops := make([]DelAddress, len(doomed))
	for i, a := range doomed {
		ops[i] = DelAddress{a}
	}
	return ops
}

// keeps says whether a wanted address may be in the kernel at all: where
// there is no fence, one that shall be mute can only be absent.
func (p *planner) keeps(w Want) bool { return p.Fence || !w.Muted }

func (p *planner) additions() []Op {
	var ops []Op
	for _, w := range p.wants {
		a, present := p.find(w)
		switch {
		case p.foreign[w.Prefix.Addr()]: // only fenced
		case present && stale(a, w):
			ops = append(ops, Refresh{w.address(p.Protocol)})
		case !present && p.refusal(w) == "":
			ops = append(ops, AddAddress{w.address(p.Protocol)})
		}
	}
	return ops
}

// find returns the wanted address as it is in the kernel.
func (p *planner) find(w Want) (Address, bool) {
	for _, a := range p.ours[w.Prefix.Addr()] {
		if p.keeps(w) && a.Link == w.Link && a.Prefix == w.Prefix {
			return a, true
		}
	}
	return Address{}, false
}

// stale says whether an address needs other lifetimes. Without the grant a
// life is only ever shortened.
func stale(a Address, w Want) bool {
	longest := w.Valid
	if w.Lent {
		longest++
	}
	if a.Valid > longest {
		return true
	}
	return w.Granted && (a.Valid < w.RefreshBelow || a.Preferred != 0)
}

// inOneGo lets addresses that will be due before long get their new lifetime
// together with one that is due now: that many passes become one, and after it
// they are due together.
func (p *planner) inOneGo() {
	due := slices.ContainsFunc(p.wants, func(w Want) bool {
		a, ok := p.find(w)
		return ok && stale(a, w)
	})
	if !due {
		return
	}
	for i := range p.wants {
		if w := &p.wants[i]; !w.Lent {
			w.RefreshBelow = min(w.RefreshBelow+w.RefreshBelow/2, w.Valid)
			p.byIP[w.Prefix.Addr()] = *w
		}
	}
}

func (w Want) address(protocol uint8) Address {
	return Address{Link: w.Link, Prefix: w.Prefix, Protocol: protocol, Scope: w.Scope, Valid: w.Valid}
}

// refusal says why a wanted address that is absent is not added.
func (p *planner) refusal(w Want) Refusal {
	l, ok := p.links[w.Link]
	settled := l.Settled4
	if w.Prefix.Addr().Is6() {
		settled = l.Settled6
	}
	switch {
	case p.foreign[w.Prefix.Addr()]:
		return ForeignAddress
	case !ok:
		return LinkMissing
	case !l.Admin:
		return LinkDown
	case !w.Granted:
		return NotGranted
	case !p.keeps(w):
		return NotMutable
	case !settled && !w.Bare:
		return LinkSettling
	}
	return ""
}

// openings removes from the fence what no document needs. It follows the
// removals: what could not be removed stays behind the fence.
func (p *planner) openings() []Op {
	if !p.actual.Fence.Exists {
		return nil
	}
	if !p.fenced() && p.Sweep {
		return []Op{DelTable{}}
	}
	var ops []Op
	for _, ip := range sorted(p.muted) {
		if w, wanted := p.byIP[ip]; p.mayOpen(ip) && (!wanted || !w.Muted) {
			ops = append(ops, Unmute{IP: ip})
		}
	}
	for _, g := range Grants {
		for _, ip := range sorted(p.vips[g]) {
			if w, wanted := p.byIP[ip]; p.mayOpen(ip) && (!wanted || !slices.Contains(w.Grants, g)) {
				ops = append(ops, Uncover{Grant: g, IP: ip})
			}
		}
	}
	if p.Sweep {
		ops = append(ops, p.unusedChains()...)
	}
	return ops
}

// mayOpen says whether the documents speak about the address, or are complete.
func (p *planner) mayOpen(ip netip.Addr) bool {
	_, wanted := p.byIP[ip]
	return wanted || p.Sweep || p.gone[ip]
}

func (p *planner) unusedChains() []Op {
	var ops []Op
	want := p.chains()
	chains := slices.Clone(p.actual.Fence.Chains)
	slices.Sort(chains)
	for _, name := range slices.Compact(chains) {
		if !slices.Contains(want, name) {
			ops = append(ops, DelChain{Link: name})
		}
	}
	return ops
}

func sorted(set map[netip.Addr]bool) []netip.Addr {
	list := make([]netip.Addr, 0, len(set))
	for ip := range set {
		list = append(list, ip)
	}
	slices.SortFunc(list, netip.Addr.Compare)
	return list
}
