package probe

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// Kind is what a captured frame is.
type Kind string

// Kinds of frames. A probe asks whether an address is free; the others say
// that it is the sender's.
const (
	ARPRequest Kind = "arp-request"
	ARPReply   Kind = "arp-reply"
	ARPProbe   Kind = "arp-probe"
	NA         Kind = "na"
)

// Frame is an ARP packet or a neighbour advertisement as it was received.
type Frame struct {
	// Time is the kernel's, of the moment of receipt.
	Time time.Time
	Kind Kind
	// IP is the address that the frame is about: the ARP sender's, the NA's
	// target; in a probe the address asked for.
	IP netip.Addr
	// Source and Destination are the Ethernet header's.
	Source, Destination MAC
	// Sender is the MAC given for IP: the ARP sender's, the NA's option (zero
	// if it has none).
	Sender MAC
	// Unsolicited says that nobody asked: a gratuitous ARP packet, or an NA
	// without the solicited flag.
	Unsolicited bool
	// Override is the NA's flag of that name.
	Override bool
}

// Claims says whether the frame tells others that IP is at Sender.
func (f Frame) Claims() bool { return f.Kind != ARPProbe }

// String returns the frame in one line, as tcpdump would.
func (f Frame) String() string {
	return fmt.Sprintf("%s %s > %s %s %s is-at %s unsolicited=%t override=%t",
		f.Time.Format("15:04:05.000000"), f.Source, f.Destination, f.Kind, f.IP, f.Sender, f.Unsolicited, f.Override)
}

// Capture records ARP packets and neighbour advertisements.
type Capture struct {
	listener *listener
	mu       sync.Mutex
	frames   []Frame
}

// Listen starts to capture on an interface of the calling thread's network
// namespace.
func Listen(iface string) (*Capture, error) {
	c := &Capture{}
	filter := matchAny(
		[]match{{2, 12, etherTypeARP}},
		[]match{{2, 12, etherTypeIPv6}, {1, headerLen + 6, protoICMPv6}, {1, headerLen + 40, typeNA}},
	)
	var err error
	c.listener, err = listen(iface, filter, func(at time.Time, data []byte) {
		if frame, ok := parseFrame(data); ok {
			frame.Time = at
			c.mu.Lock()
			c.frames = append(c.frames, frame)
			c.mu.Unlock()
		}
	})
	if err != nil {
		return nil, err
	}
	return c, nil
}

// Close ends the capture; what was captured stays.
func (c *Capture) Close() { c.listener.close() }

// Frames returns what was captured so far, oldest first.
func (c *Capture) Frames() []Frame {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.frames)
}

// Claims returns the frames by which somebody claimed the address.
func (c *Capture) Claims(ip netip.Addr) []Frame {
	return slices.DeleteFunc(c.Frames(), func(f Frame) bool { return f.IP != ip || !f.Claims() })
}

// Claimants returns the MACs that claimed the address, each once, in the
// order of their first claim.
func (c *Capture) Claimants(ip netip.Addr) []MAC {
	var macs []MAC
	for _, f := range c.Claims(ip) {
		if !slices.Contains(macs, f.Source) {
			macs = append(macs, f.Source)
		}
	}
	return macs
}

const (
	protoICMP   = 1
	protoUDP    = 17
	protoICMPv6 = 58

	typeNA              = 136
	optTargetLinkLayer  = 2
	flagSolicited       = 0x40
	flagOverride        = 0x20
	arpLen              = 28
	ipv6HeaderLen       = 40
	naLen               = 24
	arpOpRequest        = 1
	arpEthernet         = 1
	lenLinkLayerOption  = 8
	offsetNATarget      = 8
	offsetARPSenderMAC  = 8
	offsetARPSenderIP   = 14
	offsetARPTargetIP   = 24
	offsetEthernetProto = 12
)

// parseFrame reads an ARP packet or a neighbour advertisement.
func parseFrame(data []byte) (Frame, bool) {
	if len(data) < headerLen {
		return Frame{}, false
	}
	frame := Frame{Destination: MAC(data[:6]), Source: MAC(data[6:12])}
	payload := data[headerLen:]
	switch binary.BigEndian.Uint16(data[offsetEthernetProto:]) {
	case etherTypeARP:
		return frame, frame.parseARP(payload)
	case etherTypeIPv6:
		return frame, frame.parseNA(payload)
	}
	return frame, false
}

func (f *Frame) parseARP(arp []byte) bool {
	if len(arp) < arpLen || binary.BigEndian.Uint16(arp) != arpEthernet ||
		binary.BigEndian.Uint16(arp[2:]) != etherTypeIPv4 {
		return false
	}
	sender := netip.AddrFrom4([4]byte(arp[offsetARPSenderIP:]))
	target := netip.AddrFrom4([4]byte(arp[offsetARPTargetIP:]))
	f.Sender = MAC(arp[offsetARPSenderMAC : offsetARPSenderMAC+6])
	f.IP, f.Unsolicited = sender, sender == target
	switch {
	case sender.IsUnspecified():
		f.Kind, f.IP = ARPProbe, target
	case binary.BigEndian.Uint16(arp[6:]) == arpOpRequest:
		f.Kind = ARPRequest
	default:
		f.Kind = ARPReply
	}
	return true
}

func (f *Frame) parseNA(packet []byte) bool {
	if len(packet) < ipv6HeaderLen+naLen || packet[6] != protoICMPv6 {
		return false
	}
	na := packet[ipv6HeaderLen:]
	if na[0] != typeNA {
		return false
	}
	f.Kind = NA
	f.IP = netip.AddrFrom16([16]byte(na[offsetNATarget:]))
	f.Unsolicited = na[4]&flagSolicited == 0
	f.Override = na[4]&flagOverride != 0
	for options := na[naLen:]; len(options) >= lenLinkLayerOption; {
		if options[0] == optTargetLinkLayer {
			f.Sender = MAC(options[2:8])
		}
		length := int(options[1]) * 8
		if length == 0 || length > len(options) {
			break
		}
		options = options[length:]
	}
	return true
}
