package kernel

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/vipod/vipod/egressd/internal/plan"
)

// register is the unit in which the kernel lays out concatenated fields, in
// bytes.
const register = 4

const separator = " . "

// encode returns an element as the kernel has it: one, or two for a range of
// one field.
func (s *setSpec) encode(key, value string) ([]nftables.SetElement, error) {
	first, last, err := encodeFields(s.key, key)
	if err != nil {
		return nil, fmt.Errorf("encoding element %q of %s: %w", key, s.name, err)
	}
	e := nftables.SetElement{Key: first}
	if s.interval() {
		e.KeyEnd = last
	}
	if s.jumps() {
		chain, ok := strings.CutPrefix(value, jumpTo)
		if !ok || !plan.IsList(chain) {
			return nil, fmt.Errorf("encoding value %q of %s: it is no jump to a list", value, s.name)
		}
		e.VerdictData = &expr.Verdict{Kind: expr.VerdictJump, Chain: chain}
	} else if len(s.value) > 0 {
		if e.Val, _, err = encodeFields(s.value, value); err != nil {
			return nil, fmt.Errorf("encoding value %q of %s: %w", value, s.name, err)
		}
	}
	if s.comment {
		e.Comment = value
	}
	if !s.alone() {
		return []nftables.SetElement{e}, nil
	}
	e.KeyEnd = nil
	list := []nftables.SetElement{e}
	if behind, ok := next(last); ok {
		list = append(list, nftables.SetElement{Key: behind, IntervalEnd: true})
	}
	return list, nil
}

// next returns the number behind n, none behind the last.
func next(n []byte) ([]byte, bool) {
	n = bytes.Clone(n)
	for i := len(n) - 1; i >= 0; i-- {
		if n[i]++; n[i] != 0 {
			return n, true
		}
	}
	return nil, false
}

// pair turns the elements of ranges of one field, as the kernel has them, into
// elements with an end.
func pair(list []nftables.SetElement) ([]nftables.SetElement, error) {
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b nftables.SetElement) int {
		if c := bytes.Compare(a.Key, b.Key); c != 0 || a.IntervalEnd == b.IntervalEnd {
			return c
		} else if a.IntervalEnd {
			return -1
		}
		return 1
	})
	var out []nftables.SetElement
	for i, e := range list {
		switch {
		case e.IntervalEnd:
			continue
		case i+1 == len(list):
			e.KeyEnd = bytes.Repeat([]byte{255}, len(e.Key))
		case !list[i+1].IntervalEnd:
			return nil, errors.New("a range has no end")
		default:
			e.KeyEnd = before(list[i+1].Key)
		}
		out = append(out, e)
	}
	return out, nil
}

// before returns the number before n.
func before(n []byte) []byte {
	n = bytes.Clone(n)
	for i := len(n) - 1; i >= 0; i-- {
		if n[i]--; n[i] != 255 {
			break
		}
	}
	return n
}

// encodeFields returns the first and the last value of the range that a text
// stands for. A single field stands alone, several are padded.
func encodeFields(list []field, text string) (first, last []byte, err error) {
	for i, f := range list {
		part := text
		if i < len(list)-1 {
			var ok bool
			if part, text, ok = strings.Cut(text, separator); !ok {
				return nil, nil, fmt.Errorf("%d fields, want %d", i+1, len(list))
			}
		}
		from, to, err := f.encode(part)
		if err != nil {
			return nil, nil, err
		}
		first, last = append(first, from...), append(last, to...)
		if len(list) > 1 {
			pad := make([]byte, -len(from)&(register-1))
			first, last = append(first, pad...), append(last, pad...)
		}
	}
	return first, last, nil
}

func (f field) encode(text string) (first, last []byte, err error) {
	switch f.kind {
	case mark.kind:
		n, err := strconv.ParseUint(text, 10, 32)
		first = binary.NativeEndian.AppendUint32(nil, uint32(n))
		return first, first, err
	case port.kind:
		n, err := strconv.ParseUint(text, 10, 16)
		first = binary.BigEndian.AppendUint16(nil, uint16(n))
		return first, first, err
	case ifname.kind:
		first, err = encodeName(text)
		return first, first, err
	case proto.kind:
		n, ok := protocols[text]
		if !ok {
			return nil, nil, fmt.Errorf("protocol %q is not known", text)
		}
		return []byte{n}, []byte{n}, nil
	case addr4.kind:
		ip, err := netip.ParseAddr(text)
		if err == nil && len(ip.AsSlice()) != int(f.datatype.Bytes) {
			err = fmt.Errorf("%s is of the other family", ip)
		}
		return ip.AsSlice(), ip.AsSlice(), err
	}
	return f.encodeNetwork(text)
}

// encodeName pads the name of a link with zeroes.
func encodeName(text string) ([]byte, error) {
	if text == "" || len(text) >= unix.IFNAMSIZ {
		return nil, fmt.Errorf("%q is not the name of a link", text)
	}
	return append([]byte(text), make([]byte, unix.IFNAMSIZ-len(text))...), nil
}

