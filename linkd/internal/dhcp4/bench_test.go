package dhcp4

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"github.com/vipod/vipod/linkd/internal/lease"
)

const mac = "\x02\x00\x00\x00\x00\x09"

var (
	first    = netip.MustParseAddr("198.51.100.7")
	second   = netip.MustParseAddr("198.51.100.8")
	serverIP = netip.MustParseAddr("198.51.100.1")
)

// bench is a machine with a clock and a server, both of the test.
type bench struct {
	t   *testing.T
	m   *lease.Machine
	now time.Duration
	// give is the address that the server lends, and seconds for how long.
	give    netip.Addr
	seconds int
	silent  bool
	refuse  bool
	// got are the messages since the last look, by type and destination.
	got []string
	// last is the last message.
	last *dhcpv4.DHCPv4
}

func newBench(t *testing.T, change func(*lease.Config)) *bench {
	t.Helper()
	n := uint32(0)
	c := lease.Config{MAC: mac, Rand: func() uint32 { n += 7; return n }}
	if change != nil {
		change(&c)
	}
	return &bench{t: t, m: New(c), now: time.Hour, give: first, seconds: 20}
}

// settle lets the server answer until nobody has anything to say.
func (b *bench) settle() {
	b.t.Helper()
	for {
		out := b.m.Take()
		if len(out) == 0 {
			return
		}
		for _, p := range out {
			msg, err := dhcpv4.FromBytes(p.Payload)
			if err != nil {
				b.t.Fatal(err)
			}
			where := "all"
			if p.To.IsValid() {
				where = p.To.String()
			}
			b.got, b.last = append(b.got, msg.MessageType().String()+" to "+where), msg
			b.answer(msg)
		}
	}
}

func (b *bench) answer(msg *dhcpv4.DHCPv4) {
	if b.silent {
		return
	}
	kind := dhcpv4.MessageTypeOffer
	switch msg.MessageType() {
	case dhcpv4.MessageTypeDiscover:
	case dhcpv4.MessageTypeRequest:
		if kind = dhcpv4.MessageTypeAck; b.refuse {
			kind = dhcpv4.MessageTypeNak
		}
	default:
		return
	}
	b.m.Receive(b.now, b.reply(msg, kind).ToBytes(), "\x02\x00\x00\x00\x00\x01")
}

func (b *bench) reply(msg *dhcpv4.DHCPv4, kind dhcpv4.MessageType) *dhcpv4.DHCPv4 {
	b.t.Helper()
	r, err := dhcpv4.NewReplyFromRequest(msg, dhcpv4.WithMessageType(kind), dhcpv4.WithYourIP(b.give.AsSlice()),
		dhcpv4.WithServerIP(serverIP.AsSlice()), dhcpv4.WithOption(dhcpv4.OptServerIdentifier(serverIP.AsSlice())),
		dhcpv4.WithNetmask(net.CIDRMask(24, 32)), dhcpv4.WithLeaseTime(uint32(b.seconds)))
	if err != nil {
		b.t.Fatal(err)
	}
	if kind == dhcpv4.MessageTypeNak {
		r.YourIPAddr = net.IPv4zero
	}
	return r
}

// start starts the machine and lets the server answer.
func (b *bench) start() {
	b.m.Start(b.now)
	b.settle()
}

// pass lets time pass, tick by tick.
func (b *bench) pass(d time.Duration) {
	b.t.Helper()
	for end, steps := b.now+d, 0; ; steps++ {
		if steps > 10000 {
			b.t.Fatal("the machine does not let time pass")
		}
		next := b.m.Deadline()
		if next > end {
			b.now = end
			return
		}
		b.now = max(next, b.now)
		b.m.Tick(b.now)
		b.settle()
	}
}

func (b *bench) expect(state lease.State, ip netip.Addr, got ...string) {
	b.t.Helper()
	l, held := b.m.Lease()
	if b.m.State() != state || held != ip.IsValid() || held && l.IP != ip {
		b.t.Errorf("state %s with %s (held: %t), want %s with %s", b.m.State(), l.IP, held, state, ip)
	}
	if len(got) != len(b.got) {
		b.t.Errorf("sent %q, want %q", b.got, got)
	} else {
		for i := range got {
			if got[i] != b.got[i] {
				b.t.Errorf("sent %q, want %q", b.got, got)
				break
			}
		}
	}
	b.got = nil
}

var nobody netip.Addr

const (
	discover = "DISCOVER to all"
	request  = "REQUEST to all"
	renew    = "REQUEST to 198.51.100.1"
)
