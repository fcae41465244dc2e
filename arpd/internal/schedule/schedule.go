// Package schedule decides when frames are sent and what is concluded from
// those that are heard. It is pure: every call is given the time, which only
// has to grow; it starts no goroutine and does no I/O.
//
// An announced address gets a burst (at once, then four rounds 1.1 s apart)
// and after it one frame per interval, alternating between the kinds, all
// addresses evenly spread over the interval. All frames together pass a token
// bucket, the first frame of every address before any second one.
package schedule

import (
	"container/heap"
	"container/list"
	"time"

	"github.com/vipod/vipod/arpd/internal/frame"
	"github.com/vipod/vipod/arpd/internal/plan"
	"github.com/vipod/vipod/shared/schema"
)

const (
	rounds = 5
	// roundSpacing is more than a second, for which Linux ignores further
	// updates of a neighbor entry (locktime in arp(7)).
	roundSpacing = 1100 * time.Millisecond
	// A first frame that could not be sent is tried again soon: the fence or
	// the link may be about to open.
	retryMin = 5 * time.Millisecond
	// slotMin is the least time between two refreshing frames unless there
	// are more than 1000 addresses, so that none are sent in a burst after
	// the process was stopped for a while.
	slotMin = 60 * time.Millisecond
	// Batch is how many frames are handed out at a time.
	Batch = 32
)

// Ranks order frames that are due at one time.
const (
	rankFirst = iota // the first frame of an address
	rankSecond
	rankUrgent // probes and defences
	rankRound  // later rounds of the burst
	rankRoundSecond
	rankRefresh
)

// Schedule is safe for use by one goroutine at a time.
type Schedule struct {
	interval  time.Duration
	grants    map[schema.GrantName]time.Duration
	own       map[frame.MAC]bool
	addresses map[plan.Key]*address
	probes    map[probeKey]*probe
	probed    map[plan.Key][]*probe
	later     events // by time
	ready     events // by rank
	count     uint64 // of events, keeps equals in order
	ring      *list.List
	slot      time.Duration // of the last refresh
	bucket    bucket
	jitter    func() time.Duration
	changed   bool
	counters  Counters
}

// Counters count conclusions since the start.
type Counters struct{ Conflicts, Defences, Free, Answered uint64 }

// address is an address that is being announced.
type address struct {
	plan.Target
	since     time.Duration // seen by the pass that added it
	announced bool
	left      int           // rounds of the burst
	retry     time.Duration // wait after the next failure
	last      time.Duration // of its place in the ring
	sent      time.Duration
	frames    uint64
	err       error
	reply     bool // the next refresh is a reply
	ring      *list.Element
	gone      bool
	conflict  conflict
}

// New returns an empty schedule. jitter returns the wait before a first
// probe.
func New(now time.Duration, jitter func() time.Duration) *Schedule {
	return &Schedule{
		addresses: map[plan.Key]*address{},
		probes:    map[probeKey]*probe{},
		probed:    map[plan.Key][]*probe{},
		later:     events{less: byTime},
		ready:     events{less: byRank},
		ring:      list.New(),
		bucket:    bucket{tokens: burst, filled: now},
		jitter:    jitter,
	}
}

// Set makes p the plan. Addresses that are not in it get no further frame;
// those that are new, or whose link or epoch changed, are announced from the
// start. seen is when the plan's addresses were looked up.
func (s *Schedule) Set(p plan.Output, interval, seen, now time.Duration) {
	s.interval = interval
	wanted := make(map[plan.Key]bool, len(p.Announce))
	for _, t := range p.Announce {
		wanted[t.Key] = true
		old := s.addresses[t.Key]
		if old != nil && old.same(t) {
			old.Grants = t.Grants
			continue
		}
		s.forget(old)
		s.add(t, seen, now)
	}
	for key, a := range s.addresses {
		if !wanted[key] {
			s.forget(a)
		}
	}
	s.setProbes(p.Probe, now)
}

func (a *address) same(t plan.Target) bool {
	t.Grants = a.Grants
	return a.Target == t
}

func (s *Schedule) add(t plan.Target, seen, now time.Duration) {
	a := &address{Target: t, since: seen, left: rounds, retry: retryMin, last: now}
	if s.ring.Len() == 0 {
		s.slot = now
	}
	a.ring = s.ring.PushBack(a)
	s.addresses[t.Key] = a
	s.push(&event{due: now, rank: rankFirst, what: whatRound, address: a, kind: lead(t.Key)})
	s.changed = true
}

func (s *Schedule) forget(a *address) {
	if a == nil {
		return
	}
	a.gone = true // its events are passed over when they come up
	s.ring.Remove(a.ring)
	delete(s.addresses, a.Key)
	s.changed = true
}

// SetGrants says until when each grant is valid. No frame is handed out for
// an address whose grants have ended, whatever the plan says.
func (s *Schedule) SetGrants(until map[schema.GrantName]time.Duration) { s.grants = until }

// SetOwn says which link-layer addresses are this node's: what they claim is
// an echo.
func (s *Schedule) SetOwn(macs map[frame.MAC]bool) { s.own = macs }

func (s *Schedule) granted(g plan.Grants, now time.Duration) bool {
	return g.Held(func(name schema.GrantName) bool { return now < s.grants[name] })
}

// TakeChanged says whether a conclusion changed since the last call.
func (s *Schedule) TakeChanged() bool {
	c := s.changed
	s.changed = false
	return c
}

// Counters returns the counts so far.
func (s *Schedule) Counters() Counters { return s.counters }

// lead is the first frame of a round; IPv4's is followed by a reply.
func lead(k plan.Key) frame.Kind {
	if k.IP.Is4() {
		return frame.Request
	}
	return frame.Advertisement
}

func (s *Schedule) push(e *event) {
	s.count++
	e.seq = s.count
	heap.Push(&s.later, e)
}
