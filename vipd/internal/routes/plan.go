// Package routes keeps the routes of routing-table mode: one for each VIP that
// this node serves, in a table from which a routing daemon of the node (BIRD,
// FRR) takes them to its peers.
//
// A route is ours when it is in that table and has our protocol. Everything
// else is foreign: it is neither changed nor removed, and where one has a VIP's
// place the VIP is reported as not present. What no document wants is removed
// once the documents are complete. Plan is pure; Kernel makes what it says.
package routes

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
)

// Route is one route of ours.
type Route struct {
	Prefix netip.Prefix
	Link   string
	// Type is a number of RTN_*, rtnetlink(7).
	Type int
	// Realm is what Reassert flips, so that listeners see a change; IPv4 only.
	Realm uint32
}

// Desired is what the documents want.
type Desired struct {
	Table    uint32
	Protocol uint8
	// Sweep says that the documents are complete.
	Sweep bool
	// Routes are sorted by prefix, Gone are addresses that a document wants
	// to have none.
	Routes []Route
	Gone   []netip.Addr
	// Reassert says that every route is to be told to listeners once more.
	Reassert bool
}

// Op is one change of one route of ours. It prints as the command by which an
// operator would make it.
type Op interface {
	fmt.Stringer
	// Of is the address that the route is for.
	Of() netip.Addr
}

// The operations.
type (
	// Add adds a route; one of somebody else's in its place is an error.
	Add struct {
		Route
		Table    uint32
		Protocol uint8
	}
	// Delete removes a route; one that is gone already is no error.
	Delete struct {
		Route
		Table    uint32
		Protocol uint8
	}
	// Reassert replaces a route by itself with another realm.
	Reassert struct {
		Route
		Table    uint32
		Protocol uint8
	}
)

// Of implements Op.
func (o Add) Of() netip.Addr { return o.Prefix.Addr() }

// Of implements Op.
func (o Delete) Of() netip.Addr { return o.Prefix.Addr() }

// Of implements Op.
func (o Reassert) Of() netip.Addr { return o.Prefix.Addr() }

func (o Add) String() string      { return words("add", o.Route, o.Table, o.Protocol) }
func (o Delete) String() string   { return words("delete", o.Route, o.Table, o.Protocol) }
func (o Reassert) String() string { return words("replace", o.Route, o.Table, o.Protocol) }

func words(verb string, r Route, table uint32, protocol uint8) string {
	realm := ""
	if r.Realm != 0 && r.Prefix.Addr().Is4() {
		realm = fmt.Sprintf(" realm %d", r.Realm)
	}
	return fmt.Sprintf("ip route %s type %d %s dev %s table %d proto %d%s", verb, r.Type, r.Prefix, r.Link, table, protocol, realm)
}

// Plan returns the operations that lead from actual, which is our routes in
// the table, to desired: removals first.
func Plan(desired Desired, actual []Route) []Op {
	want := make(map[netip.Prefix]Route, len(desired.Routes))
	for _, r := range desired.Routes {
		if _, twice := want[r.Prefix]; !twice {
			want[r.Prefix] = r
		}
	}
	gone := map[netip.Addr]bool{}
	for _, ip := range desired.Gone {
		gone[ip] = true
	}
	there := map[netip.Prefix]Route{}
	var ops []Op
	for _, r := range sorted(actual) {
		w, wanted := want[r.Prefix]
		_, twice := there[r.Prefix]
		switch {
		case wanted && w.Link == r.Link && w.Type == r.Type && !twice:
			there[r.Prefix] = r
		case wanted, desired.Sweep, gone[r.Prefix.Addr()]:
			ops = append(ops, Delete{r, desired.Table, desired.Protocol})
		}
	}
	for _, w := range sorted(desired.Routes) {
		r, ok := there[w.Prefix]
		switch {
		case !ok:
			w.Realm = 0
			ops = append(ops, Add{w, desired.Table, desired.Protocol})
			there[w.Prefix] = w
		case desired.Reassert && r == w.with(r.Realm):
			ops = append(ops, Reassert{r.with(r.Realm%2 + 1), desired.Table, desired.Protocol})
		}
	}
	return ops
}

func (r Route) with(realm uint32) Route {
	r.Realm = realm
	return r
}

// Apply returns our routes after the operations.
func Apply(actual []Route, ops ...Op) []Route {
	list := slices.Clone(actual)
	remove := func(r Route) {
		list = slices.DeleteFunc(list, func(x Route) bool { return x.Prefix == r.Prefix && x.Link == r.Link && x.Type == r.Type })
	}
	for _, op := range ops {
		switch o := op.(type) {
		case Add:
			list = append(list, o.Route)
		case Delete:
			remove(o.Route)
		case Reassert:
			remove(o.Route)
			r := o.Route
			if r.Prefix.Addr().Is6() {
				r.Realm = 0 // IPv6 has none
			}
			list = append(list, r)
		}
	}
	return sorted(list)
}

func sorted(list []Route) []Route {
	return slices.SortedFunc(slices.Values(list), func(a, b Route) int {
		return cmp.Or(a.Prefix.Compare(b.Prefix), cmp.Compare(a.Link, b.Link), cmp.Compare(a.Type, b.Type))
	})
}
