package frame

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"github.com/mdlayher/arp"
	"golang.org/x/sys/unix"
)

const (
	ipv6Header = 40
	// ndpHeader is the length of a neighbor message without its options.
	ndpHeader = 24

	typeSolicitation  = 135
	typeAdvertisement = 136

	optionSource = 1
	optionTarget = 2
)

// errForeign is a frame that is well formed but says nothing about the owner
// of an address.
var errForeign = errors.New("claims nothing")

// Decode reads what a frame from the link claims. The frame is without its
// link-layer header, from is the source address of that header. Whatever is
// not a correct claim is an error; a receiver only counts those.
func Decode(protocol uint16, hw Hardware, from MAC, payload []byte) (Claim, error) {
	switch protocol {
	case ARP:
		return decodeARP(hw, payload)
	case IPv6:
		return decodeNDP(from, payload)
	}
	return Claim{}, fmt.Errorf("reading frame: EtherType %#x", protocol)
}

// decodeARP reads a request or reply, whose sender claims its address, or a
// probe, whose sender has none (RFC 5227 section 1.1).
func decodeARP(hw Hardware, b []byte) (Claim, error) {
	// The lengths are checked here: the library believes those in the frame.
	if len(b) < 8 || binary.BigEndian.Uint16(b) != arpHardware(hw.Type) ||
		binary.BigEndian.Uint16(b[2:]) != unix.ETH_P_IP || int(b[4]) != len(hw.MAC) || b[5] != 4 {
		return Claim{}, errors.New("reading ARP: not for IPv4 on this link")
	}
	var p arp.Packet
	if err := p.UnmarshalBinary(b); err != nil {
		return Claim{}, fmt.Errorf("reading ARP: %w", err)
	}
	if p.Operation != arp.OperationRequest && p.Operation != arp.OperationReply {
		return Claim{}, fmt.Errorf("reading ARP: operation %d", p.Operation)
	}
	claim := Claim{IP: p.SenderIP, MAC: MAC(p.SenderHardwareAddr)}
	if p.SenderIP.IsUnspecified() {
		claim.IP, claim.Probe = p.TargetIP, true
	}
	return claim, nil
}

// decodeNDP reads a neighbor advertisement or solicitation with the checks of
// RFC 4861 section 7.1. It reads the bytes itself, since the library knows
// neither checksums nor link-layer addresses of 20 bytes.
func decodeNDP(from MAC, b []byte) (Claim, error) {
	if len(b) < ipv6Header+ndpHeader || b[0]>>4 != 6 || b[6] != unix.IPPROTO_ICMPV6 || b[7] != hopLimit {
		return Claim{}, errors.New("reading neighbor discovery: not a message from this link")
	}
	length := int(binary.BigEndian.Uint16(b[4:]))
	if length < ndpHeader || ipv6Header+length > len(b) {
		return Claim{}, fmt.Errorf("reading neighbor discovery: length %d of %d bytes", length, len(b))
	}
	body := b[ipv6Header : ipv6Header+length]
	if body[1] != 0 || checksum(b[8:ipv6Header], body) != 0 {
		return Claim{}, errors.New("reading neighbor discovery: wrong code or checksum")
	}
	source, _ := netip.AddrFromSlice(b[8:24])
	target, _ := netip.AddrFromSlice(body[8:24])
	if target.IsMulticast() {
		return Claim{}, fmt.Errorf("reading neighbor discovery: target %s is multicast", target)
	}
	options, err := linkLayerOptions(body[ndpHeader:])
	if err != nil {
		return Claim{}, fmt.Errorf("reading neighbor discovery: %w", err)
	}
	switch {
	case body[0] == typeAdvertisement && options[optionTarget] != "":
		return Claim{IP: target, MAC: clip(options[optionTarget], len(from))}, nil
	case body[0] == typeAdvertisement:
		return Claim{IP: target, MAC: from}, nil
	case body[0] == typeSolicitation && source.IsUnspecified():
		return Claim{IP: target, MAC: from, Probe: true}, nil
	case body[0] == typeSolicitation && options[optionSource] != "":
		// As in ARP, asking from an address claims it: neighbors learn the
		// source link-layer address (RFC 4861 section 7.2.3).
		return Claim{IP: source, MAC: clip(options[optionSource], len(from))}, nil
	}
	return Claim{}, fmt.Errorf("reading neighbor discovery: %w", errForeign)
}

// linkLayerOptions returns the values of the two link-layer address options.
// An option of length zero makes the whole message invalid.
func linkLayerOptions(b []byte) (values [3]MAC, err error) {
	for len(b) > 0 {
		if len(b) < 8 || b[1] == 0 || int(b[1])*8 > len(b) {
			return values, errors.New("malformed option")
		}
		length := int(b[1]) * 8
		if b[0] == optionSource || b[0] == optionTarget {
			values[b[0]] = MAC(b[2:length])
		}
		b = b[length:]
	}
	return values, nil
}

// clip returns the address in an option's value, which on InfiniBand stands
// behind padding.
func clip(value MAC, length int) MAC {
	if len(value) > length && length > 0 {
		return value[len(value)-length:]
	}
	return value
}

// checksum is ICMPv6's over addresses, length, protocol and body (RFC 8200
// section 8.1); over a correct message it is zero.
func checksum(addresses, body []byte) uint16 {
	sum := uint32(len(body)) + unix.IPPROTO_ICMPV6
	for _, b := range [2][]byte{addresses, body} {
		for i := 0; i+1 < len(b); i += 2 {
			sum += uint32(binary.BigEndian.Uint16(b[i:]))
		}
		if len(b)%2 == 1 {
			sum += uint32(b[len(b)-1]) << 8
		}
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}
