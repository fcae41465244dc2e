package tunnel

import (
	"cmp"
	"maps"
	"slices"
)

// Plan returns the operations that bring what there is to what there shall be:
// first what goes, so that a far end never hears of two, then what comes.
func Plan(d Desired, a Actual) []Op {
	ops := Removals(d, a)
	for _, t := range slices.SortedFunc(slices.Values(d.Tunnels), func(x, y Tunnel) int { return cmp.Compare(x.Name, y.Name) }) {
		if !a.Foreign(t, d.Alias) {
			ops = append(ops, t.bring(d, a.Links[t.Name])...)
		}
	}
	return ops
}

// Removals returns those of Plan that take away.
func Removals(d Desired, a Actual) []Op {
	wanted := map[string]Tunnel{}
	for _, t := range d.Tunnels {
		wanted[t.Name] = t
	}
	var ops []Op
	for _, name := range slices.Sorted(maps.Keys(a.Links)) {
		l := a.Links[name]
		t, ok := wanted[name]
		switch {
		case !l.Ours(d.Alias):
		case ok && (l.Port == t.Port || l.Port == 0):
		case ok || d.Sweep || d.Idle[name]:
			ops = append(ops, remove(l)...)
		}
	}
	return ops
}

// remove silences a link and takes it away.
func remove(l Link) (ops []Op) {
	if l.Up {
		ops = append(ops, SetUp{Name: l.Name})
	}
	for _, f := range Families {
		if l.Rules[f] {
			ops = append(ops, DelRule{Tunnel{Port: l.Port}.rule(f)})
		}
	}
	return append(ops, Del{l.Name})
}

func (t Tunnel) rule(f Family) Rule { return Rule{t.Table(), t.Mark(), f} }

// bring makes of a link, which may not be there, what the tunnel needs. One
// that had another port was removed.
func (t Tunnel) bring(d Desired, l Link) (ops []Op) {
	if l.Name == "" || l.Port != t.Port && l.Port != 0 {
		ops = append(ops, Add{t.Name, d.Alias})
		l = Link{}
	}
	if !t.configured(l.Device) || d.Again[t.Name] {
		ops = append(ops, Configure{t})
	}
	if !l.Up || l.MTU != MTU {
		ops = append(ops, SetUp{t.Name, true})
	}
	f := t.Family()
	if !l.Routes[f] {
		ops = append(ops, Route{t.Name, t.Table(), f})
	}
	if !l.Rules[f] {
		ops = append(ops, t.rule(f))
	}
	if other := f.other(); l.Rules[other] {
		ops = append(ops, DelRule{t.rule(other)})
	}
	return ops
}

// Apply returns what there is after the operations: the model that the kernel
// is held to.
func Apply(a Actual, ops ...Op) Actual {
	next := Actual{Links: maps.Clone(a.Links)}
	if next.Links == nil {
		next.Links = map[string]Link{}
	}
	change := func(name string, f func(*Link)) {
		l := next.Links[name]
		l.Routes, l.Rules = maps.Clone(l.Routes), maps.Clone(l.Rules)
		f(&l)
		next.Links[name] = l
	}
	for _, op := range ops {
		switch o := op.(type) {
		case Add:
			delete(next.Links, Temporary(o.Name))
			next.Links[o.Name] = Link{Name: o.Name, Kind: Kind, Alias: o.Alias, MTU: MTU}
		case Configure:
			change(o.Tunnel.Name, func(l *Link) { l.Device = o.Tunnel.device() })
		case SetUp:
			change(o.Name, func(l *Link) {
				if l.Up = o.Up; o.Up {
					l.MTU = MTU
				} else {
					l.Routes = nil // the kernel takes them away
				}
			})
		case Route:
			change(o.Name, func(l *Link) { l.Routes = with(l.Routes, o.Family) })
		case Rule:
			for name, l := range next.Links {
				if l.Table() == o.Table {
					change(name, func(l *Link) { l.Rules = with(l.Rules, o.Family) })
				}
			}
		case DelRule:
			for name, l := range next.Links {
				if l.Table() == o.Rule.Table {
					change(name, func(l *Link) { delete(l.Rules, o.Rule.Family) })
				}
			}
		case Del:
			delete(next.Links, o.Name)
		}
	}
	return next
}

// Table is the number of the routing table of the link's port.
func (l Link) Table() int { return Tunnel{Port: l.Port}.Table() }

func with(set map[Family]bool, f Family) map[Family]bool {
	if set == nil {
		set = map[Family]bool{}
	}
	set[f] = true
	return set
}
