package dhcp6

import (
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv6"
	"github.com/insomniacslk/dhcp/iana"

	"github.com/vipod/vipod/linkd/internal/lease"
)

const mac = "\x02\x00\x00\x00\x00\x09"

var (
	first  = netip.MustParseAddr("2001:db8::7")
	second = netip.MustParseAddr("2001:db8::8")
	server = &dhcpv6.DUIDLL{HWType: iana.HWTypeEthernet, LinkLayerAddr: net.HardwareAddr("\x02\x00\x00\x00\x00\x01")}
)

// bench is a machine with a clock and a server, both of the test.
type bench struct {
	t       *testing.T
	m       *lease.Machine
	now     time.Duration
	give    netip.Addr
	seconds int
	silent  bool
	// status is what the server says in the identity association.
	status iana.StatusCode
	rapid  bool
	got    []string
	last   *dhcpv6.Message
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

func (b *bench) settle() {
	b.t.Helper()
	for {
		out := b.m.Take()
		if len(out) == 0 {
			return
		}
		for _, p := range out {
			msg, err := dhcpv6.MessageFromBytes(p.Payload)
			if err != nil {
				b.t.Fatal(err)
			}
			b.got, b.last = append(b.got, msg.MessageType.String()), msg
			b.answer(msg)
		}
	}
}

func (b *bench) answer(msg *dhcpv6.Message) {
	if b.silent {
		return
	}
	kind := dhcpv6.MessageTypeReply
	switch msg.MessageType {
	case dhcpv6.MessageTypeSolicit:
		if !b.rapid {
			kind = dhcpv6.MessageTypeAdvertise
		}
	case dhcpv6.MessageTypeRequest, dhcpv6.MessageTypeRenew, dhcpv6.MessageTypeRebind:
	default:
		return
	}
	b.m.Receive(b.now, b.reply(msg, kind).ToBytes(), "\x02\x00\x00\x00\x00\x01")
}

func (b *bench) reply(msg *dhcpv6.Message, kind dhcpv6.MessageType) *dhcpv6.Message {
	r := &dhcpv6.Message{MessageType: kind, TransactionID: msg.TransactionID}
	r.AddOption(dhcpv6.OptClientID(msg.Options.ClientID()))
	r.AddOption(dhcpv6.OptServerID(server))
	ia := &dhcpv6.OptIANA{IaId: iaid}
	life := time.Duration(b.seconds) * time.Second
	if b.status == iana.StatusSuccess {
		ia.Options.Add(&dhcpv6.OptIAAddress{IPv6Addr: b.give.AsSlice(), PreferredLifetime: life, ValidLifetime: life})
	} else {
		ia.Options.Add(&dhcpv6.OptStatusCode{StatusCode: b.status})
	}
	r.AddOption(ia)
	if b.rapid {
		r.AddOption(&dhcpv6.OptionGeneric{OptionCode: dhcpv6.OptionRapidCommit})
	}
	return r
}

func (b *bench) start() {
	b.m.Start(b.now)
	b.settle()
}

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
	if !slices.Equal(got, b.got) {
		b.t.Errorf("sent %q, want %q", b.got, got)
	}
	b.got = nil
}

var nobody netip.Addr

func TestAnAddressIsFoundAndKeptForTenRenewals(t *testing.T) {
	b := newBench(t, nil)
	b.start()
	b.expect(lease.Bound, first, "SOLICIT", "REQUEST")
	for range 10 {
		b.pass(10 * time.Second)
		b.expect(lease.Bound, first, "RENEW")
	}
	if c := b.m.Counts(); c.Renewed != 10 || c.Expired+c.Rebound+c.Refused+c.Failed != 0 {
		t.Errorf("counts %+v", c)
	}
}

func TestRapidCommit(t *testing.T) {
	b := newBench(t, func(c *lease.Config) { c.Requested = second })
	b.rapid = true
	b.start()
	b.expect(lease.Bound, first, "SOLICIT")
	if hint := b.last.Options.OneIANA().Options.OneAddress(); hint == nil || hint.IPv6Addr.String() != second.String() {
		t.Errorf("asked for %v, want %s", hint, second)
	}
}

func TestAServerThatVanishesAndReturns(t *testing.T) {
	b := newBench(t, nil)
	b.start()
	b.silent, b.got = true, nil
	b.pass(15500 * time.Millisecond)
	b.expect(lease.Renewing, first, "RENEW", "RENEW", "RENEW", "RENEW")
	b.pass(time.Second)
	b.expect(lease.Rebinding, first, "REBIND")
	b.silent = false
	b.pass(2500 * time.Millisecond)
	b.expect(lease.Bound, first, "REBIND")
}

