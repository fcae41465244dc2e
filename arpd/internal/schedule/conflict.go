package schedule

import (
	"time"

	"github.com/vipod/vipod/arpd/internal/frame"
	"github.com/vipod/vipod/arpd/internal/plan"
)

const (
	// grace is for how long after an activation other claims are not looked
	// at: the last frames of the previous owner may still be under way.
	grace = time.Second
	// defenceInterval is DEFEND_INTERVAL of RFC 5227 section 2.4 (b). Whoever
	// goes on claiming after that is not fought.
	defenceInterval = 10 * time.Second
	// conflictHold is how long a conflict lasts after the last claim.
	conflictHold = 60 * time.Second
)

// conflict is another host's claim of an address that we announce.
type conflict struct {
	mac     frame.MAC // "" for none
	until   time.Duration
	pending bool // an event for its end is under way
	// defended is when we last did, if ever.
	defended time.Duration
	ever     bool
}

// Heard takes in a claim from a link and says whether it concerns anything
// here, so that something may be due.
func (s *Schedule) Heard(link int, c frame.Claim, now time.Duration) bool {
	if s.own[c.MAC] {
		return false
	}
	key := plan.Key{Link: link, IP: c.IP}
	// An ARP probe does not claim anything and our kernel answers it. Its
	// IPv6 counterpart comes from a host that will not wait for long.
	a := s.addresses[key]
	contested := a != nil && now >= a.since+grace && (!c.Probe || c.IP.Is6())
	if contested {
		s.contest(a, c.MAC, now)
	}
	// Another host's probe is no answer to ours, as RFC 5227 section 2.1.1 has
	// it: it is most likely another node of ours, with which the Leases decide
	// who goes first. A stranger that goes on to claim is heard then.
	if c.Probe {
		return contested
	}
	for _, p := range s.probed[key] {
		s.answered(p, c.MAC, now)
	}
	return contested || len(s.probed[key]) > 0
}

// contest notes the claim and answers it, at most once per defenceInterval.
// The other's address is updated no more often than that, so that a flood of
// claims from changing addresses is not a flood of changes.
func (s *Schedule) contest(a *address, mac frame.MAC, now time.Duration) {
	c := &a.conflict
	if c.mac == "" {
		s.counters.Conflicts++
		c.mac, s.changed = mac, true
	}
	c.until = now + conflictHold
	if !c.pending {
		c.pending = true
		s.push(&event{due: c.until, what: whatConflictEnd, address: a})
	}
	if c.ever && now < c.defended+defenceInterval {
		return
	}
	if c.mac != mac {
		c.mac, s.changed = mac, true
	}
	c.defended, c.ever = now, true
	s.counters.Defences++
	s.push(&event{due: now, rank: rankUrgent, what: whatDefence, address: a, kind: lead(a.Key)})
}

func (s *Schedule) endConflict(a *address, now time.Duration) {
	c := &a.conflict
	if now < c.until {
		s.push(&event{due: c.until, what: whatConflictEnd, address: a})
		return
	}
	c.mac, c.pending, s.changed = "", false, true
}
