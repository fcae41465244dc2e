package session

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/vipod/vipod/bgpd/internal/bfd"
	"github.com/vipod/vipod/bgpd/internal/plan"
	"github.com/vipod/vipod/bgpd/internal/wire"
	"github.com/vipod/vipod/shared/schema"
	"github.com/vipod/vipod/shared/trigger"
)

// Config is what a session is made with; a change of it is another session.
type Config struct {
	schema.BGPPeer
	// LocalAS and RouterID are this node's.
	LocalAS  uint32
	RouterID netip.Addr
	// Secret authenticates the session (RFC 2385), "" for none.
	Secret string
	// Protocol marks this node's VIPs, which are no next hops.
	Protocol uint8
}

// internal says whether the peer, of the given AS, is in our own.
func (c *Config) internal(as uint32) bool { return as == c.LocalAS }

// Session is one peer's. Its methods may be called from anywhere; Run only
// once.
type Session struct {
	cfg    Config
	log    *slog.Logger
	notify func()
	hub    *bfd.Hub

	incoming chan *net.TCPConn // opened by the peer

	changed *trigger.Trigger // paths
	stop    chan uint8       // subcode of the Cease

	mu    sync.Mutex
	paths []plan.Path
	state State
	bfd   *bfd.Session // nil for none
}

// New returns a session with a peer. restarted says that an earlier process
// may have announced paths which the peer still has. notify is called, and
// must not block, when State changed. hub has the sockets of BFD.
func New(log *slog.Logger, cfg Config, restarted bool, hub *bfd.Hub, notify func()) *Session {
	return &Session{
		cfg: cfg, log: log.With("peer", cfg.Name), notify: notify, hub: hub, incoming: make(chan *net.TCPConn, 1), changed: trigger.New(), stop: make(chan uint8, 1),
		state: State{Phase: Idle, Restarting: restarted, Since: time.Now()},
	}
}

// Config returns what the session was made with.
func (s *Session) Config() Config { return s.cfg }

// Set gives the whole list of paths that the peer shall know, by prefix in
// order. It may not be changed afterwards.
func (s *Session) Set(paths []plan.Path) {
	s.mu.Lock()
	s.paths = paths
	s.mu.Unlock()
	s.changed.Fire()
}

// Stop has Run withdraw everything, tell the peer by a Cease with the subcode
// and return.
func (s *Session) Stop(subcode uint8) {
	select {
	case s.stop <- subcode:
	default: // stopping already
	}
}

const (
	// lasting is how long a session must have been up for the next attempt
	// to be made at once.
	lasting = 5 * time.Second
	// again is that next attempt's pause.
	again = 50 * time.Millisecond
	// firstWait is the pause after an attempt that came to nothing; it grows
	// up to the peer's RetrySeconds.
	firstWait = time.Second / 2
)

// errStopped is the end by Stop.
var errStopped = errors.New("stopped")

// Run keeps a session up until ctx ends or Stop is called.
func (s *Session) Run(ctx context.Context) {
	longest := max(time.Duration(s.cfg.RetrySeconds)*time.Second, firstWait)
	backoff := trigger.Backoff{Min: firstWait, Max: longest}
	defer s.dismiss()
	for {
		up, err := s.once(ctx)
		if ctx.Err() != nil || errors.Is(err, errStopped) {
			s.update(func(st *State) { st.end(nil) })
			return
		}
		wait := backoff.Failed()
		if up > lasting {
			backoff.Reset()
			wait = again
		}
		if len(s.incoming) > 0 {
			wait = 0
		}
		s.failed(err, up > 0)
		select {
		case <-ctx.Done():
			return
		case <-s.stop:
			return
		case conn := <-s.incoming:
			s.Admit(conn) // for the next attempt
		case <-time.After(wait):
		}
	}
}

// failed takes in why a session ended or did not come to be; the same reason
// is logged once.
func (s *Session) failed(err error, wasUp bool) {
	before := s.State()
	s.update(func(st *State) { st.end(err) })
	if wasUp {
		s.log.Warn("session lost", "err", err)
	} else if before.Problem != err.Error() {
		s.log.Warn("no session", "err", err)
	}
}

// once makes one attempt and returns how long the session was up.
func (s *Session) once(ctx context.Context) (up time.Duration, err error) {
	s.update(func(st *State) { st.enter(Connect) })
	conn, err := s.connect(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { _ = conn.Close() }() // the reason is in err already
	end := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer end()
	t := &talk{Session: s, conn: conn}
	if err := t.open(); err != nil {
		t.complain(err)
		return 0, err
	}
	began := time.Now()
	err = t.keep(ctx)
	if !errors.Is(err, errStopped) && ctx.Err() == nil {
		t.complain(err)
	}
	return max(time.Since(began), 1), err
}

// State returns how the session stands.
func (s *Session) State() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.state
	if s.bfd != nil {
		out.BFD = s.bfd.State().String()
	}
	return out
}

func (s *Session) update(change func(*State)) {
	s.mu.Lock()
	change(&s.state)
	s.mu.Unlock()
	s.notify()
}

// wanted returns the list of paths.
func (s *Session) wanted() []plan.Path {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.paths
}

// families of the peer by configuration.
func (c *Config) families() map[wire.Family]bool {
	return map[wire.Family]bool{wire.IPv4: c.IPv4, wire.IPv6: c.IPv6}
}
