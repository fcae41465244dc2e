package dhcp4

import (
	"net"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"github.com/vipod/vipod/linkd/internal/lease"
)

func TestAnAddressIsFoundAndKeptForTenRenewals(t *testing.T) {
	b := newBench(t, nil)
	b.start()
	b.expect(lease.Bound, first, discover, request)
	for range 10 {
		b.pass(10 * time.Second)
		b.expect(lease.Bound, first, renew)
		if !b.last.IsUnicast() || b.last.ClientIPAddr.String() != first.String() || b.last.RequestedIPAddress() != nil || b.last.ServerIdentifier() != nil {
			t.Fatalf("not a renewal as RFC 2131, 4.3.6 has it: %s", b.last.Summary())
		}
	}
	if c := b.m.Counts(); c.Renewed != 10 || c.Expired+c.Rebound+c.Refused+c.Failed != 0 {
		t.Errorf("counts %+v", c)
	}
}

func TestAServerThatVanishesAndReturns(t *testing.T) {
	b := newBench(t, nil)
	b.start()
	b.silent, b.got = true, nil
	b.pass(17 * time.Second)
	b.expect(lease.Renewing, first, renew, renew, renew, renew)
	b.pass(time.Second)
	b.expect(lease.Rebinding, first, request)
	b.silent = false
	b.pass(2 * time.Second)
	b.expect(lease.Bound, first, request)
	if c := b.m.Counts(); c.Rebound != 1 || c.Expired != 0 {
		t.Errorf("counts %+v", c)
	}
}

func TestAnExpiredLeaseIsLostAndTheSameAddressAskedForAgain(t *testing.T) {
	b := newBench(t, nil)
	b.start()
	b.silent = true
	b.pass(20 * time.Second)
	if _, held := b.m.Lease(); held || b.m.Counts().Expired != 1 {
		t.Fatalf("held after the end: %t", held)
	}
	if ip := b.last.RequestedIPAddress().String(); b.last.MessageType() != dhcpv4.MessageTypeDiscover || ip != first.String() {
		t.Errorf("%s for %s, want the same address", b.last.MessageType(), ip)
	}
	b.pass(10 * time.Minute)
	if n := len(b.got); n > 40 {
		t.Errorf("%d messages in ten minutes", n)
	}
	b.silent, b.got = false, nil
	b.pass(70 * time.Second)
	if l, held := b.m.Lease(); !held || l.IP != first {
		t.Errorf("not found again: %s", b.m.State())
	}
}

func TestARememberedAddressIsAskedForFirst(t *testing.T) {
	remember := func(c *lease.Config) { c.Requested = first }
	b := newBench(t, remember)
	b.start()
	b.expect(lease.Bound, first, request)
	if b.last.RequestedIPAddress().String() != first.String() || b.last.ServerIdentifier() != nil || !b.last.ClientIPAddr.IsUnspecified() {
		t.Errorf("not INIT-REBOOT as RFC 2131, 4.3.2 has it: %s", b.last.Summary())
	}

	b = newBench(t, remember)
	b.refuse = true
	b.m.Start(b.now)
	b.give, b.refuse = second, true
	out := b.m.Take()
	msg, err := dhcpv4.FromBytes(out[0].Payload)
	if err != nil {
		t.Fatal(err)
	}
	b.answer(msg) // a NAK
	b.refuse = false
	b.settle()
	b.expect(lease.Bound, second, discover, request)

	b = newBench(t, remember)
	b.silent = true
	b.start()
	b.pass(3 * time.Second)
	b.silent = false
	b.pass(10 * time.Second)
	if l, held := b.m.Lease(); !held || l.IP != first {
		t.Errorf("a server without a memory gave nothing: %s", b.m.State())
	}
}

func TestNAKWhileRenewingTakesTheAddressAtOnce(t *testing.T) {
	b := newBench(t, nil)
	b.start()
	b.got, b.refuse, b.give = nil, true, second
	b.now += 10 * time.Second
	b.m.Tick(b.now)
	msg, err := dhcpv4.FromBytes(b.m.Take()[0].Payload)
	if err != nil {
		t.Fatal(err)
	}
	b.answer(msg)
	if _, held := b.m.Lease(); held {
		t.Error("held after a NAK")
	}
	b.refuse = false
	b.settle()
	b.expect(lease.Bound, second, discover, request)
}

func TestAnotherAddressInAnAcknowledgementIsTaken(t *testing.T) {
	b := newBench(t, nil)
	b.start()
	b.give, b.got = second, nil
	b.pass(10 * time.Second)
	b.expect(lease.Bound, second, renew)
}

func TestTimesAreTakenFromEveryAnswer(t *testing.T) {
	b := newBench(t, nil)
	b.start()
	b.seconds, b.got = 80, nil
	b.pass(10 * time.Second)
	b.expect(lease.Bound, first, renew)
	b.pass(39 * time.Second)
	b.expect(lease.Bound, first)
	b.pass(time.Second)
	b.expect(lease.Bound, first, renew)
}

