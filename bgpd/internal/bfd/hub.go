package bfd

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
)

// Port is where control packets go, RFC 5881 section 4; sources are firstSource
// and above.
const (
	Port        = 3784
	firstSource = 49152
)

// Path is between which addresses a session runs. An IPv6 link-local Peer has
// its zone.
type Path struct {
	Local, Peer netip.Addr
	// Interface, if set, is the only one to send by.
	Interface string
}

// Hub has the sockets of all sessions. The zero value is not usable.
type Hub struct {
	log *slog.Logger

	mu       sync.Mutex
	sessions map[uint32]*entry
	ears     map[bool]*ear // by whether it is IPv6's
}

type entry struct {
	*Session
	peer netip.Addr
}

// NewHub returns a hub that does not listen yet.
func NewHub(log *slog.Logger) *Hub {
	return &Hub{log: log, sessions: map[uint32]*entry{}, ears: map[bool]*ear{}}
}

// Open makes a session, which the caller runs and then leaves. notify is
// called, and must not block, when its state changed.
func (h *Hub) Open(c Config, path Path, notify func()) (s *Session, leave func(), err error) {
	path.Local, path.Peer = path.Local.Unmap(), path.Peer.Unmap()
	mouth, err := speak(path)
	if err != nil {
		return nil, nil, fmt.Errorf("sending BFD: %w", err)
	}
	to := netip.AddrPortFrom(path.Peer, Port)
	send := func(b []byte) {
		if _, err := mouth.WriteToUDPAddrPort(b, to); err != nil {
			h.log.Debug("sending BFD", "peer", path.Peer, "err", err) // as good as lost on the wire
		}
	}
	id, six := uint32(0), path.Peer.Is6()
	if s, id, err = h.join(c, path.Peer, send, notify); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("listening for BFD: %w", err), mouth.Close())
	}
	return s, func() {
		h.leave(id, six)
		_ = mouth.Close() // nothing waits in it
	}, nil
}

// join adds a session, and listens if it is the first of its family.
func (h *Hub) join(c Config, peer netip.Addr, send func([]byte), notify func()) (*Session, uint32, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	six := peer.Is6()
	if h.ears[six] == nil {
		e, err := listen(six)
		if err != nil {
			return nil, 0, err
		}
		h.ears[six] = e
		go h.hear(e)
	}
	h.ears[six].users++
	id := h.discriminator()
	s := newSession(c, id, send, notify)
	h.sessions[id] = &entry{s, peer}
	return s, id, nil
}

// discriminator returns one that no session has.
func (h *Hub) discriminator() uint32 {
	for {
		if id := rand.Uint32(); id != 0 && h.sessions[id] == nil {
			return id
		}
	}
}

func (h *Hub) leave(id uint32, six bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.sessions, id)
	e := h.ears[six]
	if e.users--; e.users == 0 {
		_ = e.conn.Close() // ends hear
		delete(h.ears, six)
	}
}

// hear hands packets to their sessions until the socket is closed.
func (h *Hub) hear(e *ear) {
	for {
		p, from, err := e.next()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			h.log.Debug("BFD packet discarded", "from", from, "err", err)
			continue
		}
		if s := h.find(p, from); s != nil {
			s.deliver(p)
		}
	}
}

// find returns the session that a packet is for: by this side's discriminator,
// or by the peer's address while the peer does not know it. The address must
// be the session's in any case.
func (h *Hub) find(p Packet, from netip.Addr) *Session {
	h.mu.Lock()
	defer h.mu.Unlock()
	if p.Yours != 0 {
		if e := h.sessions[p.Yours]; e != nil && e.peer == from {
			return e.Session
		}
		return nil
	}
	for _, e := range h.sessions {
		if e.peer == from {
			return e.Session
		}
	}
	return nil
}
