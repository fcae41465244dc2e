package netsafe

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// ViaRoute is a route to one address through gateways, among which the kernel
// spreads the flows.
type ViaRoute struct {
	IP       netip.Addr
	Table    uint32
	Protocol uint8 // RTPROT_*: who made it
	Via      []netip.Addr
}

// ViaRoutes returns the routes of one table and protocol to single addresses
// that have a gateway. Gateways are sorted.
func ViaRoutes(table uint32, protocol uint8) ([]ViaRoute, error) {
	var all []ViaRoute
	for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
		body := func() nl.NetlinkRequestData { return &nl.RtMsg{RtMsg: unix.RtMsg{Family: family}} }
		list, err := dump(unix.RTM_GETROUTE, unix.RTM_NEWROUTE, body, func(msg []byte) (ViaRoute, bool, error) {
			r, ok, err := decodeViaRoute(msg)
			return r, ok && r.Table == table && r.Protocol == protocol, err
		})
		if err != nil {
			return nil, fmt.Errorf("listing routes of table %d: %w", table, err)
		}
		all = append(all, list...)
	}
	return all, nil
}

func decodeViaRoute(msg []byte) (ViaRoute, bool, error) {
	base, ok, err := decodeRoute(msg)
	if err != nil || !ok || base.Type != unix.RTN_UNICAST || !base.Prefix.IsSingleIP() {
		return ViaRoute{}, false, err
	}
	attrs, err := attributes(msg, unix.SizeofRtMsg)
	if err != nil {
		return ViaRoute{}, false, err
	}
	r := ViaRoute{IP: base.Prefix.Addr(), Table: base.Table, Protocol: base.Protocol}
	if ip, ok := netip.AddrFromSlice(attrs[unix.RTA_GATEWAY]); ok {
		r.Via = append(r.Via, ip)
	}
	if err := r.hops(attrs[unix.RTA_MULTIPATH]); err != nil {
		return ViaRoute{}, false, err
	}
	slices.SortFunc(r.Via, netip.Addr.Compare)
	return r, len(r.Via) > 0, nil
}

// hops reads the gateways of RTA_MULTIPATH, rtnetlink(7).
func (r *ViaRoute) hops(b []byte) error {
	for len(b) > 0 {
		if len(b) < unix.SizeofRtNexthop {
			return errors.New("a next hop is cut off")
		}
		size := int(nl.NativeEndian().Uint16(b))
		if size < unix.SizeofRtNexthop || size > len(b) {
			return fmt.Errorf("a next hop of %d bytes in %d", size, len(b))
		}
		attrs, err := attributes(b[:size], unix.SizeofRtNexthop)
		if err != nil {
			return err
		}
		if ip, ok := netip.AddrFromSlice(attrs[unix.RTA_GATEWAY]); ok {
			r.Via = append(r.Via, ip)
		}
		b = b[min((size+3)&^3, len(b)):]
	}
	return nil
}

// ViaChange is a change of one such route.
type ViaChange struct {
	Kind  ChangeKind
	Route ViaRoute
}

// ChangeViaRoutes is ChangeAddresses for these routes. The kernel finds the
// link of each gateway by its own routes. A deletion names table, address and
// protocol.
func ChangeViaRoutes(changes []ViaChange) []error { return changeAll(changes) }

// message encodes the change as RTM_NEWROUTE or RTM_DELROUTE, rtnetlink(7).
func (c ViaChange) message() *nl.NetlinkRequest {
	req := RouteChange{Kind: c.Kind, Route: Route{
		Prefix: netip.PrefixFrom(c.Route.IP, c.Route.IP.BitLen()), Table: c.Route.Table, Protocol: c.Route.Protocol,
		Type: unix.RTN_UNICAST, Scope: unix.RT_SCOPE_UNIVERSE,
	}}.message()
	switch {
	case c.Kind == Delete:
	case len(c.Route.Via) == 1:
		req.AddData(nl.NewRtAttr(unix.RTA_GATEWAY, c.Route.Via[0].AsSlice()))
	default:
		req.AddData(nl.NewRtAttr(unix.RTA_MULTIPATH, encodeHops(c.Route.Via)))
	}
	return req
}

// encodeHops encodes gateways of equal weight, whose links are not named.
func encodeHops(via []netip.Addr) []byte {
	var out []byte
	for _, ip := range via {
		gateway := nl.NewRtAttr(unix.RTA_GATEWAY, ip.AsSlice()).Serialize()
		head := make([]byte, unix.SizeofRtNexthop)
		nl.NativeEndian().PutUint16(head, uint16(len(head)+len(gateway)))
		out = append(append(out, head...), gateway...)
	}
	return out
}
