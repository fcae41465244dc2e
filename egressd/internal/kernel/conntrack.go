package kernel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/vipod/vipod/egressd/internal/plan"
	"github.com/vipod/vipod/shared/schema"
)

// Messages and attributes of ctnetlink, linux/netfilter/nfnetlink_conntrack.h.
const (
	ctGet    = unix.NFNL_SUBSYS_CTNETLINK<<8 | 1
	ctDelete = unix.NFNL_SUBSYS_CTNETLINK<<8 | 2

	ctaTupleOrig  = 1
	ctaTupleReply = 2
	ctaID         = 12
	ctaZone       = 18
	ctaFilter     = 25

	ctaTupleIP    = 1
	ctaTupleProto = 2
	ctaIPv4Src    = 1
	ctaIPv4Dst    = 2
	ctaIPv6Src    = 3
	ctaIPv6Dst    = 4
	ctaProtoNum   = 1
	ctaSrcPort    = 2
	ctaDstPort    = 3

	ctaFilterOrig = 1
	// ctaFilterIPSrc is the bit of CTA_FILTER_ORIG_FLAGS for the source.
	ctaFilterIPSrc = 1 << 0
)

// few is up to how many sources the kernel is asked for each alone: one answer
// with everything is cheaper than many with little.
const few = 8

// tracking are the connections that the kernel tracks.
type tracking struct{}

// entry is a connection and what the kernel knows it by.
type entry struct {
	plan.Flow
	family byte
	orig   []byte // the attribute CTA_TUPLE_ORIG
	id     []byte
	zone   []byte
}

// forget removes the wanted entries of the sources.
func (tracking) forget(sources []netip.Addr, want func(plan.Flow) bool) (n int, err error) {
	c, err := netlink.Dial(unix.NETLINK_NETFILTER, nil)
	if err != nil {
		return 0, fmt.Errorf("opening ctnetlink: %w", err)
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if err := c.SetReadBuffer(buffer); err != nil {
		return 0, fmt.Errorf("opening ctnetlink: %w", err)
	}
	list, err := entries(c, sources)
	if err != nil {
		return 0, err
	}
	for _, e := range list {
		if !want(e.Flow) {
			continue
		}
		gone, err := e.remove(c)
		if err != nil {
			return n, err
		}
		if gone {
			n++
		}
	}
	return n, nil
}

// entries returns the connections of the sources, and perhaps of others: a
// kernel before 5.8 does not know the filter, and who asks looks again.
func entries(c *netlink.Conn, sources []netip.Addr) ([]entry, error) {
	var list []entry
	if len(sources) == 0 || len(sources) > few {
		for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
			more, err := dump(c, family, nil)
			if err != nil {
				return nil, err
			}
			list = append(list, more...)
		}
		return list, nil
	}
	for _, ip := range sources {
		family := byte(unix.AF_INET6)
		if ip.Is4() {
			family = unix.AF_INET
		}
		more, err := dump(c, family, sourceFilter(ip))
		if err != nil {
			return nil, err
		}
		list = append(list, more...)
	}
	return list, nil
}

func sourceFilter(ip netip.Addr) []netlink.Attribute {
	kind := uint16(ctaIPv6Src)
	if ip.Is4() {
		kind = ctaIPv4Src
	}
	return []netlink.Attribute{
		nested(ctaTupleOrig, nested(ctaTupleIP, netlink.Attribute{Type: kind, Data: ip.AsSlice()})),
		nested(ctaFilter, netlink.Attribute{Type: ctaFilterOrig, Data: binary.NativeEndian.AppendUint32(nil, ctaFilterIPSrc)}),
	}
}

func nested(kind uint16, list ...netlink.Attribute) netlink.Attribute {
	b, _ := netlink.MarshalAttributes(list) // fails for more than 64 KiB only
	return netlink.Attribute{Type: kind | unix.NLA_F_NESTED, Data: b}
}

// message is a request of ctnetlink.
func message(kind int, flags netlink.HeaderFlags, family byte, attrs []netlink.Attribute) (netlink.Message, error) {
	data, err := netlink.MarshalAttributes(attrs)
	return netlink.Message{
		Header: netlink.Header{Type: netlink.HeaderType(kind), Flags: netlink.Request | flags},
		Data:   append([]byte{family, unix.NFNETLINK_V0, 0, 0}, data...),
	}, err
}

