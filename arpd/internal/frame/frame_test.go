package frame

import (
	"encoding/hex"
	"flag"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

var update = flag.Bool("update", false, "rewrite the golden files")

var (
	ip4 = netip.MustParseAddr("198.51.100.7")
	ip6 = netip.MustParseAddr("2001:db8::abcd:7")

	ethernet = Hardware{
		Type: unix.ARPHRD_ETHER, MAC: "\xaa\xbb\xcc\xdd\xee\xff", Broadcast: "\xff\xff\xff\xff\xff\xff",
	}
	infiniband = Hardware{
		Type: unix.ARPHRD_INFINIBAND,
		MAC:  "\x80\x00\x02\x08\xfe\x80\x00\x00\x00\x00\x00\x00\x00\x02\xc9\x03\x00\x01\x02\x03",
		// Scope 2 (link-local) and partition key 0x8001, as IPoIB links have them.
		Broadcast: "\x00\xff\xff\xff\xff\x12\x40\x1b\x80\x01\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff",
	}
)

// all are the frames that are sent, on both kinds of links.
func all(t testing.TB, each func(name string, hw Hardware, f Frame, ip netip.Addr)) {
	t.Helper()
	for name, hw := range map[string]Hardware{"ethernet": ethernet, "infiniband": infiniband} {
		for _, kind := range Kinds {
			ip := ip4
			if kind == Advertisement || kind == Solicitation {
				ip = ip6
			}
			f, err := Build(kind, hw, ip)
			if err != nil {
				t.Fatal(err)
			}
			each(name+"-"+kind.String(), hw, f, ip)
		}
	}
}

func TestFramesAreTheSameByteForByte(t *testing.T) {
	all(t, func(name string, _ Hardware, f Frame, _ netip.Addr) {
		got := "to " + f.To.String() + "\n" + hex.Dump(f.Payload)
		path := filepath.Join("testdata", name+".golden")
		if *update {
			if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	})
}

func TestARPOnEthernetIsWhatKubeVipSends(t *testing.T) {
	head := []byte{0, 1, 8, 0, 6, 4, 0}
	mac, ip := []byte(ethernet.MAC), ip4.AsSlice()
	for kind, want := range map[Kind][][]byte{
		Request: {head, {1}, mac, ip, []byte(ethernet.Broadcast), ip},
		Reply:   {head, {2}, mac, ip, mac, ip},
	} {
		f, err := Build(kind, ethernet, ip4)
		if err != nil {
			t.Fatal(err)
		}
		var flat []byte
		for _, part := range want {
			flat = append(flat, part...)
		}
		if diff := cmp.Diff(flat, f.Payload); diff != "" {
			t.Errorf("%s (-want +got):\n%s", kind, diff)
		}
	}
}

func TestAFrameThatIsSentIsReadAsTheClaimItIs(t *testing.T) {
	all(t, func(name string, hw Hardware, f Frame, ip netip.Addr) {
		got, err := Decode(f.Protocol, hw, hw.MAC, f.Payload)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		want := Claim{IP: ip, MAC: hw.MAC, Probe: f.Kind == Probe || f.Kind == Solicitation}
		if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	})
}

func TestWhatCannotBeBuiltIsAnError(t *testing.T) {
	for name, build := range map[string]func() (Frame, error){
		"ARP for IPv6":         func() (Frame, error) { return Build(Request, ethernet, ip6) },
		"NDP for IPv4":         func() (Frame, error) { return Build(Advertisement, ethernet, ip4) },
		"no address":           func() (Frame, error) { return Build(Reply, ethernet, netip.Addr{}) },
		"link without address": func() (Frame, error) { return Build(Reply, Hardware{Type: 1}, ip4) },
		"Ethernet address on InfiniBand": func() (Frame, error) {
			return Build(Reply, Hardware{Type: unix.ARPHRD_INFINIBAND, MAC: ethernet.MAC, Broadcast: infiniband.Broadcast}, ip4)
		},
	} {
		if _, err := build(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestFramesThatClaimNothingAreErrors(t *testing.T) {
	advertisement := func(change func([]byte)) []byte {
		f, err := Build(Advertisement, ethernet, ip6)
		if err != nil {
			t.Fatal(err)
		}
		change(f.Payload)
		return f.Payload
	}
	request := func(change func([]byte)) []byte {
		f, err := Build(Request, ethernet, ip4)
		if err != nil {
			t.Fatal(err)
		}
		change(f.Payload)
		return f.Payload
	}
	for name, c := range map[string]struct {
		protocol uint16
		payload  []byte
	}{
		"empty ARP":              {ARP, nil},
		"ARP cut short":          {ARP, request(func([]byte) {})[:27]},
		"ARP of InfiniBand":      {ARP, request(func(b []byte) { b[1] = 32 })},
		"ARP with long MACs":     {ARP, request(func(b []byte) { b[4] = 255 })},
		"ARP with long IPs":      {ARP, request(func(b []byte) { b[5] = 16 })},
		"ARP for another family": {ARP, request(func(b []byte) { b[2] = 0x86 })},
		"ARP operation 3":        {ARP, request(func(b []byte) { b[7] = 3 })},
		"empty NDP":              {IPv6, nil},
		"NDP from behind router": {IPv6, advertisement(func(b []byte) { b[7] = 254 })},
		"NDP wrong checksum":     {IPv6, advertisement(func(b []byte) { b[42] ^= 1 })},
		"NDP length beyond end":  {IPv6, advertisement(func(b []byte) { b[5] = 200 })},
		"NDP option of length 0": {IPv6, advertisement(func(b []byte) { b[65] = 0; fix(b) })},
		"NDP option beyond end":  {IPv6, advertisement(func(b []byte) { b[65] = 9; fix(b) })},
		"NDP for multicast":      {IPv6, advertisement(func(b []byte) { b[48] = 0xff; fix(b) })},
		"router advertisement":   {IPv6, advertisement(func(b []byte) { b[40] = 134; fix(b) })},
		"IPv4":                   {0x0800, request(func([]byte) {})},
	} {
		if claim, err := Decode(c.protocol, ethernet, ethernet.MAC, c.payload); err == nil {
			t.Errorf("%s: read as %v", name, claim)
		}
	}
}

// fix makes the checksum of an NDP packet right again.
func fix(b []byte) {
	b[42], b[43] = 0, 0
	sum := checksum(b[8:40], b[40:])
	b[42], b[43] = byte(sum>>8), byte(sum)
}

func TestAskingFromAnAddressClaimsIt(t *testing.T) {
	f, err := Build(Advertisement, ethernet, ip6)
	if err != nil {
		t.Fatal(err)
	}
	// A solicitation from ip6 for another address, with the sender's own
	// link-layer address as an option.
	b := f.Payload
	b[40], b[44], b[63], b[64] = 135, 0, 9, optionSource
	fix(b)
	got, err := Decode(IPv6, ethernet, "", b)
	if err != nil || got != (Claim{IP: ip6, MAC: ethernet.MAC}) {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestTheSenderOfAnAdvertisementWithoutOptionIsTheFramesSource(t *testing.T) {
	f, err := Build(Advertisement, ethernet, ip6)
	if err != nil {
		t.Fatal(err)
	}
	b := f.Payload[:64]
	b[5] = 24
	fix(b)
	got, err := Decode(IPv6, ethernet, "\x02\x00\x00\x00\x00\x66", b)
	if err != nil || got.MAC.String() != "02:00:00:00:00:66" {
		t.Errorf("got %v, %v", got, err)
	}
}

func FuzzDecode(f *testing.F) {
	all(f, func(_ string, hw Hardware, fr Frame, _ netip.Addr) {
		f.Add(fr.Protocol == IPv6, hw.Type == unix.ARPHRD_INFINIBAND, fr.Payload)
		f.Add(fr.Protocol == IPv6, hw.Type == unix.ARPHRD_INFINIBAND, fr.Payload[:len(fr.Payload)/2])
	})
	f.Fuzz(func(t *testing.T, v6, ib bool, b []byte) {
		protocol, hw := ARP, ethernet
		if v6 {
			protocol = IPv6
			if len(b) >= 44 { // let some through to the checks behind the checksum
				b = append([]byte(nil), b...)
				fix(b)
			}
		}
		if ib {
			hw = infiniband
		}
		claim, err := Decode(protocol, hw, hw.MAC, b)
		if err != nil {
			return
		}
		if claim.IP.Is4() != (protocol == ARP) || !claim.IP.IsValid() {
			t.Errorf("claim of %s in protocol %#x", claim.IP, protocol)
		}
		if claim.MAC == "" && !v6 || len(claim.MAC) > 256*8 {
			t.Errorf("claim by %q", claim.MAC)
		}
	})
}
