package wg

import (
	"errors"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/vipod/vipod/egressd/internal/tunnel"
	"github.com/vipod/vipod/shared/netsafe"
)

// link is a link with its index.
type link struct {
	tunnel.Link
	index int
}

// links returns our links and those that have one of the names.
func links(alias string, names []string) ([]link, error) {
	all, err := netsafe.Links()
	if err != nil {
		return nil, err
	}
	var found []link
	for _, l := range all {
		x := link{index: l.Index, Link: tunnel.Link{
			Name: l.Name, Kind: l.Kind, Alias: l.Alias, Up: l.Flags&unix.IFF_UP != 0, MTU: l.MTU}}
		if x.Ours(alias) || slices.Contains(names, l.Name) {
			found = append(found, x)
		}
	}
	return found, nil
}

// named names a link to the library by its name alone.
func named(name string) *netlink.Wireguard {
	return &netlink.Wireguard{LinkAttrs: netlink.LinkAttrs{Name: name}}
}

// indexed is the link of that name as the library wants it.
func indexed(name string) (*netlink.Device, error) {
	l, err := net.InterfaceByName(name)
	if err != nil {
		return nil, err
	}
	return &netlink.Device{LinkAttrs: netlink.LinkAttrs{Name: name, Index: l.Index}}, nil
}

// add makes a link under a name by which it is known as ours, since the kernel
// has no way to make a link together with its alias, and gives it its own name
// when it has one.
func add(o tunnel.Add) error {
	temporary := tunnel.Temporary(o.Name)
	if err := remove(temporary); err != nil {
		return err
	}
	l := named(temporary)
	l.MTU = tunnel.MTU
	if err := netlink.LinkAdd(l); errors.Is(err, unix.EOPNOTSUPP) {
		return errors.Join(ErrNoWireGuard, err)
	} else if err != nil {
		return err
	}
	d, err := indexed(temporary)
	if err != nil {
		return err
	}
	if err := netlink.LinkSetAlias(d, o.Alias); err != nil {
		return err
	}
	if err := filterLoosely(d.Index); err != nil {
		return err
	}
	return netlink.LinkSetName(d, o.Name)
}

// remove removes a link; one that is gone is no error.
func remove(name string) error {
	err := netlink.LinkDel(named(name))
	if errors.Is(err, unix.ENODEV) || errors.Is(err, unix.EINVAL) && !exists(name) {
		return nil
	}
	return err
}

func exists(name string) bool {
	_, err := net.InterfaceByName(name)
	return err == nil
}

func setUp(o tunnel.SetUp) error {
	d, err := indexed(o.Name)
	if err != nil {
		return err
	}
	if !o.Up {
		return netlink.LinkSetDown(d)
	}
	if err := netlink.LinkSetMTU(d, tunnel.MTU); err != nil {
		return err
	}
	return netlink.LinkSetUp(d)
}

const (
	// Values of rp_filter, RFC 3704 sections 2.2 and 2.4. The larger one of the
	// link's and that of all links counts.
	off    = 0
	strict = "1"
	loose  = 2
	// ofAll is that of all links.
	ofAll = "/proc/sys/net/ipv4/conf/all/rp_filter"
)

// filterLoosely lets packets in whose sender the main routing table has behind
// another link, which is so with everybody behind the far end: the way back
// is a matter of marks. Which senders may come through the tunnel is the
// device's own list. Where all links are strict it takes a route to the sender
// somewhere, such as a default route.
func filterLoosely(index int) error {
	all, err := os.ReadFile(ofAll)
	if err != nil {
		return err
	}
	value := uint32(off)
	if strings.TrimSpace(string(all)) == strict {
		value = loose
	}
	return netsafe.SetIPv4Conf(index, map[netsafe.IPv4Conf]uint32{netsafe.RPFilter: value})
}

func family(f tunnel.Family) int {
	if f == tunnel.IPv4 {
		return unix.AF_INET
	}
	return unix.AF_INET6
}

// everywhere is the default network of a family.
func everywhere(f tunnel.Family) *net.IPNet {
	size := net.IPv6len
	if f == tunnel.IPv4 {
		size = net.IPv4len
	}
	return &net.IPNet{IP: make(net.IP, size), Mask: make(net.IPMask, size)}
}

func (k Linux) addRoute(o tunnel.Route) error {
	d, err := indexed(o.Name)
	if err != nil {
		return err
	}
	return netlink.RouteReplace(&netlink.Route{
		LinkIndex: d.Index, Table: o.Table, Dst: everywhere(o.Family), Protocol: netlink.RouteProtocol(k.Protocol),
		Scope: netlink.SCOPE_LINK,
	})
}

func hasRule(f tunnel.Family, mark uint32, table int) (bool, error) {
	list, err := netsafe.Rules(uint8(family(f)))
	want := netsafe.Rule{Priority: tunnel.RulePriority, Mark: mark, Table: uint32(table)}
	return slices.Contains(list, want), err
}

func (k Linux) rule(o tunnel.Rule) *netlink.Rule {
	r := netlink.NewRule()
	r.Family, r.Priority, r.Mark, r.Table, r.Protocol = family(o.Family), tunnel.RulePriority, o.Mark, o.Table, k.Protocol
	return r
}

func (k Linux) addRule(o tunnel.Rule) error {
	if err := netlink.RuleAdd(k.rule(o)); !errors.Is(err, unix.EEXIST) {
		return err
	}
	return nil
}

func (k Linux) delRule(o tunnel.Rule) error {
	if err := netlink.RuleDel(k.rule(o)); !errors.Is(err, unix.ENOENT) {
		return err
	}
	return nil
}