func TestAnExpiredLeaseIsLost(t *testing.T) {
	b := newBench(t, nil)
	b.start()
	b.silent = true
	b.pass(20 * time.Second)
	if _, held := b.m.Lease(); held || b.m.Counts().Expired != 1 {
		t.Fatal("held after the end")
	}
	b.silent = false
	b.pass(2 * time.Minute)
	if l, held := b.m.Lease(); !held || l.IP != first {
		t.Errorf("not found again: %s", b.m.State())
	}
}

func TestNoBindingTakesTheAddressAtOnce(t *testing.T) {
	b := newBench(t, nil)
	b.start()
	b.got, b.status, b.give = nil, iana.StatusNoBinding, second
	b.now += 10 * time.Second
	b.m.Tick(b.now)
	msg, err := dhcpv6.MessageFromBytes(b.m.Take()[0].Payload)
	if err != nil {
		t.Fatal(err)
	}
	b.answer(msg)
	if _, held := b.m.Lease(); held {
		t.Error("held without a binding")
	}
	b.status = iana.StatusSuccess
	b.settle()
	b.expect(lease.Bound, second, "SOLICIT", "REQUEST")
}

func TestAServerWithoutAddressesIsAskedAgain(t *testing.T) {
	b := newBench(t, nil)
	b.status = iana.StatusNoAddrsAvail
	b.start()
	b.pass(5 * time.Minute)
	if n := len(b.got); n < 3 || n > 25 {
		t.Errorf("%d messages in five minutes", n)
	}
	b.status = iana.StatusSuccess
	b.pass(70 * time.Second)
	if l, held := b.m.Lease(); !held || l.IP != first {
		t.Errorf("state %s", b.m.State())
	}
}

func TestIdentity(t *testing.T) {
	b := newBench(t, func(c *lease.Config) { c.Hostname = "web.example.com" })
	b.start()
	duid, ok := b.last.Options.ClientID().(*dhcpv6.DUIDLL)
	if !ok || string(duid.LinkLayerAddr) != mac {
		t.Errorf("client %v", b.last.Options.ClientID())
	}
	if f := b.last.Options.FQDN(); f == nil || f.Flags != 1 || f.DomainName.Labels[0] != "web.example.com" {
		t.Errorf("FQDN %v", f)
	}
}

func TestReleaseAndDecline(t *testing.T) {
	b := newBench(t, nil)
	b.start()
	b.got = nil
	b.m.Decline(b.now, first)
	b.settle()
	b.expect(lease.Init, nobody, "DECLINE")
	b.give = second
	b.pass(12 * time.Second)
	b.expect(lease.Bound, second, "SOLICIT", "REQUEST")
	b.m.Release(b.now)
	b.settle()
	b.expect(lease.GivenUp, nobody, "RELEASE")
	b.pass(time.Hour)
	b.expect(lease.GivenUp, nobody)
}

func TestResumeGoesOnWithoutAWord(t *testing.T) {
	b := newBench(t, nil)
	b.start()
	l, _ := b.m.Lease()
	again := newBench(t, nil)
	again.m.Resume(again.now, l)
	again.settle()
	again.expect(lease.Bound, first)
	again.pass(10 * time.Second)
	again.expect(lease.Bound, first, "RENEW")
}

// FuzzReceive gives a machine arbitrary datagrams; whatever they say, time
// passes and a lease is one that can be used.
func FuzzReceive(f *testing.F) {
	b := newBench(&testing.T{}, nil)
	b.m.Start(b.now)
	msg, err := dhcpv6.MessageFromBytes(b.m.Take()[0].Payload)
	if err != nil {
		f.Fatal(err)
	}
	for step := range byte(4) {
		f.Add(step, b.reply(msg, dhcpv6.MessageTypeAdvertise).ToBytes())
		f.Add(step, b.reply(msg, dhcpv6.MessageTypeReply).ToBytes())
	}
	f.Add(byte(0), []byte{7, 0, 0, 7})
	f.Fuzz(func(t *testing.T, step byte, data []byte) {
		b := newBench(t, nil)
		b.silent, b.rapid = step&1 != 0, step&2 != 0
		b.start()
		b.m.Receive(b.now, data, "\x02\x00\x00\x00\x00\x01")
		if l, held := b.m.Lease(); held && (!l.IP.IsGlobalUnicast() || l.Renew > l.Rebind || l.Rebind > l.Expire || l.Expire <= b.now) {
			t.Fatalf("lease %+v at %s", l, b.now)
		}
		b.silent = true
		b.pass(time.Hour)
	})
}
