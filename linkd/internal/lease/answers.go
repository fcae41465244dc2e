package lease

import (
	"net/netip"
	"slices"
	"time"
)

// Receive takes the payload of a datagram that came from the hardware address.
func (m *Machine) Receive(now time.Duration, payload []byte, from string) {
	a, err := m.protocol.Read(payload, m.asked(now), from)
	if err != nil {
		m.counts.Malformed++
		return
	}
	switch a.Kind {
	case Offer:
		m.offer(now, a.Lease)
	case Grant:
		m.granted(now, a)
	case Denial, Silence:
		m.denied(now, a)
	}
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

// offer takes the first good offer. One that comes late is as good.
func (m *Machine) offer(now time.Duration, l Lease) {
	if m.state != Selecting && m.state != Init || slices.Contains(m.declined, l.IP) {
		return
	}
	m.offered = l
	m.enter(now, Requesting)
}

// granted takes a lease, or its prolongation, also when it is for another
// address than before.
func (m *Machine) granted(now time.Duration, a Answer) {
	if now >= a.Lease.Expire || slices.Contains(m.declined, a.Lease.IP) {
		m.denied(now, Answer{Kind: Silence})
		return
	}
	switch m.state {
	case Selecting:
		if !a.Rapid {
			return
		}
	case Requesting, Rebooting:
	case Renewing:
		m.counts.Renewed++
	case Rebinding:
		m.counts.Rebound++
	default:
		return
	}
	m.hold(a.Lease)
}

// denied takes an answer that gives no address, or takes the one that is held:
// it is gone at once.
func (m *Machine) denied(now time.Duration, a Answer) {
	switch m.state {
	case Requesting:
		if a.Server != "" && a.Server != m.offered.Server {
			return
		}
	case Rebooting, Renewing, Rebinding:
		if a.Kind == Silence {
			return
		}
	default:
		return
	}
	m.counts.Refused++
	again := m.state == Requesting // it would go on in a circle
	m.lose()
	m.wanted = netip.Addr{}
	if again {
		m.fail(now)
		return
	}
	m.begin(now, Selecting)
}

// Release gives the lease back; the client has ended then.
func (m *Machine) Release(time.Duration) {
	if m.held {
		m.say(Saying{State: Releasing, Lease: m.lease})
	}
	m.held, m.state, m.deadline = false, GivenUp, Never
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
	m.say(Saying{State: Declining, Lease: m.lease})
	m.held, m.lease, m.wanted = false, Lease{}, netip.Addr{}
	m.state, m.deadline = Init, now+Declined
}
