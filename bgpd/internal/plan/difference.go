package plan

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Sent is what a peer was told, by prefix in order.
type Sent []Path

// Has says whether the peer was told a prefix.
func (s Sent) Has(p netip.Prefix) bool {
	_, ok := slices.BinarySearchFunc(s, p, func(a Path, p netip.Prefix) int { return Compare(a.Prefix, p) })
	return ok
}

// Op is a change that a session must send. It prints as the line of BIRD's or
// GoBGP's command that an operator would type for one prefix.
type Op interface{ fmt.Stringer }

// Withdraw takes prefixes back.
type Withdraw struct{ Prefixes []netip.Prefix }

// Announce tells prefixes that share their attributes.
type Announce struct {
	*Attributes
	Prefixes []netip.Prefix
}

func (o Withdraw) String() string { return "gobgp global rib del " + list(o.Prefixes) }

func (o Announce) String() string {
	text := "gobgp global rib add " + list(o.Prefixes)
	if len(o.Communities) > 0 || o.Leaving {
		var all []string
		for _, c := range o.Communities {
			all = append(all, c.String())
		}
		if o.Leaving {
			all = append(all, "graceful-shutdown")
		}
		text += " community " + strings.Join(all, ",")
	}
	return text
}

func list(prefixes []netip.Prefix) string {
	const most = 3
	var out []string
	for i, p := range prefixes {
		if i == most {
			out = append(out, fmt.Sprintf("(and %d more)", len(prefixes)-most))
			break
		}
		out = append(out, p.String())
	}
	return strings.Join(out, " ")
}

// Changes calls gone and come in the order of prefixes: gone for those that
// are in before alone, come for those that are in after alone, or there with
// other attributes. Both lists are in order.
func Changes(before, after []Path, gone, come func(Path)) {
	for len(before) > 0 || len(after) > 0 {
		switch order := front(before, after); {
		case order < 0:
			gone(before[0])
			before = before[1:]
		case order > 0:
			come(after[0])
			after = after[1:]
		default:
			if !before[0].Equal(after[0].Attributes) {
				come(after[0])
			}
			before, after = before[1:], after[1:]
		}
	}
}

// front compares the first paths of two lists, one of which may be at its end.
func front(before, after []Path) int {
	switch {
	case len(before) == 0:
		return 1
	case len(after) == 0:
		return -1
	}
	return Compare(before[0].Prefix, after[0].Prefix)
}

// Difference returns what a session must send so that its peer knows the
// wanted paths, which are in order, and nothing else: withdrawals first, then
// one Announce for each set of attributes, in the order of their first prefix.
func Difference(wanted []Path, sent Sent) []Op {
	var ops []Op
	var withdrawn []netip.Prefix
	groups := map[string]*Announce{}
	var order []*Announce
	Changes(sent, wanted, func(p Path) { withdrawn = append(withdrawn, p.Prefix) }, func(p Path) {
		g := groups[p.id]
		if g == nil {
			g = &Announce{Attributes: p.Attributes}
			groups[p.id], order = g, append(order, g)
		}
		g.Prefixes = append(g.Prefixes, p.Prefix)
	})
	if len(withdrawn) > 0 {
		ops = append(ops, Withdraw{withdrawn})
	}
	for _, g := range order {
		ops = append(ops, *g)
	}
	return ops
}
