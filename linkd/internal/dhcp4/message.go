package dhcp4

import (
	"net"
	"net/netip"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/iana"

	"github.com/vipod/vipod/linkd/internal/lease"
)

// send sends the message of the state and sets when to send it again.
func (m *Machine) send(now time.Duration) {
	m.sent++
	m.counts.Sent++
	var msg *dhcpv4.DHCPv4
	var from, to netip.Addr
	toMAC := ""
	wait := m.Spread(lease.FirstRetry << (m.sent - 1))
	switch m.state {
	case lease.Selecting:
		msg = m.message(now, dhcpv4.MessageTypeDiscover)
		if m.wanted.Is4() {
			msg.UpdateOption(dhcpv4.OptRequestedIPAddress(m.wanted.AsSlice()))
		}
		wait = m.Spread(lease.FirstSearch << (m.sent - 1))
	case lease.Requesting:
		msg = m.message(now, dhcpv4.MessageTypeRequest)
		msg.UpdateOption(dhcpv4.OptRequestedIPAddress(m.offered.IP.AsSlice()))
		msg.UpdateOption(dhcpv4.OptServerIdentifier(netip.MustParseAddr(m.offered.Server).AsSlice()))
	case lease.Rebooting:
		msg = m.message(now, dhcpv4.MessageTypeRequest)
		msg.UpdateOption(dhcpv4.OptRequestedIPAddress(m.wanted.AsSlice()))
	case lease.Renewing:
		msg = m.message(now, dhcpv4.MessageTypeRequest)
		from, to, toMAC = m.lease.IP, server(m.lease), m.lease.ServerMAC
		wait = min(lease.Prolong(now, m.lease.Rebind), max(m.lease.Rebind-now, 0))
	case lease.Rebinding:
		msg = m.message(now, dhcpv4.MessageTypeRequest)
		from = m.lease.IP
		wait = min(lease.Prolong(now, m.lease.Expire), max(m.lease.Expire-now, 0))
	default:
		return
	}
	if from.IsValid() {
		msg.ClientIPAddr = from.AsSlice()
		msg.SetUnicast()
	}
	m.out = append(m.out, lease.Packet{Payload: msg.ToBytes(), From: from, To: to, ToMAC: toMAC})
	m.deadline = now + wait
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
func (m *Machine) message(now time.Duration, kind dhcpv4.MessageType) *dhcpv4.DHCPv4 {
	msg := &dhcpv4.DHCPv4{
		OpCode: dhcpv4.OpcodeBootRequest, HWType: iana.HWTypeEthernet, TransactionID: m.xid,
		ClientHWAddr: net.HardwareAddr(m.MAC), NumSeconds: uint16(min((now-m.begun)/time.Second, 0xffff)),
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
func (m *Machine) identity() []byte {
	if m.Hostname != "" {
		return []byte(m.Hostname)
	}
	return append([]byte{byte(iana.HWTypeEthernet)}, m.MAC...)
}

func (m *Machine) release() lease.Packet {
	msg := m.message(m.begun, dhcpv4.MessageTypeRelease)
	msg.ClientIPAddr = m.lease.IP.AsSlice()
	to := server(m.lease)
	if to.IsValid() {
		msg.UpdateOption(dhcpv4.OptServerIdentifier(to.AsSlice()))
	}
	return lease.Packet{Payload: msg.ToBytes(), From: m.lease.IP, To: to, ToMAC: m.lease.ServerMAC}
}

func (m *Machine) decline() lease.Packet {
	msg := m.message(m.begun, dhcpv4.MessageTypeDecline)
	msg.UpdateOption(dhcpv4.OptRequestedIPAddress(m.lease.IP.AsSlice()))
	if to := server(m.lease); to.IsValid() {
		msg.UpdateOption(dhcpv4.OptServerIdentifier(to.AsSlice()))
	}
	return lease.Packet{Payload: msg.ToBytes()}
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
		l.Renew, l.Rebind, l.Expire = never, never, never
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