func dump(c *netlink.Conn, family byte, filter []netlink.Attribute) ([]entry, error) {
	m, err := message(ctGet, netlink.Dump, family, filter)
	if err != nil {
		return nil, fmt.Errorf("reading connections: %w", err)
	}
	answers, err := c.Execute(m)
	if err != nil {
		return nil, fmt.Errorf("reading connections: %w", err)
	}
	list := make([]entry, 0, len(answers))
	for _, a := range answers {
		e, err := decodeEntry(a.Data)
		if err != nil {
			return nil, fmt.Errorf("reading connections: %w", err)
		}
		list = append(list, e)
	}
	return list, nil
}

// remove removes the entry and says whether it was still there.
func (e entry) remove(c *netlink.Conn) (bool, error) {
	attrs := []netlink.Attribute{{Type: ctaTupleOrig | unix.NLA_F_NESTED, Data: e.orig}}
	if e.id != nil {
		attrs = append(attrs, netlink.Attribute{Type: ctaID, Data: e.id})
	}
	if e.zone != nil {
		attrs = append(attrs, netlink.Attribute{Type: ctaZone, Data: e.zone})
	}
	m, err := message(ctDelete, netlink.Acknowledge, e.family, attrs)
	if err == nil {
		_, err = c.Execute(m)
	}
	switch {
	case errors.Is(err, unix.ENOENT):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("forgetting the connection from %s to %s: %w", e.Source, e.Destination, err)
	}
	return true, nil
}

var errShort = errors.New("a message is too short")

func decodeEntry(data []byte) (entry, error) {
	if len(data) < 4 {
		return entry{}, errShort
	}
	e := entry{family: data[0]}
	d, err := netlink.NewAttributeDecoder(data[4:])
	if err != nil {
		return e, err
	}
	for d.Next() {
		switch d.Type() {
		case ctaTupleOrig:
			e.orig = d.Bytes()
			d.Nested(func(n *netlink.AttributeDecoder) error {
				return decodeTuple(n, &e.Source, &e.Destination, &e.Protocol)
			})
		case ctaTupleReply:
			d.Nested(func(n *netlink.AttributeDecoder) error {
				return decodeTuple(n, &e.ReplyFrom, &e.ReplyTo, &e.Protocol)
			})
		case ctaID:
			e.id = d.Bytes()
		case ctaZone:
			e.zone = d.Bytes()
		}
	}
	return e, d.Err()
}

// withPorts are the protocols whose ports are ports.
var withPorts = map[byte]schema.Protocol{
	unix.IPPROTO_TCP: schema.TCP, unix.IPPROTO_UDP: schema.UDP, unix.IPPROTO_SCTP: schema.SCTP,
}

func decodeTuple(d *netlink.AttributeDecoder, from, to *netip.AddrPort, protocol *schema.Protocol) error {
	var src, dst netip.Addr
	var sport, dport uint16
	for d.Next() {
		switch d.Type() {
		case ctaTupleIP:
			d.Nested(func(n *netlink.AttributeDecoder) error {
				for n.Next() {
					ip, ok := netip.AddrFromSlice(n.Bytes())
					switch kind := n.Type(); {
					case !ok:
					case kind == ctaIPv4Src || kind == ctaIPv6Src:
						src = ip
					case kind == ctaIPv4Dst || kind == ctaIPv6Dst:
						dst = ip
					}
				}
				return nil
			})
		case ctaTupleProto:
			d.Nested(func(n *netlink.AttributeDecoder) error {
				for n.Next() {
					b := n.Bytes()
					switch kind := n.Type(); {
					case kind == ctaProtoNum && len(b) == 1:
						*protocol = withPorts[b[0]]
					case kind == ctaSrcPort && len(b) == 2:
						sport = binary.BigEndian.Uint16(b)
					case kind == ctaDstPort && len(b) == 2:
						dport = binary.BigEndian.Uint16(b)
					}
				}
				return nil
			})
		}
	}
	*from, *to = netip.AddrPortFrom(src, sport), netip.AddrPortFrom(dst, dport)
	return nil
}
