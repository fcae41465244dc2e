package bfd

import "time"

// slow is the least time between packets while a session is not up, RFC 5880
// section 6.8.3.
const slow = time.Second

// Config is what a session is made with.
type Config struct {
	// TX is the time between packets that this side wants to send, RX the
	// least that it can take.
	TX, RX time.Duration
	// Multiplier is how many packets may be lost in a row.
	Multiplier uint8
}

// Machine is the state of one session, RFC 5880 section 6.8.1.
type Machine struct {
	Config
	State State
	Diag  Diag

	mine, theirs uint32
	polling      bool // our times changed, and the peer has not confirmed it
	heard        bool
	// What the peer said last.
	remote       State
	remoteDemand bool
	remoteMult   uint8
	remoteTX     time.Duration
	remoteRX     time.Duration
}

// NewMachine returns one that is down, with this side's discriminator, which
// is not 0.
func NewMachine(c Config, discriminator uint32) *Machine {
	return &Machine{Config: c, State: Down, mine: discriminator, remote: Down, remoteRX: time.Microsecond}
}

// Receive takes in a packet of the peer; answer says that one is to be sent at
// once in reply to a poll. RFC 5880 section 6.8.6.
func (m *Machine) Receive(p Packet) (answer bool) {
	if p.Yours != 0 && p.Yours != m.mine {
		return false // of a session that this process does not have
	}
	m.heard = true
	m.theirs, m.remote, m.remoteDemand = p.Mine, p.State, p.Demand
	m.remoteMult, m.remoteTX, m.remoteRX = p.Multiplier, p.TX, p.RX
	if p.Final {
		m.polling = false
	}
	m.follow(p.State)
	return p.Poll
}

// follow goes where the peer's state leads, RFC 5880 section 6.2.
func (m *Machine) follow(remote State) {
	switch {
	case m.State == AdminDown:
	case remote == AdminDown, m.State == Up && remote == Down:
		if m.State != Down {
			m.enter(Down, DiagSignaled)
		}
	case m.State == Down && remote == Down:
		m.enter(Init, m.Diag)
	case m.State == Down && remote == Init, m.State == Init && (remote == Init || remote == Up):
		m.enter(Up, DiagNone)
	}
}

// enter goes into a state. The times that are announced depend on whether it
// is Up, and are confirmed by a poll.
func (m *Machine) enter(s State, d Diag) {
	m.polling = s == Up
	m.State, m.Diag = s, d
}

// Expire takes in that nothing was heard for the detection time.
func (m *Machine) Expire() {
	if m.State == Init || m.State == Up {
		m.enter(Down, DiagExpired)
	}
	m.theirs, m.heard, m.remote = 0, false, Down
	m.remoteDemand, m.remoteRX = false, time.Microsecond
}

// Disable ends the session in a way that the peer does not take for a loss.
func (m *Machine) Disable() { m.enter(AdminDown, DiagAdminDown) }

// RemoteDisabled says that the peer ended the session on purpose, which is no
// reason to close anything (RFC 5882 section 3.2).
func (m *Machine) RemoteDisabled() bool { return m.remote == AdminDown }

// wanted is the time between packets that this side announces.
func (m *Machine) wanted() time.Duration {
	if m.State != Up {
		return max(m.TX, slow)
	}
	return m.TX
}

// Packet returns what to send now.
func (m *Machine) Packet(final bool) Packet {
	return Packet{
		State: m.State, Diag: m.Diag, Poll: m.polling && !final, Final: final, Multiplier: m.Multiplier,
		Mine: m.mine, Yours: m.theirs, TX: m.wanted(), RX: m.RX,
	}
}

// Interval is the time between two packets to send, before it is spread; 0 is
// for not at all. RFC 5880 section 6.8.7.
func (m *Machine) Interval() time.Duration {
	quiet := m.remoteDemand && m.State == Up && m.remote == Up && !m.polling
	if m.remoteRX == 0 || quiet {
		return 0
	}
	return max(m.wanted(), m.remoteRX)
}

// Detection is the time after which a silent peer is lost; 0 before anything
// was heard. RFC 5880 section 6.8.4.
func (m *Machine) Detection() time.Duration {
	if !m.heard {
		return 0
	}
	return time.Duration(m.remoteMult) * max(m.RX, m.remoteTX)
}
