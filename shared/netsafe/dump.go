package netsafe

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// maxDumps is how often an interrupted dump is tried.
const maxDumps = 5

// ErrInterrupted is a dump during which the kernel's table changed at every
// attempt, so that the answer may miss entries.
var ErrInterrupted = errors.New("dump interrupted by changes")

// dump asks for all objects of a kind and decodes each, starting over when
// the kernel flags the answer as inconsistent (NLM_F_DUMP_INTR).
func dump[T any](request, answer int, body func() nl.NetlinkRequestData, decode func([]byte) (T, bool, error)) ([]T, error) {
	for range maxDumps {
		req := nl.NewNetlinkRequest(request, unix.NLM_F_DUMP)
		req.AddData(body())
		var list []T
		var bad error
		err := req.ExecuteIter(unix.NETLINK_ROUTE, uint16(answer), func(m []byte) bool {
			v, ok, err := decode(m)
			if err != nil && bad == nil {
				bad = fmt.Errorf("decoding netlink message: %w", err)
			}
			if ok && err == nil {
				list = append(list, v)
			}
			return true
		})
		if errors.Is(err, nl.ErrDumpInterrupted) {
			continue
		}
		if err == nil {
			err = bad
		}
		return list, err
	}
	return nil, ErrInterrupted
}

// attributes returns the attributes behind a message's fixed head, by type.
func attributes(msg []byte, head int) (map[uint16][]byte, error) {
	if len(msg) < head {
		return nil, fmt.Errorf("%d bytes, want at least %d", len(msg), head)
	}
	attrs := map[uint16][]byte{}
	for b := msg[head:]; len(b) >= unix.SizeofRtAttr; {
		size := int(nl.NativeEndian().Uint16(b))
		if size < unix.SizeofRtAttr || size > len(b) {
			return nil, fmt.Errorf("attribute of %d bytes in %d", size, len(b))
		}
		kind := nl.NativeEndian().Uint16(b[2:]) &^ (unix.NLA_F_NESTED | unix.NLA_F_NET_BYTEORDER)
		attrs[kind] = b[unix.SizeofRtAttr:size]
		b = b[min((size+3)&^3, len(b)):] // aligned, but for the last
	}
	return attrs, nil
}

// number reads an attribute's value in host byte order; one that is missing
// or too short is 0.
func number(b []byte) uint32 {
	switch {
	case len(b) >= 4:
		return nl.NativeEndian().Uint32(b)
	case len(b) == 1:
		return uint32(b[0])
	}
	return 0
}

// text reads an attribute's value as a C string; nl.BytesToString fails on
// one without an end.
func text(b []byte) string { return unix.ByteSliceToString(b) }
