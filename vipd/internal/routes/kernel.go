package routes

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/vipod/vipod/shared/netsafe"
)

// Kernel makes and observes our routes; Linux is the real one and
// routestest.Fake the other.
type Kernel interface {
	// Observe returns the routes of the table that have the protocol.
	Observe(table uint32, protocol uint8) ([]Route, error)
	// Do makes the operations and returns an error or nil for each.
	Do(ops []Op) []error
}

// ErrForeign is a route of somebody else's in the place of ours.
var ErrForeign = errors.New("the table has a route of somebody else's for it")

// Linux is the kernel of this machine.
type Linux struct{}

// Observe implements Kernel.
func (Linux) Observe(table uint32, protocol uint8) ([]Route, error) {
	list, err := netsafe.Routes(table)
	if err != nil {
		return nil, err
	}
	names := map[int]string{}
	var out []Route
	for _, r := range list {
		if r.Protocol != protocol {
			continue
		}
		name, ok := names[r.LinkIndex]
		if !ok {
			if i, err := net.InterfaceByIndex(r.LinkIndex); err == nil {
				name = i.Name // else it went in between, and the route with it
			}
			names[r.LinkIndex] = name
		}
		out = append(out, Route{Prefix: r.Prefix, Link: name, Type: int(r.Type), Realm: r.Realm})
	}
	return sorted(out), nil
}

// Do implements Kernel.
func (Linux) Do(ops []Op) []error {
	changes, errs := make([]netsafe.RouteChange, 0, len(ops)), make([]error, len(ops))
	var at []int
	index := map[string]int{}
	for i, op := range ops {
		c := change(op)
		name := linkOf(op)
		if _, ok := index[name]; !ok {
			link, err := net.InterfaceByName(name)
			if err != nil {
				index[name] = 0
			} else {
				index[name] = link.Index
			}
		}
		if c.Route.LinkIndex = index[name]; c.Route.LinkIndex == 0 && c.Kind != netsafe.Delete {
			errs[i] = fmt.Errorf("making %q: there is no link %s", op, name)
			continue
		}
		changes, at = append(changes, c), append(at, i)
	}
	for n, err := range netsafe.ChangeRoutes(changes) {
		errs[at[n]] = outcome(ops[at[n]], err)
	}
	return errs
}

func linkOf(op Op) string {
	switch o := op.(type) {
	case Add:
		return o.Link
	case Delete:
		return o.Link
	case Reassert:
		return o.Link
	}
	return ""
}

func change(op Op) netsafe.RouteChange {
	of := func(kind netsafe.ChangeKind, r Route, table uint32, protocol uint8) netsafe.RouteChange {
		scope := uint8(unix.RT_SCOPE_UNIVERSE)
		if r.Prefix.Addr().Is4() {
			scope = unix.RT_SCOPE_LINK // there is no gateway
		}
		if r.Type == unix.RTN_LOCAL {
			scope = unix.RT_SCOPE_HOST
		}
		return netsafe.RouteChange{Kind: kind, Route: netsafe.Route{
			Prefix: r.Prefix, Table: table, Protocol: protocol, Type: uint8(r.Type), Scope: scope, Realm: r.Realm,
		}}
	}
	switch o := op.(type) {
	case Add:
		return of(netsafe.Add, o.Route, o.Table, o.Protocol)
	case Reassert:
		return of(netsafe.Replace, o.Route, o.Table, o.Protocol)
	case Delete:
		return of(netsafe.Delete, o.Route, o.Table, o.Protocol)
	}
	return netsafe.RouteChange{}
}

// outcome folds "gone already" into success.
func outcome(op Op, err error) error {
	_, deleting := op.(Delete)
	switch {
	case err == nil, deleting && (errors.Is(err, unix.ESRCH) || netsafe.Gone(err)):
		return nil
	case errors.Is(err, unix.EEXIST):
		return fmt.Errorf("making %q: %w", op, ErrForeign)
	}
	return fmt.Errorf("making %q: %w", op, err)
}

// Addresses returns those that have a route as it is wanted.
func Addresses(d Desired, actual []Route) map[netip.Addr]bool {
	have, there := make(map[Route]bool, len(actual)), map[netip.Addr]bool{}
	for _, r := range actual {
		have[r.with(0)] = true
	}
	for _, w := range d.Routes {
		if have[w.with(0)] {
			there[w.Prefix.Addr()] = true
		}
	}
	return there
}
