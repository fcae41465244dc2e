package frame

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"

	"github.com/mdlayher/arp"
	"github.com/mdlayher/ndp"
	"golang.org/x/sys/unix"
)

var allNodes = netip.MustParseAddr("ff02::1")

// hopLimit is what a receiver requires (RFC 4861 section 7.1): a frame from
// behind a router cannot have it.
const hopLimit = 255

// Build makes a frame of the kind about the address.
func Build(kind Kind, hw Hardware, ip netip.Addr) (Frame, error) {
	if err := hw.check(); err != nil {
		return Frame{}, fmt.Errorf("building %s for %s: %w", kind, ip, err)
	}
	isARP := kind == Request || kind == Reply || kind == Probe
	if !ip.IsValid() || isARP != ip.Is4() {
		return Frame{}, fmt.Errorf("building %s for %s: wrong family", kind, ip)
	}
	f := Frame{Kind: kind, Protocol: Protocol(ip), To: hw.Broadcast}
	var err error
	if isARP {
		f.Payload, err = buildARP(kind, hw, ip)
	} else {
		f.To, f.Payload, err = buildNDP(kind, hw, ip)
	}
	if err != nil {
		return Frame{}, fmt.Errorf("building %s for %s: %w", kind, ip, err)
	}
	return f, nil
}

func (hw Hardware) check() error {
	want := 6
	if hw.Type == unix.ARPHRD_INFINIBAND {
		want = 20
	}
	if len(hw.MAC) != want || len(hw.Broadcast) != want {
		return fmt.Errorf("hardware type %d with addresses %q and %q, want %d bytes each", hw.Type, hw.MAC, hw.Broadcast, want)
	}
	return nil
}

// buildARP makes the body of a gratuitous request, a gratuitous reply or a
// probe. Sender and target protocol address of the first two are the VIP
// (RFC 5227 section 3). The target hardware address, which receivers ignore
// in a request, is broadcast there as kube-vip sends it, ours in a reply, and
// zero in a probe (RFC 5227 section 2.1.1).
func buildARP(kind Kind, hw Hardware, ip netip.Addr) ([]byte, error) {
	p := arp.Packet{
		HardwareType:       arpHardware(hw.Type),
		ProtocolType:       unix.ETH_P_IP,
		HardwareAddrLength: uint8(len(hw.MAC)),
		IPLength:           4,
		Operation:          arp.OperationRequest,
		SenderHardwareAddr: net.HardwareAddr(hw.MAC),
		SenderIP:           ip,
		TargetHardwareAddr: net.HardwareAddr(hw.Broadcast),
		TargetIP:           ip,
	}
	switch kind {
	case Reply:
		p.Operation = arp.OperationReply
		p.TargetHardwareAddr = p.SenderHardwareAddr
	case Probe:
		p.SenderIP = netip.IPv4Unspecified()
		p.TargetHardwareAddr = nil // zeros
	}
	return p.MarshalBinary()
}

// arpHardware returns the hardware type in ARP bodies: links that are neither
// Ethernet nor InfiniBand but have addresses like Ethernet speak Ethernet's.
func arpHardware(linkType uint16) uint16 {
	if linkType == unix.ARPHRD_INFINIBAND {
		return linkType
	}
	return unix.ARPHRD_ETHER
}

// buildNDP makes an IPv6 packet. An advertisement has the VIP itself as its
// source, which works without a usable link-local address; a solicitation has
// none, which makes it duplicate address detection (RFC 4862 section 5.4.2).
func buildNDP(kind Kind, hw Hardware, ip netip.Addr) (MAC, []byte, error) {
	source, dest := ip, allNodes
	var msg ndp.Message = &ndp.NeighborAdvertisement{
		Override:      true,
		TargetAddress: ip,
		Options:       []ndp.Option{linkLayerOption(ndp.Target, hw.MAC)},
	}
	if kind == Solicitation {
		source, dest = netip.IPv6Unspecified(), solicitedNode(ip)
		msg = &ndp.NeighborSolicitation{TargetAddress: ip}
	}
	body, err := ndp.MarshalMessageChecksum(msg, source, dest)
	if err != nil {
		return "", nil, err
	}
	b := make([]byte, ipv6Header, ipv6Header+len(body))
	b[0] = 6 << 4
	binary.BigEndian.PutUint16(b[4:], uint16(len(body)))
	b[6], b[7] = unix.IPPROTO_ICMPV6, hopLimit
	copy(b[8:24], source.AsSlice())
	copy(b[24:40], dest.AsSlice())
	return hw.multicast(dest), append(b, body...), nil
}

// linkLayerOption is a source or target link-layer address option. Those of
// InfiniBand have two zero bytes before the address (RFC 4391 section 9.3) so
// that the option is a multiple of eight bytes long.
func linkLayerOption(direction ndp.Direction, mac MAC) ndp.Option {
	if len(mac) == 6 {
		return &ndp.LinkLayerAddress{Direction: direction, Addr: net.HardwareAddr(mac)}
	}
	return &ndp.RawOption{Type: uint8(direction), Length: 3, Value: append(make([]byte, 2), mac...)}
}

// solicitedNode returns ff02::1:ffXX:XXXX of the address, RFC 4291 2.7.1.
func solicitedNode(ip netip.Addr) netip.Addr {
	b, a := netip.MustParseAddr("ff02::1:ff00:0").As16(), ip.As16()
	copy(b[13:], a[13:])
	return netip.AddrFrom16(b)
}

// multicast maps an IPv6 group to a link-layer address, RFC 2464 section 7
// and RFC 4391 section 4. InfiniBand's holds scope and partition key of the
// link, which stand in its broadcast address.
func (hw Hardware) multicast(group netip.Addr) MAC {
	g := group.As16()
	if hw.Type != unix.ARPHRD_INFINIBAND {
		return MAC([]byte{0x33, 0x33, g[12], g[13], g[14], g[15]})
	}
	b := []byte{0, 0xff, 0xff, 0xff, 0xff, 0x10 | hw.Broadcast[5]&0x0f, 0x60, 0x1b, hw.Broadcast[8], hw.Broadcast[9]}
	return MAC(append(b, g[6:]...))
}
