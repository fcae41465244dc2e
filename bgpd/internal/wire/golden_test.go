package wire

import (
	"encoding/hex"
	"flag"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files")

// messages are what this speaker writes, as it goes over the wire.
func messages() map[string][]byte {
	four, six := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")
	full := func(hop netip.Addr) *Attributes {
		return &Attributes{
			Path: []uint32{4200000000}, NextHop: hop, MED: number(7), LocalPref: number(200),
			Communities: []uint32{65000<<16 | 1, 0xffff0000}, LargeCommunities: [][3]uint32{{1, 2, 3}},
		}
	}
	w := Writer{FourOctetAS: true}
	linkLocal := &Attributes{NextHop: six, LinkLocal: netip.MustParseAddr("fe80::1")}
	out := map[string][]byte{
		"keepalive": Keepalive(), "cease": Notification(CodeCease, CeaseShutdown, nil),
		"end-of-rib-4": w.EndOfRIB(IPv4), "end-of-rib-6": w.EndOfRIB(IPv6),
		"update-4":            w.Announce(IPv4, prefixes(IPv4, 2), full(four))[0],
		"update-4-short-as":   Writer{}.Announce(IPv4, prefixes(IPv4, 1), full(four))[0],
		"update-4-by-6":       w.Announce(IPv4, prefixes(IPv4, 1), full(six))[0],
		"update-6":            w.Announce(IPv6, prefixes(IPv6, 2), full(six))[0],
		"update-6-link-local": w.Announce(IPv6, prefixes(IPv6, 1), linkLocal)[0],
		"withdraw-4":          w.Withdraw(IPv4, prefixes(IPv4, 2))[0],
		"withdraw-6":          w.Withdraw(IPv6, prefixes(IPv6, 2))[0],
	}
	for name, o := range opens() {
		out["open-"+name] = o.Message()
	}
	return out
}

func TestMessagesByteByByte(t *testing.T) {
	for name, msg := range messages() {
		file := filepath.Join("testdata", "golden", name+".hex")
		if *update {
			if err := os.WriteFile(file, []byte(hex.Dump(msg)), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), hex.Dump(msg)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
