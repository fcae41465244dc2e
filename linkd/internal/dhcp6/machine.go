// Package dhcp6 is a DHCPv6 client for one address (RFC 8415) as a pure
// machine: it is told the time and what arrives, and says what to send and when
// to be asked again. It has no socket and no clock.
package dhcp6

import (
	"encoding/hex"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv6"
	"github.com/insomniacslk/dhcp/iana"

	"github.com/vipod/vipod/linkd/internal/lease"
)

// Machine is one client on one link. It is not safe for concurrent use.
type Machine struct {
	lease.Config
	state    lease.State
	lease    lease.Lease
	held     bool
	wanted   netip.Addr
	offered  lease.Lease
	xid      dhcpv6.TransactionID
	begun    time.Duration
	deadline time.Duration
	sent     int
	failures int
	declined []netip.Addr
	out      []lease.Packet
	counts   lease.Counts
}

// never is a time that does not come.
const never = time.Duration(1<<63 - 1)

// requests is how often a server that has advertised is asked (RFC 8415,
// REQ_MAX_RC is 10; another server may be better off).
const requests = 5

// searches is how often servers are looked for before that counts as a failure.
const searches = 2

// New returns a client that has not started.
func New(c lease.Config) *Machine {
	return &Machine{Config: c, state: lease.Init, wanted: c.Requested, deadline: never}
}

// Start begins. An address that was had before is named in the solicitation:
// the server knows the client by its DUID and gives it back.
func (m *Machine) Start(now time.Duration) { m.begin(now, lease.Selecting) }

// Resume goes on with a lease that an earlier process had.
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

func (m *Machine) begin(now time.Duration, s lease.State) {
	m.state, m.sent, m.begun = s, 0, now
	m.renew()
	m.send(now)
}

// renew names a new transaction.
func (m *Machine) renew() {
	n := m.Rand()
	m.xid = dhcpv6.TransactionID{byte(n >> 16), byte(n >> 8), byte(n)}
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
	default:
		m.deadline = never
	}
}

func (m *Machine) fail(now time.Duration) {
	m.failures++
	m.counts.Failed++
	if m.Attempts > 0 && m.failures >= m.Attempts {
		m.state, m.deadline = lease.GivenUp, never
		return
	}
	m.state, m.deadline = lease.Init, now+m.Backoff(m.failures)
}

func (m *Machine) lose() {
	if m.held {
		m.wanted = m.lease.IP
	}
	m.lease, m.held = lease.Lease{}, false
}

func (m *Machine) hold(l lease.Lease) {
	m.lease, m.held, m.wanted = l, true, l.IP
	m.state, m.deadline, m.failures, m.sent = lease.Bound, l.Renew, 0, 0
}

// Receive takes the payload of a datagram that came from the hardware address.
func (m *Machine) Receive(now time.Duration, payload []byte, from string) {
	msg, err := dhcpv6.MessageFromBytes(payload)
	if err != nil {
		m.counts.Malformed++
		return
	}
	client := msg.Options.ClientID()
	if msg.TransactionID != m.xid || client == nil || !client.Equal(m.duid()) || msg.Options.ServerID() == nil {
		return
	}
	switch msg.MessageType {
	case dhcpv6.MessageTypeAdvertise:
		m.advertised(now, msg, from)
	case dhcpv6.MessageTypeReply:
		m.replied(now, msg, from)
	}
}

// advertised takes the first good advertisement.
func (m *Machine) advertised(now time.Duration, msg *dhcpv6.Message, from string) {
	l, ok := read(msg, now, from)
	// One that comes late is as good.
	if m.state != lease.Selecting && m.state != lease.Init || !ok || slices.Contains(m.declined, l.IP) {
		return
	}
	m.offered = l
	m.state, m.sent, m.begun = lease.Requesting, 0, now
	m.renew()
	m.send(now)
}

func (m *Machine) replied(now time.Duration, msg *dhcpv6.Message, from string) {
	switch m.state {
	case lease.Selecting: // of a server with rapid commit
		if msg.GetOneOption(dhcpv6.OptionRapidCommit) == nil {
			return
		}
	case lease.Requesting, lease.Renewing, lease.Rebinding:
	default:
		return
	}
	asked := now
	if m.sent == 1 {
		asked = min(m.begun, now)
	}
	l, ok := read(msg, asked, from)
	switch {
	case ok && now < l.Expire && !slices.Contains(m.declined, l.IP):
		m.count()
		m.hold(l)
	case m.state == lease.Requesting || refuses(msg):
		m.refused(now)
	}
}

func (m *Machine) count() {
	switch m.state {
	case lease.Renewing:
		m.counts.Renewed++
	case lease.Rebinding:
		m.counts.Rebound++
	}
}

// refused takes an answer that gives no address, or takes the one that is held:
// it is gone at once.
func (m *Machine) refused(now time.Duration) {
	m.counts.Refused++
	again := m.state == lease.Requesting
	m.lose()
	m.wanted = netip.Addr{}
	if again {
		m.fail(now)
		return
	}
	m.begin(now, lease.Selecting)
}

// Release gives the lease back; the client has ended then.
func (m *Machine) Release(now time.Duration) {
	if m.held {
		m.farewell(now, dhcpv6.MessageTypeRelease)
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
	m.farewell(now, dhcpv6.MessageTypeDecline)
	m.held, m.lease, m.wanted = false, lease.Lease{}, netip.Addr{}
	m.state, m.deadline = lease.Init, now+lease.Declined
}

func (m *Machine) farewell(now time.Duration, kind dhcpv6.MessageType) {
	m.renew()
	m.begun = now
	msg := m.message(now, kind)
	m.address(msg, m.lease.IP)
	m.serverID(msg, m.lease)
	m.out = append(m.out, lease.Packet{Payload: msg.ToBytes()})
	m.counts.Sent++
}

// duid follows from the hardware address (RFC 8415, 11.4), which is the same
// on every node.
func (m *Machine) duid() dhcpv6.DUID {
	return &dhcpv6.DUIDLL{HWType: iana.HWTypeEthernet, LinkLayerAddr: net.HardwareAddr(m.MAC)}
}

func serverName(d dhcpv6.DUID) string { return hex.EncodeToString(d.ToBytes()) }