func TestAttemptsEndIfSomebodyWantsThat(t *testing.T) {
	b := newBench(t, func(c *lease.Config) { c.Attempts = 3 })
	b.silent = true
	b.start()
	b.pass(time.Hour)
	b.expect(lease.GivenUp, nobody, discover, discover, discover, discover, discover, discover)
}

func TestALateOfferIsAsGood(t *testing.T) {
	b := newBench(t, nil)
	b.silent = true
	b.start()
	b.pass(5900 * time.Millisecond)
	b.silent, b.got = false, nil
	if b.m.State() != lease.Init {
		t.Fatalf("state %s", b.m.State())
	}
	b.answer(b.last)
	b.settle()
	b.expect(lease.Bound, first, request)
}

func TestIdentity(t *testing.T) {
	b := newBench(t, nil)
	b.start()
	if id := string(b.last.Options.Get(dhcpv4.OptionClientIdentifier)); id != "\x01"+mac || b.last.HostName() != "" || b.last.IsBroadcast() {
		t.Errorf("identity %q, host name %q", id, b.last.HostName())
	}
	b = newBench(t, func(c *lease.Config) { c.Hostname, c.Broadcast = "web.example.com", true })
	b.start()
	if id := string(b.last.Options.Get(dhcpv4.OptionClientIdentifier)); id != "web.example.com" || b.last.HostName() != id || !b.last.IsBroadcast() {
		t.Errorf("identity %q, host name %q, broadcast %t", id, b.last.HostName(), b.last.IsBroadcast())
	}
}

func TestReleaseIsSentOnce(t *testing.T) {
	b := newBench(t, nil)
	b.start()
	b.got = nil
	b.m.Release(b.now)
	b.settle()
	b.expect(lease.GivenUp, nobody, "RELEASE to 198.51.100.1")
	if b.last.ClientIPAddr.String() != first.String() {
		t.Errorf("releases %s", b.last.ClientIPAddr)
	}
	b.m.Release(b.now)
	b.pass(time.Hour)
	b.expect(lease.GivenUp, nobody)
}

func TestADeclinedAddressIsNotTakenAgain(t *testing.T) {
	b := newBench(t, nil)
	b.start()
	b.got = nil
	b.m.Decline(b.now, first)
	b.m.Decline(b.now, first)
	b.settle()
	b.expect(lease.Init, nobody, "DECLINE to all")
	b.pass(9 * time.Second)
	b.expect(lease.Init, nobody)
	b.pass(3 * time.Second)
	if _, held := b.m.Lease(); held {
		t.Error("took the declined address")
	}
	b.give = second
	b.pass(2 * time.Minute)
	if l, _ := b.m.Lease(); l.IP != second {
		t.Errorf("has %s in state %s, want %s", l.IP, b.m.State(), second)
	}
}

func TestResumeGoesOnWithoutAWord(t *testing.T) {
	b := newBench(t, nil)
	b.start()
	l, _ := b.m.Lease()
	again := newBench(t, nil)
	again.m.Resume(b.now+time.Second, l)
	again.now = b.now + time.Second
	again.settle()
	again.expect(lease.Bound, first)
	again.pass(9 * time.Second)
	again.expect(lease.Bound, first, renew)

	late := newBench(t, nil)
	late.now = l.Expire
	late.m.Resume(late.now, l)
	late.settle()
	late.expect(lease.Bound, first, discover, request)
}

func TestALeaseWithoutEndIsNotRenewed(t *testing.T) {
	b := newBench(t, nil)
	b.seconds = 0xffffffff
	b.start()
	b.got = nil
	b.pass(1000 * time.Hour)
	b.expect(lease.Bound, first)
}

func TestAnswersForOthersAreIgnored(t *testing.T) {
	b := newBench(t, nil)
	b.silent = true
	b.start()
	for name, change := range map[string]func(*dhcpv4.DHCPv4){
		"another transaction": func(d *dhcpv4.DHCPv4) { d.TransactionID[0]++ },
		"another client":      func(d *dhcpv4.DHCPv4) { d.ClientHWAddr = net.HardwareAddr("\x02\x00\x00\x00\x00\x0a") },
		"a request":           func(d *dhcpv4.DHCPv4) { d.OpCode = dhcpv4.OpcodeBootRequest },
		"no server":           func(d *dhcpv4.DHCPv4) { d.DeleteOption(dhcpv4.OptionServerIdentifier) },
		"no address":          func(d *dhcpv4.DHCPv4) { d.YourIPAddr = net.IPv4zero },
		"a group's address":   func(d *dhcpv4.DHCPv4) { d.YourIPAddr = net.IPv4(224, 0, 0, 1) },
		"no time":             func(d *dhcpv4.DHCPv4) { d.UpdateOption(dhcpv4.OptIPAddressLeaseTime(0)) },
		"an acknowledgement":  func(d *dhcpv4.DHCPv4) { d.UpdateOption(dhcpv4.OptMessageType(dhcpv4.MessageTypeAck)) },
	} {
		r := b.reply(b.last, dhcpv4.MessageTypeOffer)
		change(r)
		b.m.Receive(b.now, r.ToBytes(), "")
		if b.m.State() != lease.Selecting {
			t.Errorf("%s: state %s", name, b.m.State())
		}
	}
}
