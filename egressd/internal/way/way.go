// Package way leads packets with a mark to another node of the same network:
// by a rule of policy routing and a routing table with one default route for
// each node. A packet whose mark has a rule goes that way or not at all.
package way

import (
	"errors"
	"fmt"
	"hash/fnv"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Linux makes ways in the kernel of this machine. It needs CAP_NET_ADMIN and
// works in the network namespace of the calling thread.
type Linux struct {
	// Instance tells ways of two instances apart.
	Instance string
	// Protocol marks our rules and routes.
	Protocol int
}

const (
	// ours is the first byte of our marks and tables, which are the same number.
	ours, oursMask = 0x76000000, 0xff000000
	// priority of our rules is before that of the main table, 32766.
	priority = 31000
	// last is the metric of the route that is left when the link goes.
	last = 1 << 30
)

// Mark returns the mark of packets that go through a gateway, which is also
// the number of the routing table.
func Mark(instance string, gateway netip.Addr) uint32 {
	h := fnv.New32a()
	_, _ = fmt.Fprintf(h, "%s %s", instance, gateway) // a hash takes everything
	return ours | h.Sum32()&^oursMask
}

// ErrFar is what a gateway is that is not on a network of this node.
var ErrFar = errors.New("it is behind a router: plain routing needs nodes on one network")

// Make makes the way to a gateway and returns its mark.
func (l Linux) Make(gateway netip.Addr) (uint32, error) {
	link, err := adjacent(gateway)
	if err != nil {
		return 0, fmt.Errorf("going through %s: %w", gateway, err)
	}
	mark := Mark(l.Instance, gateway)
	all := anywhere(gateway)
	for _, route := range []*netlink.Route{
		{Table: int(mark), Dst: all, Type: unix.RTN_UNREACHABLE, Priority: last, Protocol: netlink.RouteProtocol(l.Protocol), Family: family(gateway)},
		{Table: int(mark), Dst: all, Gw: gateway.AsSlice(), LinkIndex: link, Protocol: netlink.RouteProtocol(l.Protocol), Family: family(gateway), Priority: 1},
	} {
		if err := netlink.RouteReplace(route); err != nil {
			return 0, fmt.Errorf("adding default route through %s to table %d: %w", gateway, mark, err)
		}
	}
	rule := l.rule(gateway, mark)
	if err := netlink.RuleAdd(rule); err != nil && !errors.Is(err, unix.EEXIST) {
		return 0, fmt.Errorf("adding rule for mark %#x: %w", mark, err)
	}
	return mark, nil
}

func (l Linux) rule(gateway netip.Addr, mark uint32) *netlink.Rule {
	r := netlink.NewRule()
	r.Family, r.Mark, r.Table, r.Priority, r.Protocol = family(gateway), mark, int(mark), priority, uint8(l.Protocol)
	return r
}

// Sweep removes the ways of this instance but those to the gateways.
func (l Linux) Sweep(keep []netip.Addr) error {
	var errs []error
	for _, f := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		rules, err := whole(func() ([]netlink.Rule, error) { return netlink.RuleList(f) }) //nolint:forbidigo // whole asks again
		if err != nil {
			return fmt.Errorf("listing rules: %w", err)
		}
		for _, r := range rules {
			if r.Protocol != uint8(l.Protocol) || r.Priority != priority || r.Mark&oursMask != ours || r.Table != int(r.Mark) {
				continue
			}
			gateway, err := l.gateway(f, r.Table)
			switch {
			case err != nil:
				errs = append(errs, err)
			case gateway.IsValid() && Mark(l.Instance, gateway) == r.Mark && !slices.Contains(keep, gateway):
				errs = append(errs, l.remove(f, r))
			}
		}
	}
	return errors.Join(errs...)
}

// gateway returns where a table leads, invalid for nowhere.
func (l Linux) gateway(f, table int) (netip.Addr, error) {
	routes, err := routes(f, table)
	if err != nil {
		return netip.Addr{}, err
	}
	for _, r := range routes {
		if ip, ok := netip.AddrFromSlice(r.Gw); ok {
			return ip.Unmap(), nil
		}
	}
	return netip.Addr{}, nil
}

// routes returns what is in a table.
func routes(f, table int) ([]netlink.Route, error) {
	list, err := whole(func() ([]netlink.Route, error) {
		return netlink.RouteListFiltered(f, &netlink.Route{Table: table}, netlink.RT_FILTER_TABLE) //nolint:forbidigo // whole asks again
	})
	if err != nil {
		return nil, fmt.Errorf("listing table %d: %w", table, err)
	}
	return list, nil
}

// lists is how often a list is asked for that the kernel interrupts.
const lists = 5

// whole asks for a list until the kernel was not interrupted by changes.
func whole[T any](ask func() ([]T, error)) (list []T, err error) {
	for range lists {
		if list, err = ask(); !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
	}
	return list, err
}

// remove removes a rule, and then its table.
func (l Linux) remove(f int, rule netlink.Rule) error {
	if err := netlink.RuleDel(&rule); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("removing rule for mark %#x: %w", rule.Mark, err)
	}
	routes, err := routes(f, rule.Table)
	if err != nil {
		return err
	}
	var errs []error
	for _, r := range routes {
		if err := netlink.RouteDel(&r); err != nil && !errors.Is(err, unix.ESRCH) {
			errs = append(errs, fmt.Errorf("removing %s from table %d: %w", r, rule.Table, err))
		}
	}
	return errors.Join(errs...)
}

// adjacent returns the link of the network that the gateway is on.
func adjacent(gateway netip.Addr) (int, error) {
	routes, err := netlink.RouteGet(gateway.AsSlice())
	if err != nil {
		return 0, err
	}
	for _, r := range routes {
		switch {
		case r.Type == unix.RTN_LOCAL:
			return 0, errors.New("it is this node's own")
		case r.Gw == nil && r.LinkIndex > 0:
			return r.LinkIndex, nil
		}
	}
	return 0, ErrFar
}

func family(ip netip.Addr) int {
	if ip.Is4() {
		return netlink.FAMILY_V4
	}
	return netlink.FAMILY_V6
}
