package plan

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
)

// Sent is what a peer was told: the ID of the attributes by prefix.
type Sent map[netip.Prefix]string

// Op is a change that a session must send. It prints as the line of BIRD's or
// GoBGP's command that an operator would type for one prefix.
type Op interface {
	fmt.Stringer
	// Apply makes the change in what was sent.
	Apply(Sent)
}

// Withdraw takes prefixes back.
type Withdraw struct{ Prefixes []netip.Prefix }

// Announce tells prefixes that share their attributes.
type Announce struct {
	Attributes
	Prefixes []netip.Prefix
}

// Apply implements Op.
func (o Withdraw) Apply(s Sent) {
	for _, p := range o.Prefixes {
		delete(s, p)
	}
}

// Apply implements Op.
func (o Announce) Apply(s Sent) {
	id := o.ID()
	for _, p := range o.Prefixes {
		s[p] = id
	}
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

// Difference returns what a session must send so that its peer knows the
// wanted paths and nothing else: withdrawals first, then one Announce for
// each set of attributes, in the order of their first prefix.
func Difference(wanted []Path, sent Sent) []Op {
	var ops []Op
	want := make(map[netip.Prefix]bool, len(wanted))
	groups := map[string]*Announce{}
	var order []string
	for _, p := range wanted {
		if want[p.Prefix] {
			continue
		}
		want[p.Prefix] = true
		id := p.ID()
		if old, ok := sent[p.Prefix]; ok && old == id {
			continue
		}
		if groups[id] == nil {
			groups[id] = &Announce{Attributes: p.Attributes}
			order = append(order, id)
		}
		groups[id].Prefixes = append(groups[id].Prefixes, p.Prefix)
	}
	var gone []netip.Prefix
	for _, p := range slices.SortedFunc(maps.Keys(sent), netip.Prefix.Compare) {
		if !want[p] {
			gone = append(gone, p)
		}
	}
	if len(gone) > 0 {
		ops = append(ops, Withdraw{gone})
	}
	for _, id := range order {
		ops = append(ops, *groups[id])
	}
	return ops
}
