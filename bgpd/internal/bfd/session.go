package bfd

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// Session is one peer's.
type Session struct {
	machine *Machine
	in      chan Packet
	send    func([]byte)
	notify  func()
	state   atomic.Uint32
	// lost gets why the session went down after it was up, once.
	lost chan Diag
}

// newSession returns a session that gives packets to send, which must not
// block, and calls notify when its state changed.
func newSession(c Config, discriminator uint32, send func([]byte), notify func()) *Session {
	s := &Session{
		machine: NewMachine(c, discriminator), in: make(chan Packet, 16), send: send, notify: notify, lost: make(chan Diag, 1),
	}
	s.state.Store(uint32(Down))
	return s
}

// State returns how the session stands.
func (s *Session) State() State { return State(s.state.Load()) }

// Lost gets why the peer cannot be reached any more, once. A peer that ends
// the session on purpose is not lost.
func (s *Session) Lost() <-chan Diag { return s.lost }

// deliver gives the session a packet; one too many is dropped, as on a wire.
func (s *Session) deliver(p Packet) {
	select {
	case s.in <- p:
	default:
	}
}

// Run sends and listens until ctx ends. Nothing is sent for the first second:
// the peer may still take an earlier process's session for up, and shall find
// out by itself that it is not, since being told so would close the connection
// that has just come up.
func (s *Session) Run(ctx context.Context) {
	m := s.machine
	tx, detect := time.NewTimer(slow), time.NewTimer(time.Hour)
	defer tx.Stop()
	defer detect.Stop()
	for {
		before, interval := m.State, m.Interval()
		select {
		case <-ctx.Done():
			m.Disable()
			s.transmit(false)
			s.state.Store(uint32(AdminDown))
			return
		case p := <-s.in:
			if m.Receive(p) {
				s.transmit(true)
			}
			if d := m.Detection(); d > 0 {
				detect.Reset(d)
			}
		case <-detect.C:
			m.Expire()
		case <-tx.C:
			s.transmit(false)
			tx.Reset(spread(m))
		}
		s.moved(before, interval, tx)
	}
}

// moved makes a change known, to the peer at once.
func (s *Session) moved(before State, interval time.Duration, tx *time.Timer) {
	m := s.machine
	if m.State != before {
		s.state.Store(uint32(m.State))
		s.notify()
		s.transmit(false)
		if before == Up && !m.RemoteDisabled() {
			select {
			case s.lost <- m.Diag:
			default:
			}
		}
	}
	if m.State != before || m.Interval() != interval {
		tx.Reset(spread(m))
	}
}

func (s *Session) transmit(final bool) {
	p := s.machine.Packet(final)
	s.send(p.Append(nil))
}

// spread takes up to a quarter off the time between two packets, so that many
// sessions do not send in step; RFC 5880 section 6.8.7.
func spread(m *Machine) time.Duration {
	full := m.Interval()
	if full == 0 {
		return time.Hour // a packet of the peer may change it
	}
	low := full * 3 / 4
	high := full
	if m.Multiplier == 1 {
		high = full * 9 / 10
	}
	return low + rand.N(high-low+1)
}
