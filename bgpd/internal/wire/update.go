package wire

import (
	"encoding/binary"
	"net/netip"
	"slices"
)

// Attributes are the path attributes of some prefixes of one family.
type Attributes struct {
	// Path is the AS path, empty for a peer of the same AS.
	Path []uint32
	// NextHop is of the prefixes' family, or IPv6 where that was agreed on.
	NextHop netip.Addr
	// LinkLocal is a second IPv6 next hop (RFC 2545), invalid for none.
	LinkLocal netip.Addr
	// MED and LocalPref are left out where nil.
	MED, LocalPref   *uint32
	Communities      []uint32
	LargeCommunities [][3]uint32
}

// Types of path attributes.
const (
	attrOrigin    = 1
	attrPath      = 2
	attrNextHop   = 3
	attrMED       = 4
	attrLocalPref = 5
	attrCommunity = 8
	attrReach     = 14
	attrUnreach   = 15
	attrAS4Path   = 17
	attrLarge     = 32
)

// Flags of path attributes.
const (
	flagOptional   = 0x80
	flagTransitive = 0x40
	flagLong       = 0x10
)

// Writer writes the UPDATE messages of one session.
type Writer struct {
	// FourOctetAS: both sides have RFC 6793.
	FourOctetAS bool
}

// Announce returns the UPDATE messages that announce the prefixes, all of one
// family, with the attributes.
func (w Writer) Announce(f Family, prefixes []netip.Prefix, a *Attributes) (messages [][]byte) {
	common := w.common(a)
	if f == IPv4 && a.NextHop.Is4() {
		hop := a.NextHop.As4()
		common = append(common, attribute(flagTransitive, attrNextHop, hop[:])...)
		room := MaxLen - headerLen - 4 - len(common)
		for part := range chunks(prefixes, room) {
			body := binary.BigEndian.AppendUint16([]byte{0, 0}, uint16(len(common)))
			messages = append(messages, message(TypeUpdate, append(append(body, common...), part...)))
		}
		return messages
	}
	head := []byte{0, byte(f), unicast}
	head = append(head, nextHops(a)...)
	head = append(head, 0) // reserved
	room := MaxLen - headerLen - 4 - len(common) - 4 - len(head)
	for part := range chunks(prefixes, room) {
		attrs := slices.Concat(attribute(flagOptional, attrReach, slices.Concat(head, part)), common)
		body := binary.BigEndian.AppendUint16([]byte{0, 0}, uint16(len(attrs)))
		messages = append(messages, message(TypeUpdate, append(body, attrs...)))
	}
	return messages
}

// nextHops is the length and the next hops of MP_REACH_NLRI.
func nextHops(a *Attributes) []byte {
	hop := a.NextHop.AsSlice()
	if a.LinkLocal.IsValid() && a.NextHop.Is6() {
		hop = append(hop, a.LinkLocal.AsSlice()...)
	}
	return append([]byte{byte(len(hop))}, hop...)
}

// Withdraw returns the UPDATE messages that withdraw the prefixes, all of one
// family.
func (w Writer) Withdraw(f Family, prefixes []netip.Prefix) (messages [][]byte) {
	if f == IPv4 {
		for part := range chunks(prefixes, MaxLen-headerLen-4) {
			body := binary.BigEndian.AppendUint16(nil, uint16(len(part)))
			messages = append(messages, message(TypeUpdate, append(append(body, part...), 0, 0)))
		}
		return messages
	}
	for part := range chunks(prefixes, MaxLen-headerLen-4-4-3) {
		attr := attribute(flagOptional, attrUnreach, append([]byte{0, byte(f), unicast}, part...))
		body := binary.BigEndian.AppendUint16([]byte{0, 0}, uint16(len(attr)))
		messages = append(messages, message(TypeUpdate, append(body, attr...)))
	}
	return messages
}

// EndOfRIB returns the marker behind the first paths of a session, RFC 4724.
func (w Writer) EndOfRIB(f Family) []byte {
	if f == IPv4 {
		return message(TypeUpdate, []byte{0, 0, 0, 0})
	}
	attr := attribute(flagOptional, attrUnreach, []byte{0, byte(f), unicast})
	return message(TypeUpdate, append(binary.BigEndian.AppendUint16([]byte{0, 0}, uint16(len(attr))), attr...))
}

// common are the attributes that do not depend on the family.
func (w Writer) common(a *Attributes) []byte {
	out := attribute(flagTransitive, attrOrigin, []byte{0}) // IGP
	out = append(out, w.path(a.Path)...)
	if a.MED != nil {
		out = append(out, attribute(flagOptional, attrMED, binary.BigEndian.AppendUint32(nil, *a.MED))...)
	}
	if a.LocalPref != nil {
		out = append(out, attribute(flagTransitive, attrLocalPref, binary.BigEndian.AppendUint32(nil, *a.LocalPref))...)
	}
	if len(a.Communities) > 0 {
		var v []byte
		for _, c := range a.Communities {
			v = binary.BigEndian.AppendUint32(v, c)
		}
		out = append(out, attribute(flagOptional|flagTransitive, attrCommunity, v)...)
	}
	if len(a.LargeCommunities) > 0 {
		var v []byte
		for _, c := range a.LargeCommunities {
			for _, n := range c {
				v = binary.BigEndian.AppendUint32(v, n)
			}
		}
		out = append(out, attribute(flagOptional|flagTransitive, attrLarge, v)...)
	}
	return out
}

const asSequence = 2

// path is AS_PATH, and AS4_PATH where the peer cannot read large numbers.
func (w Writer) path(path []uint32) []byte {
	if len(path) == 0 {
		return attribute(flagTransitive, attrPath, nil)
	}
	long, short, large := []byte{asSequence, byte(len(path))}, []byte{asSequence, byte(len(path))}, false
	for _, as := range path {
		long = binary.BigEndian.AppendUint32(long, as)
		if as > 0xffff {
			as, large = asTrans, true
		}
		short = binary.BigEndian.AppendUint16(short, uint16(as))
	}
	if w.FourOctetAS {
		return attribute(flagTransitive, attrPath, long)
	}
	out := attribute(flagTransitive, attrPath, short)
	if large {
		out = append(out, attribute(flagOptional|flagTransitive, attrAS4Path, long)...)
	}
	return out
}

// attribute encodes one path attribute.
func attribute(flags, kind byte, value []byte) []byte {
	if len(value) > 255 {
		out := []byte{flags | flagLong, kind, byte(len(value) >> 8), byte(len(value))}
		return append(out, value...)
	}
	return append([]byte{flags, kind, byte(len(value))}, value...)
}

// chunks encodes prefixes into runs of at most room bytes.
func chunks(prefixes []netip.Prefix, room int) func(yield func([]byte) bool) {
	return func(yield func([]byte) bool) {
		var out []byte
		for _, p := range prefixes {
			bytes := p.Addr().AsSlice()[:(p.Bits()+7)/8]
			if len(out)+1+len(bytes) > room {
				if !yield(out) {
					return
				}
				out = nil
			}
			out = append(append(out, byte(p.Bits())), bytes...)
		}
		if len(out) > 0 {
			yield(out)
		}
	}
}
