package faults

import (
	"fmt"
	"math"
	"net/netip"
	"slices"
	"time"
)

// Outcome is what has to become of the addresses of a node that a fault hits.
// Those of all other nodes have to stay, whatever the fault.
type Outcome string

// Outcomes.
const (
	// Stays: no other machine claims the address, and no question gets lost.
	Stays Outcome = "stays"
	// Moves: another machine answers within the bound of the fault's begin.
	Moves Outcome = "moves"
	// Back: nobody claims the address while the fault lasts, apart from a time
	// to notice it, and somebody does within the bound of its end.
	Back Outcome = "back"
	// Either: the address stays or moves, and is never silent for longer than
	// the bound.
	Either Outcome = "either"
)

// Expectation is the right outcome of a fault, in numbers.
type Expectation struct {
	Outcome Outcome
	// Bound is the longest time that the outcome may take; for Stays, the
	// longest silence.
	Bound time.Duration
	// Lost is how many questions of each kind may be lost where the address
	// stays.
	Lost int64
	// Hands is how often an address may change hands.
	Hands int
	// Fence is after what time a node that the fault hits may claim nothing
	// more, until the fault ends; not looked at if zero.
	Fence time.Duration
	// Ended is how many daemons may end by themselves.
	Ended int
	// Rate is how many requests a second the API server may get; not looked
	// at if zero.
	Rate float64
	// Strangers are ports whose claims are the fault itself.
	Strangers []string
}

// Violation is something that must not be, with what shows it.
type Violation struct {
	// Rule is what is violated.
	Rule string
	// Addr is the address that it is about; may be invalid.
	Addr  netip.Addr
	Shown []string
	// Timed: it is about how long something took, or what was lost meanwhile,
	// which the machine can cause by itself when others keep it busy.
	Timed bool
}

// String returns the violation with its evidence, a line each.
func (v Violation) String() string {
	text := v.Rule
	if v.Addr.IsValid() {
		text = v.Addr.String() + ": " + text
	}
	for _, line := range v.Shown {
		text += "\n        " + line
	}
	return text
}

// Check returns what of a history is not as it has to be.
func Check(h History, want Expectation) []Violation {
	h = withoutStrangers(h, want.Strangers)
	h.sort()
	var list []Violation
	for _, addr := range h.addrs(Claim) {
		list = append(list, exclusive(addr, h.at(addr).of(Claim), want.Hands)...)
	}
	for _, addr := range h.addrs(Watched) {
		list = append(list, newSight(h, addr).judge(want)...)
	}
	return slices.Concat(list, epochs(h), touched(h), ended(h, want.Ended), budget(h, want.Rate))
}

func withoutStrangers(h History, strangers []string) History {
	return slices.DeleteFunc(slices.Clone(h), func(e Event) bool {
		return e.Kind == Claim && slices.Contains(strangers, e.Node)
	})
}

// exclusive checks that claims are one machine's after the other's, at most
// so many times.
func exclusive(addr netip.Addr, claims History, hands int) []Violation {
	var list []Violation
	var turns History // the last stretch of each turn, beginning with its first
	for i, c := range claims {
		for _, d := range claims[i+1:] {
			if d.At.After(c.Until) {
				break
			}
			if d.Node != c.Node {
				list = append(list, Violation{Rule: "two machines claim it at one time", Addr: addr, Shown: []string{c.String(), d.String()}})
			}
		}
		if last := len(turns) - 1; last >= 0 && turns[last].Node == c.Node {
			turns[last].Until, turns[last].N = c.Until, turns[last].N+c.N
			continue
		}
		turns = append(turns, c)
	}
	if len(turns) > hands+1 {
		v := Violation{Rule: fmt.Sprintf("changed hands %d times, at most %d are right", len(turns)-1, hands), Addr: addr}
		for _, turn := range turns[:min(len(turns), 8)] {
			v.Shown = append(v.Shown, turn.String())
		}
		list = append(list, v)
	}
	return list
}

// epochs checks that whoever owns a VIP does so by a newer epoch than
// everybody before.
func epochs(h History) []Violation {
	var list []Violation
	last := map[string]Event{}
	for _, e := range h.of(Epoch) {
		before, known := last[e.Text]
		if known && (e.N < before.N || e.N == before.N && e.Node != before.Node) {
			list = append(list, Violation{Rule: "acts by an old epoch", Shown: []string{before.String(), e.String()}})
			continue
		}
		last[e.Text] = e
	}
	return list
}

// touched reports what was changed or left.
func touched(h History) []Violation {
	var list []Violation
	for _, e := range h.of(Differs) {
		list = append(list, Violation{Rule: "something else is touched, or something of ours is left", Shown: []string{e.String()}})
	}
	return list
}

func ended(h History, allowed int) []Violation {
	events := h.of(Ended)
	if len(events) <= allowed {
		return nil
	}
	v := Violation{Rule: fmt.Sprintf("%d daemons ended by themselves, at most %d may", len(events), allowed)}
	for _, e := range events {
		v.Shown = append(v.Shown, e.String())
	}
	return []Violation{v}
}

const (
	// edge is how many of the regular requests, one a second of each Lease,
	// may come twice at the edges of a stretch of time.
	edge = 4
	// ownLease is how often the API server renews its own Lease (KEP-1965).
	ownLease = 10 * time.Second
)

// budget checks how much is asked of the API server.
func budget(h History, rate float64) []Violation {
	var list []Violation
	for _, e := range h.of(Requests) {
		d := e.Until.Sub(e.At)
		most := rate*d.Seconds() + edge + math.Ceil(d.Seconds()/ownLease.Seconds())
		if got := Rate(e); rate > 0 && float64(e.N) > most {
			list = append(list, Violation{
				Rule:  fmt.Sprintf("%.1f requests a second, at most %.1f are right", got, rate),
				Shown: []string{e.String()}, Timed: true,
			})
		}
	}
	return list
}

// Rate returns an event's requests a second.
func Rate(e Event) float64 {
	if d := e.Until.Sub(e.At).Seconds(); d > 0 {
		return float64(e.N) / d
	}
	return 0
}
