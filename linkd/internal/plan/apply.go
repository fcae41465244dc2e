package plan

import "slices"

// Apply returns what the kernel holds after the operations: the model's own
// idea of them, on which the tests and the fake kernel rest. A link on top of
// one that is removed goes with it.
func Apply(a Actual, ops ...Op) Actual {
	links := slices.Clone(a.Links)
	for _, op := range ops {
		links = apply(links, op)
	}
	return Actual{Links: links}
}

func apply(links []Link, op Op) []Link {
	change := func(index int, f func(*Link)) []Link {
		for i := range links {
			if links[i].Index == index {
				f(&links[i])
			}
		}
		return links
	}
	switch o := op.(type) {
	case Delete:
		return remove(links, o.Index)
	case Add:
		if o.Replaces != 0 {
			links = remove(links, o.Replaces)
		}
		for _, l := range links {
			if l.Name == o.Temp && o.MayRemove(l.Alias) {
				links = remove(links, l.Index) // what a process that died left
			}
		}
		return add(links, o)
	case HandOver:
		return change(o.Index, func(l *Link) { l.Alias = o.Alias })
	case SetAdmin:
		return change(o.Index, func(l *Link) { l.Admin = o.Up })
	case SetMAC:
		return change(o.Index, func(l *Link) { l.MAC = o.MAC })
	case SetMTU:
		return change(o.Index, func(l *Link) { l.MTU = o.MTU })
	case SetConf:
		return change(o.Index, func(l *Link) { l.Conf = o.Conf })
	}
	return links
}

func remove(links []Link, index int) []Link {
	kept := slices.DeleteFunc(slices.Clone(links), func(l Link) bool { return l.Index == index })
	for _, l := range links {
		if l.ParentIndex == index && l.Index != index {
			kept = remove(kept, l.Index)
		}
	}
	return kept
}

// add makes a link unless the kernel would refuse it.
func add(links []Link, o Add) []Link {
	at := slices.IndexFunc(links, func(l Link) bool { return l.Name == o.Parent })
	if at < 0 || slices.ContainsFunc(links, func(l Link) bool { return l.Name == o.Name }) {
		return links
	}
	parent := links[at]
	l := Link{
		Name: o.Name, Kind: o.Kind, ParentIndex: parent.Index, MAC: o.MAC, MTU: parent.MTU,
		Alias: o.Alias, Admin: !o.Down,
	}
	for _, other := range links {
		l.Index = max(l.Index, other.Index)
	}
	l.Index++
	if l.MAC == "" {
		l.MAC = parent.MAC
	}
	switch o.Kind {
	case VLAN:
		l.VLAN, l.VLANProtocol = o.VLAN, protocol8021Q
	case Macvlan:
		l.MacvlanMode, l.Conf = modeBridge, o.Conf()
	}
	return append(links, l)
}
