package netsafe

import (
	"fmt"
	"net/netip"
	"syscall"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Route is one route without a gateway.
type Route struct {
	Prefix    netip.Prefix
	LinkIndex int
	Table     uint32
	Protocol  uint8 // RTPROT_*: who made it
	Type      uint8 // RTN_*
	Scope     uint8 // RT_SCOPE_*
	Realm     uint32
}

// Routes returns the routes of one table, IPv4 and IPv6.
func Routes(table uint32) ([]Route, error) {
	var all []Route
	for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
		body := func() nl.NetlinkRequestData { return &nl.RtMsg{RtMsg: unix.RtMsg{Family: family}} }
		list, err := dump(unix.RTM_GETROUTE, unix.RTM_NEWROUTE, body, func(msg []byte) (Route, bool, error) {
			r, ok, err := decodeRoute(msg)
			return r, ok && r.Table == table, err
		})
		if err != nil {
			return nil, fmt.Errorf("listing routes of table %d: %w", table, err)
		}
		all = append(all, list...)
	}
	return all, nil
}

func decodeRoute(msg []byte) (Route, bool, error) {
	attrs, err := attributes(msg, unix.SizeofRtMsg)
	if err != nil {
		return Route{}, false, err
	}
	head := nl.DeserializeRtMsg(msg)
	ip, ok := netip.AddrFromSlice(attrs[unix.RTA_DST])
	if !ok || head.Flags&unix.RTM_F_CLONED != 0 {
		return Route{}, false, nil // a default route, or one that the kernel made of another
	}
	r := Route{
		Prefix: netip.PrefixFrom(ip, int(head.Dst_len)), LinkIndex: int(number(attrs[unix.RTA_OIF])),
		Table: uint32(head.Table), Protocol: head.Protocol, Type: head.Type, Scope: head.Scope,
		Realm: number(attrs[unix.RTA_FLOW]),
	}
	if t, ok := attrs[unix.RTA_TABLE]; ok {
		r.Table = number(t)
	}
	return r, r.Prefix.IsValid(), nil
}

// RouteChange is a change of one route.
type RouteChange struct {
	Kind  ChangeKind
	Route Route
}

// ChangeRoutes is ChangeAddresses for routes. A deletion names table, prefix,
// type, protocol and link, so that no other route goes in its place.
func ChangeRoutes(changes []RouteChange) []error { return changeAll(changes) }

// message encodes the change as RTM_NEWROUTE or RTM_DELROUTE, rtnetlink(7).
func (c RouteChange) message() *nl.NetlinkRequest {
	r := c.Route
	kind, flags := unix.RTM_NEWROUTE, unix.NLM_F_ACK|unix.NLM_F_CREATE
	switch c.Kind {
	case Add:
		flags |= unix.NLM_F_EXCL
	case Replace:
		flags |= unix.NLM_F_REPLACE
	case Delete:
		kind, flags = unix.RTM_DELROUTE, unix.NLM_F_ACK
	}
	family := uint8(unix.AF_INET6)
	if r.Prefix.Addr().Is4() {
		family = unix.AF_INET
	}
	req := nl.NewNetlinkRequest(kind, flags)
	head := &nl.RtMsg{RtMsg: unix.RtMsg{
		Family: family, Dst_len: uint8(r.Prefix.Bits()), Table: unix.RT_TABLE_UNSPEC, Protocol: r.Protocol, Scope: r.Scope, Type: r.Type,
	}}
	if r.Table < 256 {
		head.Table = uint8(r.Table)
	}
	req.AddData(head)
	req.AddData(nl.NewRtAttr(unix.RTA_DST, r.Prefix.Addr().AsSlice()))
	req.AddData(nl.NewRtAttr(unix.RTA_TABLE, nl.Uint32Attr(r.Table)))
	if r.LinkIndex != 0 {
		req.AddData(nl.NewRtAttr(unix.RTA_OIF, nl.Uint32Attr(uint32(r.LinkIndex))))
	}
	if r.Realm != 0 && family == unix.AF_INET && c.Kind != Delete {
		req.AddData(nl.NewRtAttr(unix.RTA_FLOW, nl.Uint32Attr(r.Realm)))
	}
	return req
}

// LostRoute says whether a message tells that a route of the protocol is gone.
func LostRoute(m syscall.NetlinkMessage, protocol uint8) bool {
	return m.Header.Type == unix.RTM_DELROUTE && len(m.Data) >= unix.SizeofRtMsg && nl.DeserializeRtMsg(m.Data).Protocol == protocol
}
