package plan

import (
	"cmp"
	"slices"
)

// Plan returns the operations that lead from actual to desired, in order:
// what goes before what comes, since a VLAN's id is free only then, and a
// parent before what is on top of it.
func Plan(desired Desired, actual Actual) []Op {
	p := newPlanner(desired, actual)
	ops := p.removals()
	for _, w := range p.wants {
		ops = append(ops, p.bring(w)...)
	}
	return ops
}

// planner indexes what Plan is given.
type planner struct {
	Desired
	wants   []Want // one per name, parents first
	byName  map[string]Link
	byIndex map[int]Link
	wanted  map[string]bool
	gone    map[string]bool
	// coming are links that this plan makes.
	coming map[string]bool
}

func newPlanner(d Desired, a Actual) *planner {
	p := &planner{
		Desired: d, byName: map[string]Link{}, byIndex: map[int]Link{},
		wanted: map[string]bool{}, gone: map[string]bool{}, coming: map[string]bool{},
	}
	for _, l := range a.Links {
		p.byName[l.Name], p.byIndex[l.Index] = l, l
	}
	parents := map[string]string{}
	for _, w := range d.Wants {
		if !p.wanted[w.Name] && len(w.Users) > 0 {
			p.wanted[w.Name] = true
			p.wants = append(p.wants, w)
			parents[w.Name] = w.Parent
		}
	}
	slices.SortStableFunc(p.wants, func(a, b Want) int {
		return cmp.Or(height(parents, a.Name)-height(parents, b.Name), cmp.Compare(a.Name, b.Name))
	})
	for _, name := range d.Gone {
		p.gone[name] = true
	}
	return p
}

// height is how many links a link is on top of. A circle, which no kernel holds,
// ends somewhere.
func height[K comparable](parents map[K]K, link K) (n int) {
	for range parents {
		parent, ok := parents[link]
		if !ok {
			break
		}
		link, n = parent, n+1
	}
	return n
}

// removals are links of ours that no document needs. They count as gone in what
// follows.
func (p *planner) removals() []Op {
	var doomed []Link
	for _, l := range p.byIndex {
		if p.owned(l) && !p.wanted[l.Name] && (p.Sweep || p.gone[l.Name]) {
			doomed = append(doomed, l)
		}
	}
	parents := map[int]int{}
	for _, l := range doomed {
		parents[l.Index] = l.ParentIndex
	}
	slices.SortFunc(doomed, func(a, b Link) int {
		return cmp.Or(height(parents, b.Index)-height(parents, a.Index), cmp.Compare(a.Name, b.Name))
	})
	ops := make([]Op, 0, len(doomed))
	for _, l := range doomed {
		delete(p.byName, l.Name) // nothing is put on top of it
		ops = append(ops, Delete{l.Name, l.Index})
	}
	return ops
}

// bring makes one link what it shall be.
func (p *planner) bring(w Want) []Op {
	l, there := p.byName[w.Name]
	parent, has := p.byName[w.Parent]
	mine := there && p.owned(l)
	switch {
	case !there && (has || p.coming[w.Parent]):
		p.coming[w.Name] = true
		return []Op{p.add(w, 0)}
	case !there || !mine || !has && !p.coming[w.Parent]:
		return nil // see refusal
	case p.coming[w.Parent] || !matches(w, l, parent):
		p.coming[w.Name] = true
		return []Op{p.add(w, l.Index)}
	}
	var ops []Op
	if !p.ownedBy(w, l) {
		ops = append(ops, HandOver{l.Name, l.Index, Alias(p.Instance, w.Users[0])})
	}
	if w.Kind == Macvlan {
		if w.MAC != "" && l.MAC != w.MAC {
			ops = append(ops, SetMAC{l.Name, l.Index, w.MAC})
		}
		if l.Conf != w.Conf() {
			ops = append(ops, SetConf{l.Name, l.Index, w.Conf()})
		}
	}
	if l.MTU != parent.MTU {
		ops = append(ops, SetMTU{l.Name, l.Index, parent.MTU})
	}
	if l.Admin == w.Down {
		ops = append(ops, SetAdmin{l.Name, l.Index, !w.Down})
	}
	return ops
}

func (p *planner) add(w Want, replaces int) Add {
	return Add{Want: w, Alias: Alias(p.Instance, w.Users[0]), Temp: TempName(p.Instance, w.Name), Replaces: replaces}
}

// ownedBy says whether the link's owner still needs it.
func (p *planner) ownedBy(w Want, l Link) bool {
	return slices.ContainsFunc(w.Users, func(key string) bool { return l.Alias == Alias(p.Instance, key) })
}

// matches says whether a link is what is wanted, but for what can be changed.
func matches(w Want, l, parent Link) bool {
	if l.Kind != w.Kind || l.ParentIndex != parent.Index {
		return false
	}
	if w.Kind == VLAN {
		return l.VLAN == w.VLAN && l.VLANProtocol == protocol8021Q
	}
	return l.MacvlanMode == modeBridge
}

// refusal says why a wanted link cannot be used as it is, "" if it can.
func (p *planner) refusal(w Want) Refusal {
	l, there := p.byName[w.Name]
	parent, has := p.byName[w.Parent]
	switch {
	case there && has && matches(w, l, parent):
		switch {
		case w.Down:
			return HeldDown
		case !l.Admin && !p.owned(l):
			return LinkDown
		case !l.Admin:
			return KernelError
		}
		return ""
	case there && !p.owned(l):
		return WrongLink
	case !has:
		return ParentMissing
	}
	return KernelError
}

// Verdict is how a wanted link stands.
type Verdict struct {
	Link
	// There: a link that may be used has the name.
	There bool
	// Owned: it is ours.
	Owned bool
	// Why is the reason when it cannot be used.
	Why Refusal
}

// Judge says how each wanted link stands.
func Judge(desired Desired, actual Actual) map[string]Verdict {
	p := newPlanner(desired, actual)
	verdicts := make(map[string]Verdict, len(p.wants))
	for _, w := range p.wants {
		l, there := p.byName[w.Name]
		v := Verdict{Why: p.refusal(w)}
		if v.There = there && v.Why != WrongLink; v.There {
			v.Link, v.Owned = l, p.owned(l)
		}
		verdicts[w.Name] = v
	}
	return verdicts
}
