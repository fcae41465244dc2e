package wire

import (
	"encoding/binary"
	"net/netip"
)

// Open is what matters here of an OPEN message and its capabilities.
type Open struct {
	AS       uint32
	Hold     uint16 // seconds
	RouterID netip.Addr
	// Families are those of the multiprotocol capability (RFC 4760); a peer
	// without that capability means IPv4.
	Families map[Family]bool
	// FourOctetAS is RFC 6793's capability.
	FourOctetAS bool
	Refresh     bool
	// IPv4OverIPv6: an IPv4 path may have an IPv6 next hop (RFC 8950).
	IPv4OverIPv6 bool
	// Restart is graceful restart, RFC 4724; nil without it.
	Restart *Restart
}

// Restart is the capability of graceful restart.
type Restart struct {
	// Restarted: the speaker has just restarted.
	Restarted bool
	// Seconds is for how long to keep its paths, up to 4095.
	Seconds uint16
	// Families are those for which it says that it went on forwarding; in a
	// peer's capability, those for which it helps.
	Families map[Family]bool
}

const (
	version      = 4
	asTrans      = 23456 // stands for an AS of more than 16 bits, RFC 6793
	paramCaps    = 2
	capMulti     = 1
	capRefresh   = 2
	capExtHop    = 5
	capRestart   = 64
	capFourOctet = 65
	extended     = 255 // RFC 9072
)

// Message returns the OPEN message.
func (o *Open) Message() []byte {
	body := []byte{version}
	as := uint16(asTrans)
	if o.AS <= 0xffff {
		as = uint16(o.AS)
	}
	body = binary.BigEndian.AppendUint16(body, as)
	body = binary.BigEndian.AppendUint16(body, o.Hold)
	id := o.RouterID.As4()
	body = append(body, id[:]...)
	caps := o.capabilities()
	body = append(body, uint8(len(caps)+2), paramCaps, uint8(len(caps)))
	return message(TypeOpen, append(body, caps...))
}

// capabilities are in an order of their own, families sorted.
func (o *Open) capabilities() []byte {
	var out []byte
	add := func(code uint8, value []byte) { out = append(append(out, code, uint8(len(value))), value...) }
	for _, f := range []Family{IPv4, IPv6} {
		if o.Families[f] {
			add(capMulti, []byte{0, byte(f), 0, unicast})
		}
	}
	if o.Refresh {
		add(capRefresh, nil)
	}
	if o.IPv4OverIPv6 {
		add(capExtHop, []byte{0, byte(IPv4), 0, unicast, 0, byte(IPv6)})
	}
	if o.FourOctetAS {
		add(capFourOctet, binary.BigEndian.AppendUint32(nil, o.AS))
	}
	if r := o.Restart; r != nil {
		head := r.Seconds & 0x0fff
		if r.Restarted {
			head |= 0x8000
		}
		value := binary.BigEndian.AppendUint16(nil, head)
		for _, f := range []Family{IPv4, IPv6} {
			if r.Families[f] {
				value = append(value, 0, byte(f), unicast, 0x80)
			}
		}
		add(capRestart, value)
	}
	return out
}

// ParseOpen reads the body of an OPEN message. An error is an ErrMessage.
func ParseOpen(body []byte) (*Open, error) {
	if len(body) < 10 {
		return nil, refuse(CodeHeader, 2, nil, "an OPEN of %d bytes is too short", len(body))
	}
	if body[0] != version {
		return nil, refuse(CodeOpen, 1, []byte{0, version}, "version %d is not %d", body[0], version)
	}
	o := &Open{
		AS: uint32(binary.BigEndian.Uint16(body[1:])), Hold: binary.BigEndian.Uint16(body[3:]),
		RouterID: netip.AddrFrom4([4]byte(body[5:9])), Families: map[Family]bool{},
	}
	if o.RouterID.IsUnspecified() {
		return nil, refuse(CodeOpen, 3, nil, "the BGP identifier is 0")
	}
	if o.Hold == 1 || o.Hold == 2 {
		return nil, refuse(CodeOpen, 6, nil, "a hold time of %d s is neither 0 nor at least 3", o.Hold)
	}
	if err := o.parameters(body[9:]); err != nil {
		return nil, err
	}
	if len(o.Families) == 0 {
		o.Families[IPv4] = true
	}
	if o.AS == 0 {
		return nil, refuse(CodeOpen, 2, nil, "the AS is 0")
	}
	return o, nil
}

// parameters reads the optional parameters behind their total length, which
// RFC 9072 has in a longer form, too.
func (o *Open) parameters(b []byte) error {
	size, b := int(b[0]), b[1:]
	lengths := 1
	if size == extended && len(b) >= 3 && b[0] == extended {
		size, b, lengths = int(binary.BigEndian.Uint16(b[1:])), b[3:], 2
	}
	if size != len(b) {
		return refuse(CodeOpen, 0, nil, "optional parameters of %d bytes in %d", size, len(b))
	}
	for len(b) > 0 {
		if len(b) < 1+lengths {
			return refuse(CodeOpen, 0, nil, "an optional parameter is cut off")
		}
		kind, n := b[0], int(b[1])
		if lengths == 2 {
			n = int(binary.BigEndian.Uint16(b[1:]))
		}
		b = b[1+lengths:]
		if n > len(b) {
			return refuse(CodeOpen, 0, nil, "an optional parameter of %d bytes in %d", n, len(b))
		}
		if kind != paramCaps {
			return refuse(CodeOpen, 4, nil, "optional parameter %d is not supported", kind)
		}
		if err := o.parseCapabilities(b[:n]); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

func (o *Open) parseCapabilities(b []byte) error {
	for len(b) > 0 {
		if len(b) < 2 || int(b[1]) > len(b)-2 {
			return refuse(CodeOpen, 0, nil, "a capability is cut off")
		}
		o.capability(b[0], b[2:2+b[1]])
		b = b[2+b[1]:]
	}
	return nil
}

// capability takes in one capability; one of a wrong length says nothing.
func (o *Open) capability(code uint8, v []byte) {
	switch {
	case code == capMulti && len(v) == 4 && v[3] == unicast:
		o.Families[Family(binary.BigEndian.Uint16(v))] = true
	case code == capRefresh:
		o.Refresh = true
	case code == capFourOctet && len(v) == 4:
		o.FourOctetAS, o.AS = true, binary.BigEndian.Uint32(v)
	case code == capExtHop:
		for ; len(v) >= 6; v = v[6:] {
			if Family(binary.BigEndian.Uint16(v)) == IPv4 && v[3] == unicast && Family(binary.BigEndian.Uint16(v[4:])) == IPv6 {
				o.IPv4OverIPv6 = true
			}
		}
	case code == capRestart && len(v) >= 2:
		head := binary.BigEndian.Uint16(v)
		o.Restart = &Restart{Restarted: head&0x8000 != 0, Seconds: head & 0x0fff, Families: map[Family]bool{}}
		for v = v[2:]; len(v) >= 4; v = v[4:] {
			if v[2] == unicast {
				o.Restart.Families[Family(binary.BigEndian.Uint16(v))] = v[3]&0x80 != 0
			}
		}
	}
}
