// Package dhcp4 is a DHCP client (RFC 2131) as a pure machine: it is told the
// time and what arrives, and says what to send and when to be asked again. It
// has no socket and no clock.
package dhcp4

import (
	"net/netip"
	"slices"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"github.com/vipod/vipod/linkd/internal/lease"
)

// Machine is one client on one link. It is not safe for concurrent use.
type Machine struct {
	lease.Config
	state lease.State
	lease lease.Lease // valid while held
	held  bool
	// wanted is what is asked for first: the last lease, or what the
	// configuration says.
	wanted netip.Addr
	// offered is the server's offer that was taken.
	offered lease.Lease
	xid     dhcpv4.TransactionID
	// begun is when the transaction began, for the field "secs".
	begun    time.Duration
	deadline time.Duration
	sent     int // messages of this state
	failures int // acquisitions in a row
	declined []netip.Addr
	out      []lease.Packet
	counts   lease.Counts
}

// never is a time that does not come.
const never = time.Duration(1<<63 - 1)

// requests is how often a server that has offered is asked, and rebootings how
// often a remembered address is asked for.
const (
	requests   = 4
	rebootings = 3
	// searches is how often servers are looked for before that counts as a
	// failure. They have 6 s to answer, since some probe an address for 3 s.
	searches = 2
)

// New returns a client that has not started.
func New(c lease.Config) *Machine {
	return &Machine{Config: c, state: lease.Init, wanted: c.Requested, deadline: never}
}

// Start begins: with the address that was had before, if there is one.
func (m *Machine) Start(now time.Duration) {
	if m.wanted.Is4() {
		m.begin(now, lease.Rebooting)
		return
	}
	m.begin(now, lease.Selecting)
}

// Resume goes on with a lease that an earlier process had, without a word to
// the server.
func (m *Machine) Resume(now time.Duration, l lease.Lease) {
	if now >= l.Expire {
		m.Start(now)
		return
	}
	m.hold(l)
	m.Tick(now)
}

// Lease returns the lease that is held.
func (m *Machine) Lease() (lease.Lease, bool) { return m.lease, m.held }

// State returns where the client is.
func (m *Machine) State() lease.State { return m.state }

// Counts returns how often things happened.
func (m *Machine) Counts() lease.Counts { return m.counts }

// Deadline returns when Tick must be called at the latest.
func (m *Machine) Deadline() time.Duration { return m.deadline }

// Take returns what is to be sent since the last call.
func (m *Machine) Take() []lease.Packet {
	out := m.out
	m.out = nil
	return out
}

// begin enters a state with a transaction of its own.
func (m *Machine) begin(now time.Duration, s lease.State) {
	m.state, m.sent, m.begun = s, 0, now
	n := m.Rand()
	m.xid = dhcpv4.TransactionID{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}
	m.send(now)
}

// Tick lets time pass.
func (m *Machine) Tick(now time.Duration) {
	if m.held && now >= m.lease.Expire {
		m.counts.Expired++
		m.lose()
		m.begin(now, lease.Selecting)
		return
	}
	if now < m.deadline {
		return
	}
	switch m.state {
	case lease.Init:
		m.begin(now, lease.Selecting)
	case lease.Bound:
		m.begin(now, lease.Renewing)
	case lease.Renewing:
		if now >= m.lease.Rebind {
			m.begin(now, lease.Rebinding)
			return
		}
		m.send(now)
	case lease.Rebinding:
		m.send(now)
	case lease.Rebooting:
		if m.sent >= rebootings {
			m.begin(now, lease.Selecting)
			return
		}
		m.send(now)
	case lease.Requesting:
		if m.sent >= requests {
			m.fail(now)
			return
		}
		m.send(now)
	case lease.Selecting:
		if m.sent >= searches {
			m.fail(now)
			return
		}
		m.send(now)
	case lease.GivenUp:
		m.deadline = never
	}
}

// fail ends an acquisition that came to nothing.
func (m *Machine) fail(now time.Duration) {
	m.failures++
	m.counts.Failed++
	if m.Attempts > 0 && m.failures >= m.Attempts {
		m.state, m.deadline = lease.GivenUp, never
		return
	}
	m.state, m.deadline = lease.Init, now+m.Backoff(m.failures)
}

