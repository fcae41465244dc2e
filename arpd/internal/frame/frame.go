// Package frame builds and reads the frames by which hosts claim addresses:
// ARP (RFC 826, RFC 5227) and Neighbor Discovery (RFC 4861), on Ethernet and
// InfiniBand (RFC 4391). It is pure: bytes in, bytes out.
package frame

import (
	"net"
	"net/netip"

	"golang.org/x/sys/unix"
)

// EtherTypes of the two protocols.
const (
	ARP  uint16 = unix.ETH_P_ARP
	IPv6 uint16 = unix.ETH_P_IPV6
)

// MAC is a link-layer address of any length as raw bytes, so that it compares.
type MAC string

// String returns the address in colon notation.
func (m MAC) String() string { return net.HardwareAddr(m).String() }

// Hardware is what frames of one link are built from.
type Hardware struct {
	// Type is the hardware type, ARPHRD_* of linux/if_arp.h.
	Type uint16
	// MAC is the link's own address and Broadcast the one of everybody.
	MAC, Broadcast MAC
}

// Kind is what a frame says.
type Kind uint8

// Kinds of frames that are sent.
const (
	// Request is a gratuitous ARP request, RFC 5227's ARP Announcement.
	Request Kind = iota
	// Reply is a gratuitous ARP reply, for hosts that heed only replies.
	Reply
	// Advertisement is an unsolicited neighbor advertisement.
	Advertisement
	// Probe is an ARP probe: who has this address, without claiming it.
	Probe
	// Solicitation is the neighbor solicitation of duplicate address
	// detection, the Probe of IPv6.
	Solicitation
)

// Kinds are all kinds, in order.
var Kinds = []Kind{Request, Reply, Advertisement, Probe, Solicitation}

// String returns the kind as it stands in metrics.
func (k Kind) String() string {
	return [...]string{"request", "reply", "advertisement", "probe", "solicitation"}[k]
}

// Protocol returns the EtherType that frames about the address have.
func Protocol(ip netip.Addr) uint16 {
	if ip.Is4() {
		return ARP
	}
	return IPv6
}

// Frame is a frame without its link-layer header, which the kernel makes.
type Frame struct {
	Kind     Kind
	Protocol uint16 // EtherType
	To       MAC
	Payload  []byte
}

// Claim is what a received frame says about one address.
type Claim struct {
	IP netip.Addr
	// MAC is the link-layer address of the host that says it.
	MAC MAC
	// Probe says that the host only asks whether the address is free.
	Probe bool
}

// Usable says whether frames can be built for the link: a loopback or a tunnel
// without link-layer addresses has nobody to announce anything to.
func (hw Hardware) Usable() bool { return hw.Type != unix.ARPHRD_LOOPBACK && hw.check() == nil }
