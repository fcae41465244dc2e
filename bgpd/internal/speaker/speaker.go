// Package speaker keeps one session per peer. Its whole interface is Set: the
// caller gives everything that is wanted, and the speaker works out what is to
// be done. A session whose configuration did not change is not touched,
// whatever becomes of the others.
package speaker

import (
	"context"
	"log/slog"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"sync"

	"github.com/vipod/vipod/bgpd/internal/bfd"
	"github.com/vipod/vipod/bgpd/internal/plan"
	"github.com/vipod/vipod/bgpd/internal/session"
	"github.com/vipod/vipod/bgpd/internal/wire"
)

// Wanted is everything that shall be so.
type Wanted struct {
	Peers []session.Config
	Paths []plan.Path
	// Listen: peers may open sessions, too.
	Listen bool
}

// Speaker announces paths to peers.
type Speaker interface {
	// Set makes these the peers and the paths, and no others. It does not
	// wait for the peers.
	Set(Wanted)
	// States returns how the sessions stand, by the peer's name.
	States() map[string]session.State
	// Problem is why it does not listen although it shall, "" for nothing.
	Problem() string
	// Close withdraws every path, then closes every session and waits for
	// that. Nothing is set after it.
	Close()
	// Leave ends every session so that peers with graceful restart keep the
	// paths, and waits for that.
	Leave()
}

// BGP is the real speaker.
type BGP struct {
	log    *slog.Logger
	notify func()
	hub    *bfd.Hub

	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu       sync.Mutex
	sessions map[string]*running
	// told: Set was called. To the peers of the first call an earlier process
	// may have announced paths.
	told    bool
	door    *door // nil while it does not listen
	problem string
}

var _ Speaker = (*BGP)(nil)

// New returns a speaker without peers. notify is called, and must not block,
// when a state changed.
func New(log *slog.Logger, notify func()) *BGP {
	ctx, cancel := context.WithCancel(context.Background())
	return &BGP{log: log, notify: notify, hub: bfd.NewHub(log), ctx: ctx, cancel: cancel, sessions: map[string]*running{}}
}

// running is a session and when it has ended.
type running struct {
	*session.Session
	done chan struct{}
}

// start runs a session once the one before it, if any, has ended: a peer has
// one session with us at a time.
func (b *BGP) start(cfg session.Config, restarted bool, before *running) *running {
	s := &running{session.New(b.log, cfg, restarted, b.hub, b.notify), make(chan struct{})}
	b.wg.Go(func() {
		defer close(s.done)
		if before != nil {
			<-before.done
		}
		s.Run(b.ctx)
	})
	return s
}

// Set implements Speaker.
func (b *BGP) Set(w Wanted) {
	b.mu.Lock()
	defer b.mu.Unlock()
	first := !b.told
	b.told = true
	wanted := map[string]bool{}
	for _, cfg := range w.Peers {
		wanted[cfg.Name] = true
		s := b.sessions[cfg.Name]
		if s == nil || !reflect.DeepEqual(s.Config(), cfg) {
			if s != nil {
				s.Stop(wire.CeaseReset)
			}
			s = b.start(cfg, first, s)
			b.sessions[cfg.Name] = s
		}
		s.Set(w.Paths)
	}
	for name, s := range b.sessions {
		if !wanted[name] {
			s.Stop(wire.CeaseDeconfigured)
			delete(b.sessions, name)
		}
	}
	b.listen(w.Listen)
}

// listen opens or closes the door, and has it know the peers.
func (b *BGP) listen(wanted bool) {
	var err error
	switch {
	case wanted && b.door == nil:
		b.door, err = openDoor(b.sessionOf)
	case !wanted && b.door != nil:
		b.door.close()
		b.door = nil
	}
	if b.door != nil {
		err = b.door.demand(b.sessions)
	}
	problem := ""
	if err != nil {
		problem = err.Error()
	}
	if problem != "" && problem != b.problem {
		b.log.Error("listening", "err", err)
	}
	b.problem = problem
}

// sessionOf returns the session of the peer with the address, nil for none: a
// peer whose password the door does not demand is none.
func (b *BGP) sessionOf(from netip.Addr) *session.Session {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.sessions {
		if s.Is(from) && b.door != nil && b.door.keyed[s.Session] {
			return s.Session
		}
	}
	return nil
}

// Problem implements Speaker.
func (b *BGP) Problem() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.problem
}

// States implements Speaker.
func (b *BGP) States() map[string]session.State {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := make(map[string]session.State, len(b.sessions))
	for name, s := range b.sessions {
		out[name] = s.State()
	}
	return out
}

// Close implements Speaker.
func (b *BGP) Close() {
	b.mu.Lock()
	b.listen(false)
	for _, name := range slices.Sorted(maps.Keys(b.sessions)) {
		b.sessions[name].Stop(wire.CeaseShutdown)
	}
	b.mu.Unlock()
	b.wg.Wait()
	b.cancel()
}

// Leave implements Speaker.
func (b *BGP) Leave() {
	b.mu.Lock()
	b.listen(false)
	b.mu.Unlock()
	b.cancel()
	b.wg.Wait()
}
