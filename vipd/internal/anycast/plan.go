// Package anycast keeps the routes to addresses that pods of this node have
// themselves, on their own loopback: through another address of each such pod,
// which the network plugin has made reachable. Several pods are one route, over
// whose next hops the kernel spreads the connections.
//
// A route is ours when it is in the main table, has our protocol and a gateway.
// Everything else is foreign and stays as it is. What no document wants is
// removed once the documents are complete. Plan is pure; Kernel makes what it
// says.
package anycast

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/vipod/vipod/shared/schema"
)

// Route is one route of ours; Via is sorted.
type Route struct {
	IP  netip.Addr
	Via []netip.Addr
}

func (r Route) equal(o Route) bool { return r.IP == o.IP && slices.Equal(r.Via, o.Via) }

// Desired is what the documents want.
type Desired struct {
	Protocol uint8
	// Sweep says that the documents are complete.
	Sweep bool
	// Routes are sorted by address.
	Routes []Route
}

// Of returns what the documents want.
func Of(protocol uint8, vips map[string]schema.VIP, complete bool) Desired {
	d := Desired{Protocol: protocol, Sweep: complete}
	routes := map[netip.Addr][]netip.Addr{}
	for _, v := range vips {
		if v.State != schema.StateActive && v.State != schema.StateDraining {
			continue
		}
		for _, a := range v.Addresses {
			for _, pod := range v.Via {
				if pod.Is4() == a.IP.Is4() && pod != a.IP {
					routes[a.IP] = append(routes[a.IP], pod)
				}
			}
		}
	}
	for _, ip := range slices.SortedFunc(maps.Keys(routes), netip.Addr.Compare) {
		slices.SortFunc(routes[ip], netip.Addr.Compare)
		d.Routes = append(d.Routes, Route{ip, slices.Compact(routes[ip])})
	}
	return d
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
		Protocol uint8
	}
	// Change gives a route of ours other next hops.
	Change struct {
		Route
		Protocol uint8
	}
	// Delete removes a route; one that is gone already is no error.
	Delete struct {
		Route
		Protocol uint8
	}
)

// Of implements Op.
func (o Add) Of() netip.Addr { return o.IP }

// Of implements Op.
func (o Change) Of() netip.Addr { return o.IP }

// Of implements Op.
func (o Delete) Of() netip.Addr { return o.IP }

func (o Add) String() string    { return words("add", o.Route, o.Protocol) }
func (o Change) String() string { return words("replace", o.Route, o.Protocol) }
func (o Delete) String() string { return fmt.Sprintf("ip route delete %s proto %d", o.IP, o.Protocol) }

func words(verb string, r Route, protocol uint8) string {
	text := fmt.Sprintf("ip route %s %s proto %d", verb, r.IP, protocol)
	if len(r.Via) == 1 {
		return text + " via " + r.Via[0].String()
	}
	var hops []string
	for _, ip := range r.Via {
		hops = append(hops, "nexthop via "+ip.String())
	}
	return text + " " + strings.Join(hops, " ")
}

// Plan returns the operations that lead from actual, which is our routes, to
// desired: removals first.
func Plan(desired Desired, actual []Route) []Op {
	want := make(map[netip.Addr]Route, len(desired.Routes))
	for _, r := range desired.Routes {
		want[r.IP] = r
	}
	var removals, ops []Op
	there := map[netip.Addr]bool{}
	for _, r := range actual {
		w, wanted := want[r.IP]
		switch {
		case !wanted && desired.Sweep:
			removals = append(removals, Delete{r, desired.Protocol})
		case wanted && !w.equal(r):
			ops = append(ops, Change{w, desired.Protocol})
		}
		there[r.IP] = true
	}
	for _, w := range desired.Routes {
		if !there[w.IP] {
			ops = append(ops, Add{w, desired.Protocol})
		}
	}
	return append(removals, ops...)
}

// Apply returns our routes after an operation.
func Apply(actual []Route, op Op) []Route {
	list := slices.DeleteFunc(slices.Clone(actual), func(r Route) bool { return r.IP == op.Of() })
	switch o := op.(type) {
	case Add:
		list = append(list, o.Route)
	case Change:
		list = append(list, o.Route)
	}
	slices.SortFunc(list, func(a, b Route) int { return a.IP.Compare(b.IP) })
	return list
}
