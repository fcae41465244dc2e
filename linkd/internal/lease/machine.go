package lease

import (
	"net/netip"
	"time"
)

// Protocol is what the clients of the two families do differently: their
// messages.
type Protocol interface {
	// Begin begins a transaction: answers to earlier messages do not count any
	// more.
	Begin()
	// Message returns the message to send in a state.
	Message(Saying) Packet
	// Read reads a datagram that came from the hardware address. The times of a
	// lease count from asked. Kind is Nothing for a datagram that is not about
	// this client's transaction. An error is a datagram that is no message.
	Read(payload []byte, asked time.Duration, from string) (Answer, error)
}

// Saying is what a message is about.
type Saying struct {
	State State
	// Lease is what is asked for, prolonged or given up. In Selecting and
	// Rebooting only its address is known, which may be invalid.
	Lease Lease
	// Elapsed is since when that is being asked for.
	Elapsed time.Duration
	// First says that it is the first message of its state.
	First bool
}

// Kind is what an answer means.
type Kind int

// Kinds of answers.
const (
	Nothing Kind = iota
	// Offer offers a lease.
	Offer
	// Grant gives one.
	Grant
	// Denial takes the address that was asked for, or does not give it.
	Denial
	// Silence is an answer that gives nothing, and takes nothing either.
	Silence
)

// Answer is what a server says.
type Answer struct {
	Kind  Kind
	Lease Lease // of an Offer or Grant
	// Rapid: a Grant that was not preceded by an Offer.
	Rapid bool
	// Server is who denies, "" for whoever was asked.
	Server string
}

// Machine is one client on one link: it is told the time and what arrives, and
// says what to send and when to be asked again. It has no socket and no clock.
// It is not safe for concurrent use.
type Machine struct {
	Config
	protocol Protocol
	state    State
	lease    Lease // valid while held
	held     bool
	// wanted is what is asked for first: the last lease's address, or what the
	// configuration says.
	wanted netip.Addr
	// offered is the server's offer that was taken.
	offered Lease
	// begun is when what is being asked for was asked for first.
	begun    time.Duration
	deadline time.Duration
	sent     int // messages of this state
	failures int // acquisitions in a row
	declined []netip.Addr
	out      []Packet
	counts   Counts
}

// Never is a time that does not come.
const Never = time.Duration(1<<63 - 1)

// limits are how often a message is sent before its state counts as a failure.
// Servers have 6 s to offer something, since some probe an address for 3 s.
var limits = map[State]int{Selecting: 2, Requesting: 4, Rebooting: 3}

// NewMachine returns a client that has not started.
func NewMachine(c Config, p Protocol) *Machine {
	return &Machine{Config: c, protocol: p, state: Init, wanted: c.Requested, deadline: Never}
}

// Start begins. An address of IPv4 that was had before is asked for without
// looking for servers (RFC 2131, 4.3.2); one of IPv6 is named to them.
func (m *Machine) Start(now time.Duration) {
	if m.wanted.Is4() {
		m.begin(now, Rebooting)
		return
	}
	m.begin(now, Selecting)
}

// Resume goes on with a lease that an earlier process had, without a word to
// the server.
func (m *Machine) Resume(now time.Duration, l Lease) {
	if now >= l.Expire {
		m.Start(now)
		return
	}
	m.hold(l)
	m.Tick(now)
}

// Lease returns the lease that is held.
func (m *Machine) Lease() (Lease, bool) { return m.lease, m.held }

// State returns where the client is.
func (m *Machine) State() State { return m.state }

// Counts returns how often things happened.
func (m *Machine) Counts() Counts { return m.counts }

// Deadline returns when Tick must be called at the latest.
func (m *Machine) Deadline() time.Duration { return m.deadline }

// Take returns what is to be sent since the last call.
func (m *Machine) Take() []Packet {
	out := m.out
	m.out = nil
	return out
}

// begin enters a state with a transaction of its own.
func (m *Machine) begin(now time.Duration, s State) {
	m.protocol.Begin()
	m.enter(now, s)
}

func (m *Machine) enter(now time.Duration, s State) {
	m.state, m.sent, m.begun = s, 0, now
	m.send(now)
}

// send sends the message of the state and sets when to send it again.
func (m *Machine) send(now time.Duration) {
	m.sent++
	about, wait := m.lease, m.Spread(FirstRetry<<(m.sent-1))
	switch m.state {
	case Selecting:
		about, wait = Lease{IP: m.wanted}, m.Spread(FirstSearch<<(m.sent-1))
	case Rebooting:
		about = Lease{IP: m.wanted}
	case Requesting:
		about = m.offered
	case Renewing:
		wait = min(Prolong(now, m.lease.Rebind), max(m.lease.Rebind-now, 0))
	case Rebinding:
		wait = min(Prolong(now, m.lease.Expire), max(m.lease.Expire-now, 0))
	}
	m.say(Saying{State: m.state, Lease: about, Elapsed: now - m.begun, First: m.sent == 1})
	m.deadline = now + wait
}

func (m *Machine) say(s Saying) {
	m.out = append(m.out, m.protocol.Message(s))
	m.counts.Sent++
}

// Tick lets time pass.
func (m *Machine) Tick(now time.Duration) {
	if m.held && now >= m.lease.Expire {
		m.counts.Expired++
		m.lose()
		m.begin(now, Selecting)
		return
	}
	if now < m.deadline {
		return
	}
	limit, limited := limits[m.state]
	switch over := limited && m.sent >= limit; {
	case m.state == Init, m.state == Rebooting && over:
		m.begin(now, Selecting)
	case m.state == Bound:
		m.begin(now, Renewing)
	case m.state == Renewing && now >= m.lease.Rebind:
		m.begin(now, Rebinding)
	case m.state == GivenUp:
		m.deadline = Never
	case over:
		m.fail(now)
	default:
		m.send(now)
	}
}

// fail ends an acquisition that came to nothing.
func (m *Machine) fail(now time.Duration) {
	m.failures++
	m.counts.Failed++
	if m.Attempts > 0 && m.failures >= m.Attempts {
		m.state, m.deadline = GivenUp, Never
		return
	}
	m.state, m.deadline = Init, now+m.Backoff(m.failures)
}

// lose forgets the lease but for its address, which is asked for again.
func (m *Machine) lose() {
	if m.held {
		m.wanted = m.lease.IP
	}
	m.lease, m.held = Lease{}, false
}

// hold enters Bound.
func (m *Machine) hold(l Lease) {
	m.lease, m.held, m.wanted = l, true, l.IP
	m.state, m.deadline, m.failures, m.sent = Bound, l.Renew, 0, 0
}
