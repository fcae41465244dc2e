package netsafe

import (
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// neighbor is an entry of the kernel's neighbor table.
type neighbor struct {
	link   int
	ip     netip.Addr
	router bool
}

// unusable are states of entries without a link-layer address, and of those
// that are no neighbors.
const unusable = unix.NUD_INCOMPLETE | unix.NUD_FAILED | unix.NUD_NOARP

// Routers returns the IPv6 link-local addresses of the routers on a link, as
// the kernel learned them from router advertisements, in order; where there
// are none, those of all neighbors that it knows.
func Routers(link string) ([]netip.Addr, error) {
	iface, err := net.InterfaceByName(link)
	if err != nil {
		return nil, fmt.Errorf("finding link %s: %w", link, err)
	}
	body := func() nl.NetlinkRequestData {
		return &neighborHead{family: unix.AF_INET6, link: int32(iface.Index)}
	}
	list, err := dump(unix.RTM_GETNEIGH, unix.RTM_NEWNEIGH, body, decodeNeighbor)
	if err != nil {
		return nil, fmt.Errorf("listing neighbors on %s: %w", link, err)
	}
	var routers, all []netip.Addr
	for _, n := range list {
		if n.link != iface.Index {
			continue // an old kernel does not filter
		}
		all = append(all, n.ip)
		if n.router {
			routers = append(routers, n.ip)
		}
	}
	if len(routers) == 0 {
		routers = all
	}
	slices.SortFunc(routers, netip.Addr.Compare)
	return routers, nil
}

// neighborHead is struct ndmsg, rtnetlink(7).
type neighborHead struct {
	family uint8
	link   int32
}

const sizeofNdMsg = 12

// Len implements nl.NetlinkRequestData.
func (*neighborHead) Len() int { return sizeofNdMsg }

// Serialize implements nl.NetlinkRequestData.
func (h *neighborHead) Serialize() []byte {
	b := make([]byte, sizeofNdMsg)
	b[0] = h.family
	nl.NativeEndian().PutUint32(b[4:], uint32(h.link))
	return b
}

func decodeNeighbor(msg []byte) (neighbor, bool, error) {
	attrs, err := attributes(msg, sizeofNdMsg)
	if err != nil {
		return neighbor{}, false, err
	}
	ip, ok := netip.AddrFromSlice(attrs[unix.NDA_DST])
	state := nl.NativeEndian().Uint16(msg[8:])
	n := neighbor{link: int(int32(nl.NativeEndian().Uint32(msg[4:]))), ip: ip, router: msg[10]&unix.NTF_ROUTER != 0}
	return n, ok && ip.Is6() && ip.IsLinkLocalUnicast() && state&unusable == 0 && state != 0, nil
}