// lose forgets the lease but for its address, which is asked for again.
func (m *Machine) lose() {
	if m.held {
		m.wanted = m.lease.IP
	}
	m.lease, m.held = lease.Lease{}, false
}

// hold enters Bound.
func (m *Machine) hold(l lease.Lease) {
	m.lease, m.held, m.wanted = l, true, l.IP
	m.state, m.deadline, m.failures, m.sent = lease.Bound, l.Renew, 0, 0
}

// Receive takes the payload of a datagram that came from the hardware address.
func (m *Machine) Receive(now time.Duration, payload []byte, from string) {
	msg, err := dhcpv4.FromBytes(payload)
	if err != nil {
		m.counts.Malformed++
		return
	}
	if msg.OpCode != dhcpv4.OpcodeBootReply || msg.TransactionID != m.xid || string(msg.ClientHWAddr) != m.MAC {
		return
	}
	switch msg.MessageType() {
	case dhcpv4.MessageTypeOffer:
		m.offer(now, msg, from)
	case dhcpv4.MessageTypeAck:
		m.acknowledged(now, msg, from)
	case dhcpv4.MessageTypeNak:
		m.refused(now, msg)
	}
}

// offer takes the first good offer.
func (m *Machine) offer(now time.Duration, msg *dhcpv4.DHCPv4, from string) {
	l, ok := read(msg, now, from)
	// One that comes late is as good.
	if m.state != lease.Selecting && m.state != lease.Init || !ok || slices.Contains(m.declined, l.IP) {
		return
	}
	m.offered = l
	m.state, m.sent, m.begun = lease.Requesting, 0, now
	m.send(now)
}

// acknowledged takes a lease, or its prolongation, also when it is for another
// address than before.
func (m *Machine) acknowledged(now time.Duration, msg *dhcpv4.DHCPv4, from string) {
	l, ok := read(msg, m.asked(now), from)
	if !ok || now >= l.Expire || slices.Contains(m.declined, l.IP) {
		return
	}
	switch m.state {
	case lease.Requesting, lease.Rebooting:
	case lease.Renewing:
		m.counts.Renewed++
	case lease.Rebinding:
		m.counts.Rebound++
	default:
		return
	}
	m.hold(l)
}

// asked is since when a lease counts: from when it was asked for (RFC 2131,
// 4.4.1), or from now where the last message is not known to be the one that
// was answered.
func (m *Machine) asked(now time.Duration) time.Duration {
	if m.sent == 1 {
		return min(m.begun, now)
	}
	return now
}

// refused takes a NAK: the address is gone at once.
func (m *Machine) refused(now time.Duration, msg *dhcpv4.DHCPv4) {
	switch m.state {
	case lease.Requesting:
		if server, ok := netip.AddrFromSlice(msg.ServerIdentifier().To4()); !ok || server.String() != m.offered.Server {
			return
		}
	case lease.Rebooting, lease.Renewing, lease.Rebinding:
	default:
		return
	}
	m.counts.Refused++
	again := m.state == lease.Requesting // it would go on in a circle
	m.lose()
	m.wanted = netip.Addr{}
	if again {
		m.fail(now)
		return
	}
	m.begin(now, lease.Selecting)
}

// Release gives the lease back; the client has ended then.
func (m *Machine) Release(time.Duration) {
	if m.held {
		m.out = append(m.out, m.release())
		m.counts.Sent++
	}
	m.held, m.state, m.deadline = false, lease.GivenUp, never
}

// Decline tells the server that another host has an address, and asks for
// another one.
func (m *Machine) Decline(now time.Duration, ip netip.Addr) {
	if slices.Contains(m.declined, ip) {
		return
	}
	m.declined = append(m.declined, ip)
	if m.wanted == ip {
		m.wanted = netip.Addr{}
	}
	if !m.held || m.lease.IP != ip {
		return
	}
	m.out = append(m.out, m.decline())
	m.counts.Sent++
	m.held, m.lease, m.wanted = false, lease.Lease{}, netip.Addr{}
	m.state, m.deadline = lease.Init, now+lease.Declined
}
