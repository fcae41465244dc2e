// Package linktest is a network segment in memory, for tests that need no
// kernel.
package linktest

import (
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vipod/vipod/arpd/internal/frame"
	"github.com/vipod/vipod/arpd/internal/link"
	"github.com/vipod/vipod/arpd/internal/plan"
)

// Segment is a link.Network that keeps what is sent.
type Segment struct {
	mu    sync.Mutex
	ports map[plan.Port]*port
	sent  []Sent
	fail  error
	open  int
}

// Sent is a frame that was sent, and when.
type Sent struct {
	frame.Frame
	Link int
	At   time.Time
}

// New returns an empty segment.
func New() *Segment { return &Segment{ports: map[plan.Port]*port{}} }

type port struct {
	segment *Segment
	at      plan.Port
	hw      frame.Hardware
	heard   func(frame.Claim)
	counts  link.Counts
}

// Open implements link.Network.
func (s *Segment) Open(at plan.Port, hw frame.Hardware, heard func(frame.Claim)) (link.Port, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := &port{segment: s, at: at, hw: hw, heard: heard}
	s.ports[at] = p
	s.open++
	return p, nil
}

// Send implements link.Port.
func (p *port) Send(f frame.Frame) error {
	p.segment.mu.Lock()
	defer p.segment.mu.Unlock()
	if p.segment.ports[p.at] != p {
		return unix.ENODEV
	}
	if p.segment.fail != nil {
		return p.segment.fail
	}
	p.segment.sent = append(p.segment.sent, Sent{Frame: f, Link: p.at.Link, At: time.Now()})
	return nil
}

// Counts implements link.Port.
func (p *port) Counts() link.Counts {
	p.segment.mu.Lock()
	defer p.segment.mu.Unlock()
	return p.counts
}

// Close implements link.Port.
func (p *port) Close() error {
	p.segment.mu.Lock()
	defer p.segment.mu.Unlock()
	if p.segment.ports[p.at] == p {
		delete(p.segment.ports, p.at)
	}
	return nil
}

// Inject lets a host of the segment send a frame.
func (s *Segment) Inject(at plan.Port, from frame.MAC, payload []byte) {
	s.mu.Lock()
	p := s.ports[at]
	s.mu.Unlock()
	if p == nil {
		return
	}
	claim, err := frame.Decode(at.Protocol, p.hw, from, payload)
	s.mu.Lock()
	p.counts.Received++
	if err != nil {
		p.counts.Malformed++
	}
	s.mu.Unlock()
	if err == nil {
		p.heard(claim)
	}
}

// Fail makes every Send fail with err until it is nil.
func (s *Segment) Fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = err
}

// Sent returns the frames so far.
func (s *Segment) Sent() []Sent {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Sent(nil), s.sent...)
}

// Opened returns how many ports were opened so far.
func (s *Segment) Opened() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open
}
