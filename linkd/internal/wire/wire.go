// Package wire sends and receives the datagrams of DHCP clients as frames, on
// packet sockets: a link without an address can ask, another process may hold
// the ports of the host, and the frames leave by the right link with its own
// hardware address.
package wire

import (
	"encoding/binary"
	"errors"
	"net/netip"

	"golang.org/x/sys/unix"
)

// Ports of the protocols: RFC 2131, 4.1, and RFC 8415, 7.2.
const (
	server4, client4 = 67, 68
	server6, client6 = 547, 546
)

var (
	broadcast4 = netip.AddrFrom4([4]byte{255, 255, 255, 255})
	// servers6 is All_DHCP_Relay_Agents_and_Servers, RFC 8415, 7.1.
	servers6 = netip.MustParseAddr("ff02::1:2")
)

const (
	ip4Head, ip6Head, udpHead = 20, 40, 8
	// hops is the TTL: a server may be behind routers.
	hops = 64
	// lowDelay is the class of network control (RFC 2474, CS6), by which
	// congestion does not cost the lease.
	networkControl = 0xc0
)

// errNotUDP is a packet that is not a whole datagram to the port.
var errNotUDP = errors.New("not a datagram for this client")

// build4 returns an IPv4 packet with the datagram.
func build4(from, to netip.Addr, payload []byte) []byte {
	b := make([]byte, ip4Head+udpHead+len(payload))
	b[0], b[1], b[8], b[9] = 0x45, networkControl, hops, unix.IPPROTO_UDP
	binary.BigEndian.PutUint16(b[2:], uint16(len(b)))
	src, dst := from.As4(), to.As4()
	copy(b[12:], src[:])
	copy(b[16:], dst[:])
	binary.BigEndian.PutUint16(b[10:], ^fold(sum(b[:ip4Head])))
	udp(b[ip4Head:], client4, server4, payload, src[:], dst[:])
	return b
}

// build6 returns an IPv6 packet with the datagram.
func build6(from, to netip.Addr, payload []byte) []byte {
	b := make([]byte, ip6Head+udpHead+len(payload))
	b[0], b[1], b[6], b[7] = 0x60|networkControl>>4, networkControl<<4&0xff, unix.IPPROTO_UDP, hops
	binary.BigEndian.PutUint16(b[4:], uint16(udpHead+len(payload)))
	src, dst := from.As16(), to.As16()
	copy(b[8:], src[:])
	copy(b[24:], dst[:])
	udp(b[ip6Head:], client6, server6, payload, src[:], dst[:])
	return b
}

// udp fills in the datagram (RFC 768).
func udp(b []byte, from, to uint16, payload, src, dst []byte) {
	binary.BigEndian.PutUint16(b[0:], from)
	binary.BigEndian.PutUint16(b[2:], to)
	binary.BigEndian.PutUint16(b[4:], uint16(len(b)))
	copy(b[udpHead:], payload)
	check := ^fold(sum(src) + sum(dst) + unix.IPPROTO_UDP + uint32(len(b)) + sum(b))
	if check == 0 {
		check = 0xffff
	}
	binary.BigEndian.PutUint16(b[6:], check)
}

// sum adds the 16-bit words of b.
func sum(b []byte) (s uint32) {
	for ; len(b) > 1; b = b[2:] {
		s += uint32(b[0])<<8 | uint32(b[1])
	}
	if len(b) == 1 {
		s += uint32(b[0]) << 8
	}
	return s
}

func fold(s uint32) uint16 {
	for s > 0xffff {
		s = s>>16 + s&0xffff
	}
	return uint16(s)
}

// parse4 returns the payload of a datagram to the client's port. Checksums are
// not looked at: those of a frame that never left the machine are not filled in.
func parse4(b []byte) ([]byte, error) {
	if len(b) < ip4Head || b[0]>>4 != 4 || b[9] != unix.IPPROTO_UDP || binary.BigEndian.Uint16(b[6:])&0x3fff != 0 {
		return nil, errNotUDP
	}
	head, total := int(b[0]&15)*4, int(binary.BigEndian.Uint16(b[2:]))
	if head < ip4Head || total > len(b) || head > total {
		return nil, errNotUDP
	}
	return parseUDP(b[head:total], server4, client4)
}

// parse6 is parse4 for IPv6, directly behind the fixed header.
func parse6(b []byte) ([]byte, error) {
	if len(b) < ip6Head || b[0]>>4 != 6 || b[6] != unix.IPPROTO_UDP {
		return nil, errNotUDP
	}
	end := ip6Head + int(binary.BigEndian.Uint16(b[4:]))
	if end > len(b) {
		return nil, errNotUDP
	}
	return parseUDP(b[ip6Head:end], 0, client6)
}

// parseUDP wants the source port as well, unless it is 0: a server or relay of
// DHCPv6 may send from any.
func parseUDP(b []byte, from, to uint16) ([]byte, error) {
	if len(b) < udpHead || binary.BigEndian.Uint16(b[2:]) != to {
		return nil, errNotUDP
	}
	if from != 0 && binary.BigEndian.Uint16(b) != from {
		return nil, errNotUDP
	}
	length := int(binary.BigEndian.Uint16(b[4:]))
	if length < udpHead || length > len(b) {
		return nil, errNotUDP
	}
	return b[udpHead:length], nil
}
