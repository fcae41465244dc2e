package dhcp6

import (
	"encoding/hex"
	"net/netip"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv6"
	"github.com/insomniacslk/dhcp/iana"
	"github.com/insomniacslk/dhcp/rfc1035label"

	"github.com/vipod/vipod/linkd/internal/lease"
)

// iaid names the client's only identity association.
var iaid = [4]byte{0, 0, 0, 1}

// send sends the message of the state and sets when to send it again.
func (m *Machine) send(now time.Duration) {
	m.sent++
	m.counts.Sent++
	var msg *dhcpv6.Message
	wait := m.Spread(lease.FirstRetry << (m.sent - 1))
	switch m.state {
	case lease.Selecting:
		msg = m.message(now, dhcpv6.MessageTypeSolicit)
		m.address(msg, m.wanted)
		msg.AddOption(&dhcpv6.OptionGeneric{OptionCode: dhcpv6.OptionRapidCommit})
		wait = m.Spread(lease.FirstSearch << (m.sent - 1))
	case lease.Requesting:
		msg = m.message(now, dhcpv6.MessageTypeRequest)
		m.address(msg, m.offered.IP)
		m.serverID(msg, m.offered)
	case lease.Renewing:
		msg = m.message(now, dhcpv6.MessageTypeRenew)
		m.address(msg, m.lease.IP)
		m.serverID(msg, m.lease)
		wait = min(lease.Prolong(now, m.lease.Rebind), max(m.lease.Rebind-now, 0))
	case lease.Rebinding:
		msg = m.message(now, dhcpv6.MessageTypeRebind)
		m.address(msg, m.lease.IP)
		wait = min(lease.Prolong(now, m.lease.Expire), max(m.lease.Expire-now, 0))
	default:
		return
	}
	m.out = append(m.out, lease.Packet{Payload: msg.ToBytes()})
	m.deadline = now + wait
}

// message returns a message of the client with what all of them have.
func (m *Machine) message(now time.Duration, kind dhcpv6.MessageType) *dhcpv6.Message {
	msg := &dhcpv6.Message{MessageType: kind, TransactionID: m.xid}
	msg.AddOption(dhcpv6.OptClientID(m.duid()))
	msg.AddOption(dhcpv6.OptElapsedTime(min(now-m.begun, 655*time.Second)))
	if kind == dhcpv6.MessageTypeRelease || kind == dhcpv6.MessageTypeDecline {
		return msg
	}
	if m.Hostname != "" {
		// The S bit asks the server to enter the name into DNS (RFC 4704, 4.1).
		msg.AddOption(&dhcpv6.OptFQDN{Flags: 1, DomainName: &rfc1035label.Labels{Labels: []string{m.Hostname}}})
	}
	return msg
}

func (m *Machine) address(msg *dhcpv6.Message, ip netip.Addr) {
	ia := &dhcpv6.OptIANA{IaId: iaid}
	if ip.Is6() {
		ia.Options.Add(&dhcpv6.OptIAAddress{IPv6Addr: ip.AsSlice()})
	}
	msg.AddOption(ia)
}

func (m *Machine) serverID(msg *dhcpv6.Message, l lease.Lease) {
	raw, err := hex.DecodeString(l.Server)
	if err != nil {
		return // the server answers nothing then, and everybody is asked later
	}
	if duid, err := dhcpv6.DUIDFromBytes(raw); err == nil {
		msg.AddOption(dhcpv6.OptServerID(duid))
	}
}

// refuses says whether an answer takes away the address that it is about.
func refuses(msg *dhcpv6.Message) bool {
	ia := msg.Options.OneIANA()
	if ia == nil {
		return false
	}
	if s := ia.Options.Status(); s != nil && s.StatusCode != iana.StatusSuccess {
		return true
	}
	a := ia.Options.OneAddress()
	return a != nil && a.ValidLifetime == 0
}

// infinite is the lifetime that stands for one without end (RFC 8415, 7.7).
const infinite = 0xffffffff * time.Second

// read reads an advertisement or a reply to what was asked for at a time.
func read(msg *dhcpv6.Message, asked time.Duration, from string) (lease.Lease, bool) {
	if s := msg.Options.Status(); s != nil && s.StatusCode != iana.StatusSuccess {
		return lease.Lease{}, false
	}
	ia := msg.Options.OneIANA()
	if ia == nil || ia.IaId != iaid {
		return lease.Lease{}, false
	}
	if s := ia.Options.Status(); s != nil && s.StatusCode != iana.StatusSuccess {
		return lease.Lease{}, false
	}
	a := ia.Options.OneAddress()
	if a == nil {
		return lease.Lease{}, false
	}
	ip, ok := netip.AddrFromSlice(a.IPv6Addr.To16())
	if !ok || ip.Is4In6() || !ip.IsGlobalUnicast() {
		return lease.Lease{}, false
	}
	if s := a.Options.Status(); s != nil && s.StatusCode != iana.StatusSuccess {
		return lease.Lease{}, false
	}
	valid := a.ValidLifetime
	if valid < time.Second {
		return lease.Lease{}, false
	}
	l := lease.Lease{IP: ip, Bits: 128, Server: serverName(msg.Options.ServerID()), ServerMAC: from}
	if valid >= infinite {
		l.Renew, l.Rebind, l.Expire = never, never, never
		return l, true
	}
	// RFC 8415, 21.4: 0 leaves it to the client, which takes half and 0.8 of
	// the preferred lifetime.
	preferred := min(a.PreferredLifetime, valid)
	if preferred < time.Second {
		preferred = valid
	}
	t1, t2 := ia.T1, ia.T2
	if t1 <= 0 || t2 <= 0 || t1 >= t2 || t2 >= valid {
		t1, t2 = preferred/2, preferred*4/5
	}
	l.Renew, l.Rebind, l.Expire = asked+t1, asked+t2, asked+valid
	return l, true
}