// encodeNetwork takes a network, or a range "first-last", which somebody else
// may have put there.
func (f field) encodeNetwork(text string) (first, last []byte, err error) {
	if a, b, ok := strings.Cut(text, "-"); ok {
		from, errA := netip.ParseAddr(a)
		to, errB := netip.ParseAddr(b)
		if errA != nil || errB != nil {
			return nil, nil, fmt.Errorf("%q is no range", text)
		}
		return from.AsSlice(), to.AsSlice(), nil
	}
	p, err := netip.ParsePrefix(text)
	if err != nil {
		return nil, nil, err
	}
	first = p.Masked().Addr().AsSlice()
	if len(first) != int(f.datatype.Bytes) {
		return nil, nil, fmt.Errorf("%s is of the other family", p)
	}
	last = bytes.Clone(first)
	for bit := p.Bits(); bit < 8*len(last); bit++ {
		last[bit/8] |= 0x80 >> (bit % 8)
	}
	return first, last, nil
}

var protocols = map[string]byte{"tcp": unix.IPPROTO_TCP, "udp": unix.IPPROTO_UDP, "sctp": unix.IPPROTO_SCTP}

// decode returns an element as the plan has it.
func (s *setSpec) decode(e nftables.SetElement) (key, value string, err error) {
	end := e.KeyEnd
	if len(end) == 0 {
		end = e.Key
	}
	key, err = decodeFields(s.key, e.Key, end)
	switch {
	case err == nil && s.jumps():
		value, err = decodeJump(e.Val)
	case err == nil && len(s.value) > 0:
		value, err = decodeFields(s.value, e.Val, e.Val)
	}
	if s.comment {
		value = e.Comment
	}
	if err != nil {
		return "", "", fmt.Errorf("decoding element of %s: %w", s.name, err)
	}
	return key, value, nil
}

// jumpTo begins the value of an element that jumps to a chain.
const jumpTo = "jump "

// decodeJump reads a verdict as the kernel has it.
func decodeJump(data []byte) (string, error) {
	d, err := netlink.NewAttributeDecoder(data)
	if err != nil {
		return "", err
	}
	d.ByteOrder = binary.BigEndian
	kind, chain := int32(0), ""
	for d.Next() {
		switch d.Type() {
		case unix.NFTA_VERDICT_CODE:
			kind = d.Int32()
		case unix.NFTA_VERDICT_CHAIN:
			chain = d.String()
		}
	}
	if err := d.Err(); err != nil {
		return "", err
	}
	if kind != unix.NFT_JUMP || !plan.IsList(chain) {
		return "", fmt.Errorf("verdict %d %q is no jump to a list", kind, chain)
	}
	return jumpTo + chain, nil
}

func decodeFields(list []field, first, last []byte) (string, error) {
	var text strings.Builder
	for i, f := range list {
		size := int(f.datatype.Bytes)
		step := size
		if len(list) > 1 {
			step = (size + register - 1) &^ (register - 1)
		}
		if len(first) < step || len(last) < step {
			return "", fmt.Errorf("%d and %d bytes are too few", len(first), len(last))
		}
		if i > 0 {
			text.WriteString(separator)
		}
		text.WriteString(f.decode(first[:size], last[:size]))
		first, last = first[step:], last[step:]
	}
	if len(first) > 0 || len(last) > 0 {
		return "", fmt.Errorf("%d bytes are too many", max(len(first), len(last)))
	}
	return text.String(), nil
}

func (f field) decode(first, last []byte) string {
	switch f.kind {
	case mark.kind:
		return strconv.FormatUint(uint64(binary.NativeEndian.Uint32(first)), 10)
	case port.kind:
		return strconv.FormatUint(uint64(binary.BigEndian.Uint16(first)), 10)
	case ifname.kind:
		return string(bytes.TrimRight(first, "\x00"))
	case proto.kind:
		for name, n := range protocols {
			if n == first[0] {
				return name
			}
		}
		return strconv.Itoa(int(first[0]))
	}
	from, _ := netip.AddrFromSlice(first)
	if f.kind == addr4.kind {
		return from.String()
	}
	to, _ := netip.AddrFromSlice(last)
	if bits := common(first, last); bits >= 0 {
		return netip.PrefixFrom(from, bits).String()
	}
	return from.String() + "-" + to.String()
}

// common returns the length of the network from first to last, -1 if it is
// none.
func common(first, last []byte) int {
	bits, ended := 0, false
	for i := range first {
		for b := 7; b >= 0; b-- {
			x, y := first[i]>>b&1, last[i]>>b&1
			switch {
			case x == y && !ended:
				bits++
			case x == 0 && y == 1:
				ended = true
			default:
				return -1
			}
		}
	}
	return bits
}

// elements turns a plan's elements into the kernel's.
func elements(spec *setSpec, list []plan.Element) ([]nftables.SetElement, error) {
	out := make([]nftables.SetElement, 0, len(list))
	for _, e := range list {
		x, err := spec.encode(e.Key, e.Value)
		if err != nil {
			return nil, err
		}
		out = append(out, x...)
	}
	return out, nil
}
