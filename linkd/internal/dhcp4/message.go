// Package dhcp4 are the messages of a DHCP client (RFC 2131). When which of them
// is sent is package lease's.
package dhcp4

import (
	"net"
	"net/netip"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/iana"

	"github.com/vipod/vipod/linkd/internal/lease"
)

// client is the lease.Protocol of one client.
type client struct {
	lease.Config
	xid dhcpv4.TransactionID
}

// New returns a client of DHCP (RFC 2131) that has not started.
func New(c lease.Config) *lease.Machine { return lease.NewMachine(c, &client{Config: c}) }

// Begin implements lease.Protocol.
func (m *client) Begin() {
	n := m.Rand()
	m.xid = dhcpv4.TransactionID{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}
}

// Message implements lease.Protocol.
func (m *client) Message(s lease.Saying) lease.Packet {
	kind := dhcpv4.MessageTypeRequest
	switch s.State {
	case lease.Selecting:
		kind = dhcpv4.MessageTypeDiscover
	case lease.Releasing:
		kind = dhcpv4.MessageTypeRelease
	case lease.Declining:
		kind = dhcpv4.MessageTypeDecline
	}
	msg, p := m.message(s.Elapsed, kind), lease.Packet{}
	switch to := server(s.Lease); s.State {
	case lease.Requesting, lease.Releasing, lease.Declining:
		if to.IsValid() {
			msg.UpdateOption(dhcpv4.OptServerIdentifier(to.AsSlice()))
		}
	}
	switch s.State {
	case lease.Renewing, lease.Rebinding, lease.Releasing:
		p.From, msg.ClientIPAddr = s.Lease.IP, s.Lease.IP.AsSlice()
		msg.SetUnicast()
		if s.State != lease.Rebinding {
			p.To, p.ToMAC = server(s.Lease), s.Lease.ServerMAC
		}
	default:
		if s.Lease.IP.Is4() {
			msg.UpdateOption(dhcpv4.OptRequestedIPAddress(s.Lease.IP.AsSlice()))
		}
	}
	p.Payload = msg.ToBytes()
	return p
}

// server is the address of the server that lent.
func server(l lease.Lease) netip.Addr {
	ip, err := netip.ParseAddr(l.Server)
	if err != nil {
		return netip.Addr{} // then everybody is asked
	}
	return ip
}

// message returns a message of the client with what all of them have.
func (m *client) message(elapsed time.Duration, kind dhcpv4.MessageType) *dhcpv4.DHCPv4 {
	msg := &dhcpv4.DHCPv4{
		OpCode: dhcpv4.OpcodeBootRequest, HWType: iana.HWTypeEthernet, TransactionID: m.xid,
		ClientHWAddr: net.HardwareAddr(m.MAC), NumSeconds: uint16(min(elapsed/time.Second, 0xffff)),
		ClientIPAddr: net.IPv4zero, YourIPAddr: net.IPv4zero, ServerIPAddr: net.IPv4zero, GatewayIPAddr: net.IPv4zero,
		Options: make(dhcpv4.Options),
	}
	if m.Broadcast {
		msg.SetBroadcast()
	}
	msg.UpdateOption(dhcpv4.OptMessageType(kind))
	msg.UpdateOption(dhcpv4.OptClientIdentifier(m.identity()))
	if kind == dhcpv4.MessageTypeRelease || kind == dhcpv4.MessageTypeDecline {
		return msg
	}
	if m.Hostname != "" {
		msg.UpdateOption(dhcpv4.OptHostName(m.Hostname))
	}
	msg.UpdateOption(dhcpv4.OptMaxMessageSize(1472))
	msg.UpdateOption(dhcpv4.OptParameterRequestList(
		dhcpv4.OptionSubnetMask, dhcpv4.OptionRouter, dhcpv4.OptionServerIdentifier,
		dhcpv4.OptionIPAddressLeaseTime, dhcpv4.OptionRenewTimeValue, dhcpv4.OptionRebindingTimeValue))
	return msg
}

// identity is the client identifier (RFC 2132, 9.14): the host name as
// kube-vip sends it, so that a server goes on knowing the client, or else the
// hardware address.
func (m *client) identity() []byte {
	if m.Hostname != "" {
		return []byte(m.Hostname)
	}
	return append([]byte{byte(iana.HWTypeEthernet)}, m.MAC...)
}

// Read implements lease.Protocol.
func (m *client) Read(payload []byte, asked time.Duration, from string) (a lease.Answer, err error) {
	msg, err := dhcpv4.FromBytes(payload)
	if err != nil {
		return a, err
	}
	if msg.OpCode != dhcpv4.OpcodeBootReply || msg.TransactionID != m.xid || string(msg.ClientHWAddr) != m.MAC {
		return a, nil
	}
	l, ok := read(msg, asked, from)
	switch kind := msg.MessageType(); {
	case kind == dhcpv4.MessageTypeNak:
		a = lease.Answer{Kind: lease.Denial, Server: msg.ServerIdentifier().String()}
	case kind == dhcpv4.MessageTypeOffer && ok:
		a = lease.Answer{Kind: lease.Offer, Lease: l}
	case kind == dhcpv4.MessageTypeAck && ok:
		a = lease.Answer{Kind: lease.Grant, Lease: l}
	}
	return a, nil
}

const (
	// noTime is how long a lease lasts of which the server does not say it.
	noTime = time.Hour
	// infinite is the lease time that stands for one without end (RFC 2131,
	// 3.3).
	infinite = 0xffffffff * time.Second
)

// read reads an offer or an acknowledgement of what was asked for at a time.
func read(msg *dhcpv4.DHCPv4, asked time.Duration, from string) (lease.Lease, bool) {
	ip, ok := netip.AddrFromSlice(msg.YourIPAddr.To4())
	if !ok || !usable(ip) {
		return lease.Lease{}, false
	}
	l := lease.Lease{IP: ip, Bits: 32, ServerMAC: from}
	if server, ok := netip.AddrFromSlice(msg.ServerIdentifier().To4()); ok && usable(server) {
		l.Server = server.String()
	} else {
		return lease.Lease{}, false
	}
	if ones, bits := msg.SubnetMask().Size(); bits == 32 && ones > 0 {
		l.Bits = ones
	}
	length := msg.IPAddressLeaseTime(noTime)
	if length < time.Second {
		return lease.Lease{}, false
	}
	if length >= infinite {
		l.Renew, l.Rebind, l.Expire = lease.Never, lease.Never, lease.Never
		return l, true
	}
	t1, t2 := msg.IPAddressRenewalTime(length/2), msg.IPAddressRebindingTime(length*7/8)
	if t1 <= 0 || t1 >= t2 || t2 >= length {
		t1, t2 = length/2, length*7/8
	}
	l.Renew, l.Rebind, l.Expire = asked+t1, asked+t2, asked+length
	return l, true
}

// usable says whether a host can have the address.
func usable(ip netip.Addr) bool {
	return !ip.IsUnspecified() && !ip.IsMulticast() && !ip.IsLoopback() && ip != netip.AddrFrom4([4]byte{255, 255, 255, 255})
}
