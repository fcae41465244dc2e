package kernel

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/nftables"
	"github.com/mdlayher/netlink"

	"github.com/vipod/vipod/egressd/internal/plan"
	"github.com/vipod/vipod/shared/schema"
)

// FuzzElements encodes and decodes elements of every set; what cannot be
// encoded must be an error and nothing else.
func FuzzElements(f *testing.F) {
	for _, seed := range [][2]string{
		{"203.0.113.2", "198.51.100.200"}, {"203.0.113.0/25", ""}, {"203.0.113.2 . 0.0.0.0/0", ""}, {"2001:db8::1 . tcp . 443", ""},
		{"2001:db8::/32", ""}, {"203.0.113.2 . 10.0.0.1-10.0.0.9", ""}, {"0", "198.51.100.11 . 6443"}, {"", ""}, {" . ", " . "},
		{"::1%lo", ""}, {"1.2.3.4 . icmp . 1", ""}, {"4294967296", "x"}, {"255.255.255.255/32", ""}, {"::/0", "::1"},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, key, value string) {
		for kind, list := range shapes {
			for i := range list {
				spec := &list[i]
				elements, err := spec.encode(key, value)
				if err != nil || spec.jumps() {
					continue
				}
				if spec.alone() {
					if elements, err = pair(elements); err != nil || len(elements) != 1 {
						t.Fatalf("%s %s %q: %d elements, error %v", kind, spec.name, key, len(elements), err)
					}
				}
				gotKey, gotValue, err := spec.decode(elements[0])
				if err != nil {
					t.Fatalf("%s %s %q: %v", kind, spec.name, key, err)
				}
				again, err := spec.encode(gotKey, gotValue)
				if err != nil {
					t.Fatalf("%s %s %q becomes %q: %v", kind, spec.name, key, gotKey, err)
				}
				if spec.alone() {
					again, _ = pair(again) // as above
				}
				if diff := cmp.Diff(elements[0], again[0]); diff != "" {
					t.Fatalf("%s %s %q becomes %q:\n%s", kind, spec.name, key, gotKey, diff)
				}
			}
		}
	})
}

func FuzzDecodeElement(f *testing.F) {
	f.Add([]byte{203, 0, 113, 2}, []byte{203, 0, 113, 255}, []byte{198, 51, 100, 200}, true)
	f.Add([]byte{}, []byte{}, []byte{}, false)
	f.Fuzz(func(t *testing.T, key, end, value []byte, flag bool) {
		for _, list := range shapes {
			for i := range list {
				e := nftables.SetElement{Key: key, KeyEnd: end, Val: value, IntervalEnd: flag}
				_, _, _ = list[i].decode(e) // must not panic
			}
		}
		_, _ = pair([]nftables.SetElement{{Key: key}, {Key: end, IntervalEnd: flag}, {Key: value}})
	})
}

// tracked is an entry as the kernel sends it: a connection of a pod, translated.
func tracked(t testing.TB) []byte {
	t.Helper()
	attr := func(kind uint16, data ...byte) netlink.Attribute { return netlink.Attribute{Type: kind, Data: data} }
	tuple := func(kind uint16, from, to string, sport, dport byte) netlink.Attribute {
		return nested(kind,
			nested(ctaTupleIP, attr(ctaIPv4Src, netip.MustParseAddr(from).AsSlice()...), attr(ctaIPv4Dst, netip.MustParseAddr(to).AsSlice()...)),
			nested(ctaTupleProto, attr(ctaProtoNum, 6), attr(ctaSrcPort, 0, sport), attr(ctaDstPort, 0, dport)))
	}
	data, err := netlink.MarshalAttributes([]netlink.Attribute{
		tuple(ctaTupleOrig, "203.0.113.2", "192.0.2.1", 40, 80), tuple(ctaTupleReply, "192.0.2.1", "198.51.100.200", 80, 40),
		attr(ctaID, 0, 0, 0, 1), attr(ctaZone, 0, 3),
	})
	if err != nil {
		t.Fatal(err)
	}
	return append([]byte{2, 0, 0, 0}, data...)
}

func TestTrackedConnectionsAreDecoded(t *testing.T) {
	e, err := decodeEntry(tracked(t))
	if err != nil {
		t.Fatal(err)
	}
	want := plan.Flow{
		Protocol: schema.TCP, Source: netip.MustParseAddrPort("203.0.113.2:40"), Destination: netip.MustParseAddrPort("192.0.2.1:80"),
		ReplyFrom: netip.MustParseAddrPort("192.0.2.1:80"), ReplyTo: netip.MustParseAddrPort("198.51.100.200:40"),
	}
	if e.Flow != want || e.family != 2 || len(e.orig) == 0 || len(e.id) != 4 || len(e.zone) != 2 {
		t.Errorf("decoded %+v, want %+v", e, want)
	}
}

func FuzzDecodeEntry(f *testing.F) {
	f.Add(tracked(f))
	f.Add([]byte{10, 0, 0, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		e, err := decodeEntry(data)
		again, errAgain := decodeEntry(data)
		if e.Flow != again.Flow || (err == nil) != (errAgain == nil) {
			t.Fatal("two answers for one message")
		}
	})
}
