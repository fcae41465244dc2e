package schedule

import (
	"slices"
	"time"

	"github.com/vipod/vipod/arpd/internal/frame"
	"github.com/vipod/vipod/arpd/internal/plan"
	"github.com/vipod/vipod/shared/schema"
)

// Times of probing, where RFC 5227 section 1.1 has 1 s, 1 to 2 s and 2 s: on
// a wired LAN an answer takes less than a millisecond, and each millisecond
// here is one in which the VIP is served by nobody.
const (
	probeCount   = 3
	probeSpacing = 50 * time.Millisecond
	probeWait    = 100 * time.Millisecond
	// ProbeStart is the longest random wait before the first probe.
	ProbeStart = 20 * time.Millisecond
	// probeAgain is when an address for which a stranger answered is probed
	// again.
	probeAgain    = 30 * time.Second
	probeRetryMax = time.Second
)

type probeKey struct {
	document string
	plan.Key
}

// probe is the question whether a stranger has an address.
type probe struct {
	plan.Probe
	left   int // frames of this round
	retry  time.Duration
	heard  bool // in this round
	result schema.ConditionStatus
	mac    frame.MAC // of the stranger
	again  bool      // an event for the next round is under way
	gone   bool
}

// setProbes makes list the probes. One whose document or link changed starts
// anew; others keep their result.
func (s *Schedule) setProbes(list []plan.Probe, now time.Duration) {
	wanted := make(map[probeKey]bool, len(list))
	for _, want := range list {
		key := probeKey{want.Document, want.Key}
		wanted[key] = true
		old := s.probes[key]
		if old != nil && old.Probe == want {
			continue
		}
		s.forgetProbe(old)
		p := &probe{Probe: want, result: schema.Unknown}
		s.probes[key] = p
		s.probed[want.Key] = append(s.probed[want.Key], p)
		s.startProbe(p, now+s.jitter())
	}
	for key, p := range s.probes {
		if !wanted[key] {
			s.forgetProbe(p)
		}
	}
}

func (s *Schedule) forgetProbe(p *probe) {
	if p == nil {
		return
	}
	p.gone, s.changed = true, true
	delete(s.probes, probeKey{p.Document, p.Key})
	rest := slices.DeleteFunc(s.probed[p.Key], func(q *probe) bool { return q == p })
	if s.probed[p.Key] = rest; len(rest) == 0 {
		delete(s.probed, p.Key)
	}
}

func (s *Schedule) startProbe(p *probe, at time.Duration) {
	p.left, p.retry, p.heard = probeCount, probeSpacing, false
	kind := frame.Solicitation
	if p.IP.Is4() {
		kind = frame.Probe
	}
	s.push(&event{due: at, rank: rankUrgent, what: whatProbe, probe: p, kind: kind})
}

// probeSent goes on with the next frame or waits for answers. A frame that
// did not go out does not count: silence proves nothing then.
func (s *Schedule) probeSent(e *event, err error, now time.Duration) {
	p := e.probe
	next := *e
	switch {
	case err != nil:
		next.due = now + p.retry
		p.retry = min(2*p.retry, probeRetryMax)
	case p.left > 1:
		p.left--
		next.due = now + probeSpacing
	default:
		next = event{due: now + probeWait, what: whatProbeEnd, probe: p}
	}
	s.push(&next)
}

// answered notes that a stranger has the address, also after a round that
// found nobody.
func (s *Schedule) answered(p *probe, mac frame.MAC, now time.Duration) {
	p.heard = true
	if p.result != schema.False {
		p.result, p.mac, s.changed = schema.False, mac, true
		s.counters.Answered++
	}
	if !p.again {
		p.again = true
		s.push(&event{due: now + probeAgain, what: whatProbeAgain, probe: p})
	}
}

func (s *Schedule) concludeProbe(e *event, now time.Duration) {
	p := e.probe
	switch {
	case e.what == whatProbeAgain:
		p.again = false
		s.startProbe(p, now+s.jitter())
	case p.heard || p.result == schema.True:
	default:
		p.result, p.mac, s.changed = schema.True, "", true
		s.counters.Free++
	}
}
