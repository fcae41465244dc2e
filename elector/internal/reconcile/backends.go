package reconcile

import (
	"context"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"github.com/vipod/vipod/shared/trigger"
)

const (
	// steady is how many answers, or failures, in a row change what is thought
	// of a backend.
	steady = 2
	// hasten is by how much sooner a backend is asked again whose last answer
	// speaks against what is thought of it.
	hasten = 5
)

// backends asks API servers whether they are well, each on its own. It is safe
// for concurrent use.
type backends struct {
	log     *slog.Logger
	ask     func(ctx context.Context, server netip.AddrPort) error
	every   time.Duration
	timeout time.Duration
	changed *trigger.Trigger

	mu    sync.Mutex
	known map[netip.AddrPort]*backend
}

// backend is one API server.
type backend struct {
	stop context.CancelFunc
	judgement
}

// judgement is what is thought of a backend after its answers. The first one
// counts at once.
type judgement struct {
	up, asked bool
	against   int // answers in a row that speak against up
}

// take takes an answer and says whether the judgement has changed.
func (j *judgement) take(well bool) (changed bool) {
	if !j.asked {
		j.asked = true
		changed, j.up = j.up != well, well
		return changed
	}
	if well == j.up {
		j.against = 0
		return false
	}
	if j.against++; j.against < steady {
		return false
	}
	j.up, j.against = well, 0
	return true
}

// presume takes servers for well until they have answered, after a restart of
// elector alone.
func (b *backends) presume(servers []netip.AddrPort) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range servers {
		b.known[s] = &backend{judgement: judgement{up: true, asked: true}}
	}
}

// follow asks these servers from now on, until ctx ends, and no others.
func (b *backends) follow(ctx context.Context, servers []netip.AddrPort) {
	b.mu.Lock()
	defer b.mu.Unlock()
	wanted := map[netip.AddrPort]bool{}
	for _, s := range servers {
		wanted[s] = true
		x := b.known[s]
		if x == nil {
			x = &backend{}
			b.known[s] = x
		}
		if x.stop == nil {
			var asking context.Context
			asking, x.stop = context.WithCancel(ctx)
			go b.watch(asking, s, x)
		}
	}
	for s, x := range b.known {
		if wanted[s] {
			continue
		}
		if x.stop != nil {
			x.stop()
		}
		delete(b.known, s)
	}
}

// watch asks one server until ctx ends.
func (b *backends) watch(ctx context.Context, server netip.AddrPort, x *backend) {
	for {
		asking, cancel := context.WithTimeout(ctx, b.timeout)
		err := b.ask(asking, server)
		cancel()
		if ctx.Err() != nil {
			return
		}
		b.mu.Lock()
		changed := x.take(err == nil)
		up, doubted := x.up, x.against > 0
		b.mu.Unlock()
		if changed {
			b.log.Info("API server", "address", server, "well", up, "err", err)
			b.changed.Fire()
		}
		wait := b.every
		if doubted {
			wait /= hasten
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// up returns the servers that are well.
func (b *backends) up() map[netip.AddrPort]bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	up := map[netip.AddrPort]bool{}
	for s, x := range b.known {
		if x.up {
			up[s] = true
		}
	}
	return up
}
