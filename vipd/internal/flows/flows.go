// Package flows lets the kernel forget datagrams that were taken for the
// node's own.
//
// Between the moment when a VIP comes to a node and the one when the node's
// Service proxy knows it, datagrams for the VIP are not translated to an
// endpoint. conntrack remembers that until their sender pauses for
// nf_conntrack_udp_timeout (30 s), and kube-proxy makes it forget only when
// endpoints change: who sends all the time is never served. So flows that
// reached the VIP untranslated are deleted a few times after an address was
// added; the next datagram is looked at anew. A program of the node that
// serves datagrams at the VIP itself loses nothing by it.
package flows

import (
	"context"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"github.com/vipod/vipod/shared/trigger"
)

// ages are how old an address is each time its flows are deleted: kube-proxy
// is done a second after the Service's status at the latest when all is well,
// and half a minute later after an error.
var ages = []time.Duration{time.Second, 3 * time.Second, 10 * time.Second, 35 * time.Second}

// tick is the time between two looks at the ages.
const tick = time.Second

// Forgetter deletes the flows of addresses that were added.
type Forgetter struct {
	log     *slog.Logger
	forget  func(map[netip.Addr]bool) (int, error)
	added   *trigger.Trigger
	lastErr string

	mu    sync.Mutex
	young map[netip.Addr]*life
}

// life is that of an address since it was added.
type life struct {
	since time.Time
	done  int // of the ages
}

// New returns a Forgetter that deletes flows by forget, which returns how many
// it deleted; Forget is the kernel's.
func New(log *slog.Logger, forget func(map[netip.Addr]bool) (int, error)) *Forgetter {
	return &Forgetter{log: log, forget: forget, added: trigger.New(), young: map[netip.Addr]*life{}}
}

// Added notes that an address was added just now. It does not block.
func (f *Forgetter) Added(ip netip.Addr) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.young[ip] = &life{since: time.Now()}
	f.added.Fire()
}

// Run works until ctx ends.
func (f *Forgetter) Run(ctx context.Context, ready func()) error {
	ready()
	timer := time.NewTimer(tick)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-f.added.C():
			// Addresses may go on being added: the timer is not put off.
		case <-timer.C:
			f.look()
			timer.Reset(tick)
		}
		if !f.busy() {
			timer.Stop()
			select {
			case <-ctx.Done():
				return nil
			case <-f.added.C():
			}
			timer.Reset(tick)
		}
	}
}

func (f *Forgetter) busy() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.young) > 0
}

// look deletes the flows of the addresses that have come of age.
func (f *Forgetter) look() {
	due := f.due(time.Now())
	if len(due) == 0 {
		return
	}
	n, err := f.forget(due)
	if n > 0 {
		f.log.Info("untranslated flows deleted", "flows", n, "addresses", len(due))
	}
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != f.lastErr && err != nil {
		f.log.Warn("deleting untranslated flows", "err", err)
	}
	f.lastErr = text
}

// due returns the addresses that came of one of the ages.
func (f *Forgetter) due(now time.Time) map[netip.Addr]bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	due := map[netip.Addr]bool{}
	for ip, l := range f.young {
		for l.done < len(ages) && now.Sub(l.since) >= ages[l.done] {
			l.done++
			due[ip] = true
		}
		if l.done == len(ages) {
			delete(f.young, ip)
		}
	}
	return due
}
