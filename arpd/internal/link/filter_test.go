package link

import (
	"net/netip"
	"testing"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/vipod/vipod/arpd/internal/frame"
)

// machine returns the filter as a program that runs here; the check of the
// packet type, which only the kernel can make, is passed over.
func machine(t *testing.T, protocol uint16) *bpf.VM {
	t.Helper()
	program, err := filter(protocol)
	if err != nil {
		t.Fatal(err)
	}
	var raw []bpf.RawInstruction
	for _, f := range program[3:] {
		raw = append(raw, bpf.RawInstruction{Op: f.Code, Jt: f.Jt, Jf: f.Jf, K: f.K})
	}
	instructions, ok := bpf.Disassemble(raw)
	if !ok {
		t.Fatal("filter does not disassemble")
	}
	vm, err := bpf.NewVM(instructions)
	if err != nil {
		t.Fatal(err)
	}
	return vm
}

func TestTheFilterPassesWhatIsSentAndNothingElse(t *testing.T) {
	hw := frame.Hardware{Type: unix.ARPHRD_ETHER, MAC: "\x02\x00\x00\x00\x00\x01", Broadcast: "\xff\xff\xff\xff\xff\xff"}
	build := func(kind frame.Kind, ip string, change func([]byte)) []byte {
		f, err := frame.Build(kind, hw, netip.MustParseAddr(ip))
		if err != nil {
			t.Fatal(err)
		}
		if change != nil {
			change(f.Payload)
		}
		return f.Payload
	}
	for name, c := range map[string]struct {
		protocol uint16
		payload  []byte
		pass     bool
	}{
		"request":          {frame.ARP, build(frame.Request, "198.51.100.7", nil), true},
		"reply":            {frame.ARP, build(frame.Reply, "198.51.100.7", nil), true},
		"probe":            {frame.ARP, build(frame.Probe, "198.51.100.7", nil), true},
		"ARP not for IPv4": {frame.ARP, build(frame.Request, "198.51.100.7", func(b []byte) { b[2] = 0x86 }), false},
		"ARP long IPs":     {frame.ARP, build(frame.Request, "198.51.100.7", func(b []byte) { b[5] = 16 }), false},
		"short ARP":        {frame.ARP, []byte{0, 1}, false},
		"advertisement":    {frame.IPv6, build(frame.Advertisement, "2001:db8::7", nil), true},
		"solicitation":     {frame.IPv6, build(frame.Solicitation, "2001:db8::7", nil), true},
		"echo request":     {frame.IPv6, build(frame.Advertisement, "2001:db8::7", func(b []byte) { b[40] = 128 }), false},
		"from a router":    {frame.IPv6, build(frame.Advertisement, "2001:db8::7", func(b []byte) { b[7] = 64 }), false},
		"TCP":              {frame.IPv6, build(frame.Advertisement, "2001:db8::7", func(b []byte) { b[6] = 6 }), false},
		"short IPv6":       {frame.IPv6, []byte{0x60}, false},
	} {
		n, err := machine(t, c.protocol).Run(c.payload)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if (n > 0) != c.pass {
			t.Errorf("%s: passes %t, want %t", name, n > 0, c.pass)
		}
	}
}
