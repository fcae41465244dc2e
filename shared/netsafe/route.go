package netsafe

import (
	"fmt"
	"syscall"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Defaults says which links, by index, carry a default route of the main
// table.
type Defaults struct {
	IPv4, IPv6 map[int]bool
}

// DefaultRoutes looks for the default routes; each leg of a multipath route
// counts.
func DefaultRoutes() (Defaults, error) {
	var d Defaults
	var err error
	if d.IPv4, err = defaultLinks(unix.AF_INET); err != nil {
		return Defaults{}, fmt.Errorf("listing IPv4 routes: %w", err)
	}
	if d.IPv6, err = defaultLinks(unix.AF_INET6); err != nil {
		return Defaults{}, fmt.Errorf("listing IPv6 routes: %w", err)
	}
	return d, nil
}

func defaultLinks(family uint8) (map[int]bool, error) {
	body := func() nl.NetlinkRequestData {
		return &nl.RtMsg{RtMsg: unix.RtMsg{Family: family}}
	}
	legs, err := dump(unix.RTM_GETROUTE, unix.RTM_NEWROUTE, body, decodeDefault)
	if err != nil {
		return nil, err
	}
	links := map[int]bool{}
	for _, leg := range legs {
		for _, index := range leg {
			links[index] = true
		}
	}
	return links, nil
}

// decodeDefault returns the links of a default route of the main table.
func decodeDefault(msg []byte) ([]int, bool, error) {
	if len(msg) >= unix.SizeofRtMsg && nl.DeserializeRtMsg(msg).Dst_len != 0 {
		return nil, false, nil // most of many; nothing is made for them
	}
	attrs, err := attributes(msg, unix.SizeofRtMsg)
	if err != nil {
		return nil, false, err
	}
	head := nl.DeserializeRtMsg(msg)
	table := uint32(head.Table)
	if t, ok := attrs[unix.RTA_TABLE]; ok {
		table = number(t)
	}
	if table != unix.RT_TABLE_MAIN || head.Type != unix.RTN_UNICAST ||
		head.Flags&unix.RTNH_F_DEAD != 0 {
		return nil, false, nil
	}
	var links []int
	if oif, ok := attrs[unix.RTA_OIF]; ok {
		links = append(links, int(number(oif)))
	}
	return append(links, nexthops(attrs[unix.RTA_MULTIPATH])...), true, nil
}

// NotASpecificRoute is for Monitor: every message matters but those about
// routes that are no default routes, of which a busy node has many.
func NotASpecificRoute(m syscall.NetlinkMessage) bool {
	switch m.Header.Type {
	case unix.RTM_NEWROUTE, unix.RTM_DELROUTE:
		return len(m.Data) < unix.SizeofRtMsg || nl.DeserializeRtMsg(m.Data).Dst_len == 0
	}
	return true
}

// nexthops returns the links of a list of struct rtnexthop, rtnetlink(7).
func nexthops(b []byte) []int {
	var links []int
	for len(b) >= unix.SizeofRtNexthop {
		size := int(nl.NativeEndian().Uint16(b))
		if size < unix.SizeofRtNexthop || size > len(b) {
			return links
		}
		if b[2]&unix.RTNH_F_DEAD == 0 {
			links = append(links, int(number(b[4:8])))
		}
		b = b[min((size+3)&^3, len(b)):]
	}
	return links
}
