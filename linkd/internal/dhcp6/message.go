// Package dhcp6 are the messages of a DHCPv6 client for one address (RFC 8415).
// When which of them is sent is package lease's.
package dhcp6

import (
	"encoding/hex"
	"net"
	"net/netip"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv6"
	"github.com/insomniacslk/dhcp/iana"
	"github.com/insomniacslk/dhcp/rfc1035label"

	"github.com/vipod/vipod/linkd/internal/lease"
)

// iaid names the client's only identity association.
var iaid = [4]byte{0, 0, 0, 1}

// client is the lease.Protocol of one client.
type client struct {
	lease.Config
	xid dhcpv6.TransactionID
}

// New returns a client of DHCPv6 (RFC 8415) for one address that has not
// started.
func New(c lease.Config) *lease.Machine { return lease.NewMachine(c, &client{Config: c}) }

// Begin implements lease.Protocol.
func (m *client) Begin() {
	n := m.Rand()
	m.xid = dhcpv6.TransactionID{byte(n >> 16), byte(n >> 8), byte(n)}
}

// kinds are the messages of the states; in all but Selecting and Rebinding one
// server is spoken to.
var kinds = map[lease.State]dhcpv6.MessageType{
	lease.Selecting: dhcpv6.MessageTypeSolicit, lease.Requesting: dhcpv6.MessageTypeRequest,
	lease.Renewing: dhcpv6.MessageTypeRenew, lease.Rebinding: dhcpv6.MessageTypeRebind,
	lease.Releasing: dhcpv6.MessageTypeRelease, lease.Declining: dhcpv6.MessageTypeDecline,
}

// Message implements lease.Protocol.
func (m *client) Message(s lease.Saying) lease.Packet {
	switch s.State {
	case lease.Requesting:
		if s.First {
			m.Begin() // RFC 8415, 16.1: each exchange has its own
		}
	case lease.Releasing, lease.Declining:
		m.Begin()
	}
	msg := m.message(s.Elapsed, kinds[s.State])
	ia := &dhcpv6.OptIANA{IaId: iaid}
	if s.Lease.IP.Is6() {
		ia.Options.Add(&dhcpv6.OptIAAddress{IPv6Addr: s.Lease.IP.AsSlice()})
	}
	msg.AddOption(ia)
	switch s.State {
	case lease.Selecting:
		msg.AddOption(&dhcpv6.OptionGeneric{OptionCode: dhcpv6.OptionRapidCommit})
	case lease.Rebinding:
	default:
		addServer(msg, s.Lease)
	}
	return lease.Packet{Payload: msg.ToBytes()}
}

// message returns a message of the client with what all of them have.
func (m *client) message(elapsed time.Duration, kind dhcpv6.MessageType) *dhcpv6.Message {
	msg := &dhcpv6.Message{MessageType: kind, TransactionID: m.xid}
	msg.AddOption(dhcpv6.OptClientID(m.duid()))
	msg.AddOption(dhcpv6.OptElapsedTime(min(elapsed, 655*time.Second)))
	if kind == dhcpv6.MessageTypeRelease || kind == dhcpv6.MessageTypeDecline {
		return msg
	}
	if m.Hostname != "" {
		// The S bit asks the server to enter the name into DNS (RFC 4704, 4.1).
		msg.AddOption(&dhcpv6.OptFQDN{Flags: 1, DomainName: &rfc1035label.Labels{Labels: []string{m.Hostname}}})
	}
	return msg
}

func addServer(msg *dhcpv6.Message, l lease.Lease) {
	raw, err := hex.DecodeString(l.Server)
	if err != nil {
		return // the server answers nothing then, and everybody is asked later
	}
	if duid, err := dhcpv6.DUIDFromBytes(raw); err == nil {
		msg.AddOption(dhcpv6.OptServerID(duid))
	}
}

// duid follows from the hardware address (RFC 8415, 11.4), which is the same
// on every node.
func (m *client) duid() dhcpv6.DUID {
	return &dhcpv6.DUIDLL{HWType: iana.HWTypeEthernet, LinkLayerAddr: net.HardwareAddr(m.MAC)}
}

// Read implements lease.Protocol.
func (m *client) Read(payload []byte, asked time.Duration, from string) (a lease.Answer, err error) {
	msg, err := dhcpv6.MessageFromBytes(payload)
	if err != nil {
		return a, err
	}
	id := msg.Options.ClientID()
	if msg.TransactionID != m.xid || id == nil || !id.Equal(m.duid()) || msg.Options.ServerID() == nil {
		return a, nil
	}
	l, ok := read(msg, asked, from)
	switch kind := msg.MessageType; {
	case kind == dhcpv6.MessageTypeAdvertise && ok:
		a = lease.Answer{Kind: lease.Offer, Lease: l}
	case kind != dhcpv6.MessageTypeReply:
	case ok:
		a = lease.Answer{Kind: lease.Grant, Lease: l, Rapid: msg.GetOneOption(dhcpv6.OptionRapidCommit) != nil}
	case refuses(msg):
		a.Kind = lease.Denial
	default:
		a.Kind = lease.Silence
	}
	return a, nil
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
	return ia.Options.OneAddress() != nil && given(ia) == nil
}

// given is the address that an answer gives: in the one that replaces an address
// a server names both, that which it takes back with a lifetime of nothing.
func given(ia *dhcpv6.OptIANA) *dhcpv6.OptIAAddress {
	for _, a := range ia.Options.Addresses() {
		if a.ValidLifetime > 0 {
			return a
		}
	}
	return nil
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
	a := given(ia)
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
	l := lease.Lease{IP: ip, Bits: 128, Server: hex.EncodeToString(msg.Options.ServerID().ToBytes()), ServerMAC: from}
	if valid >= infinite {
		l.Renew, l.Rebind, l.Expire = lease.Never, lease.Never, lease.Never
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
