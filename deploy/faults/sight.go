package faults

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"time"
)

// podStall is how long a pod may be silent that has to be scheduled to answer,
// which the kernel has not: datagrams of that time are lost.
const podStall = 250 * time.Millisecond

// sight is what a history tells of one address.
type sight struct {
	addr               netip.Addr
	claims             History
	silences, lost     History
	begin, end, closed time.Time
	// ending is when the fault begins to end.
	ending time.Time
	// loss and stall are the machine's own.
	loss  int64
	stall time.Duration
	// faulty are the nodes that the fault hits, owner the machine that had the
	// address when it began.
	faulty []string
	owner  string
}

func newSight(h History, addr netip.Addr) sight {
	s := sight{addr: addr, claims: h.at(addr).of(Claim), silences: h.at(addr).of(Silence), lost: h.at(addr).of(Lost)}
	for _, e := range h.of(Begin) {
		if s.begin.IsZero() {
			s.begin = e.At
		}
		s.faulty = append(s.faulty, e.Node)
	}
	s.silences = slices.DeleteFunc(s.silences, func(e Event) bool { return e.Until.Before(s.begin) })
	slices.SortStableFunc(s.silences, func(a, b Event) int { return cmp.Compare(b.Until.Sub(b.At), a.Until.Sub(a.At)) })
	for _, e := range h.of(End) {
		if s.ending.IsZero() {
			s.ending = e.At
		}
		s.end = e.At
	}
	for _, e := range h.of(Noise) {
		s.loss, s.stall = s.loss+e.N, max(s.stall, e.Until.Sub(e.At))
	}
	for _, e := range h {
		s.closed = e.At
	}
	for _, c := range s.claims {
		if c.At.Before(s.begin) {
			s.owner = c.Node
		}
	}
	if s.owner == "" && len(s.claims) > 0 { // it came up only then
		s.owner = s.claims[0].Node
	}
	return s
}

// judge checks the outcome.
func (s sight) judge(want Expectation) []Violation {
	if s.begin.IsZero() {
		return nil // there was no fault
	}
	if !slices.Contains(s.faulty, s.owner) {
		want = Expectation{Outcome: Stays, Lost: want.Lost}
	}
	list := s.fenced(want)
	switch want.Outcome {
	case Stays:
		return slices.Concat(list, s.stays(want))
	case Moves:
		return slices.Concat(list, s.moves(want))
	case Back:
		return slices.Concat(list, s.back(want))
	}
	return slices.Concat(list, s.quiet(want.Bound))
}

// violation is one of what became of the address and when.
func (s sight) violation(rule string, events ...Event) Violation {
	v := Violation{Rule: rule, Addr: s.addr, Timed: true}
	for _, e := range events[:min(len(events), 4)] {
		v.Shown = append(v.Shown, e.String())
	}
	return v
}

// fenced checks that nodes that the fault hits fall silent in time.
func (s sight) fenced(want Expectation) []Violation {
	if want.Fence == 0 {
		return nil
	}
	var late History
	for _, c := range s.claims {
		closed := s.begin.Add(want.Fence)
		if slices.Contains(s.faulty, c.Node) && c.Until.After(closed) && c.At.Before(s.ending) && closed.Before(s.ending) {
			late = append(late, c)
		}
	}
	if len(late) == 0 {
		return nil
	}
	v := s.violation(fmt.Sprintf("claimed later than %v after the fault", want.Fence), late...)
	v.Timed = false // the fence is the kernel's, and waits for nobody
	return []Violation{v}
}

// stays checks that the owner stays the same and every question is answered.
func (s sight) stays(want Expectation) []Violation {
	var list []Violation
	if i := slices.IndexFunc(s.claims, func(c Event) bool { return c.Node != s.owner && c.At.After(s.begin) }); i >= 0 {
		list = append(list, s.violation(fmt.Sprintf("moved from %q, must stay", s.owner), s.claims[i]))
	}
	if want.Bound > 0 {
		return append(list, s.quiet(want.Bound)...)
	}
	for _, e := range s.lost {
		if e.Text == "icmp" && e.N > want.Lost+s.loss {
			list = append(list, s.violation(fmt.Sprintf("%d questions lost, at most %d may be", e.N, want.Lost+s.loss), append(History{e}, s.silences...)...))
		}
	}
	return append(list, s.quiet(podStall)...)
}

// moves checks that a successor claims the address and answers in time.
func (s sight) moves(want Expectation) []Violation {
	took, ok := s.successor()
	switch {
	case !ok:
		return []Violation{s.violation(fmt.Sprintf("did not move from %q", s.owner))}
	case took > want.Bound+s.stall:
		return []Violation{s.violation(fmt.Sprintf("claimed by a successor after %v, want %v", took, want.Bound))}
	}
	return s.quiet(want.Bound)
}

// successor returns after what time a machine that is not hit claims.
func (s sight) successor() (time.Duration, bool) {
	for _, c := range s.claims {
		if c.At.After(s.begin) && c.Node != s.owner {
			return c.At.Sub(s.begin), true
		}
	}
	return 0, false
}

// back checks that the address answers again soon after the fault.
func (s sight) back(want Expectation) []Violation {
	if took := s.returned(); took > want.Bound+s.stall {
		return []Violation{s.violation(fmt.Sprintf("back %v after the fault, want %v", took, want.Bound), s.silences...)}
	}
	return nil
}

// returned is after what time from the fault's end somebody claims and
// answers again.
func (s sight) returned() time.Duration {
	took := s.closed.Sub(s.end)
	for _, c := range s.claims {
		if !c.Until.Before(s.end) {
			took = max(0, c.At.Sub(s.end))
			break
		}
	}
	for _, e := range s.silences {
		if e.At.Before(s.end) {
			took = max(took, e.Until.Sub(s.end))
		}
	}
	return took
}

// quiet checks that no silence is longer than that.
func (s sight) quiet(bound time.Duration) []Violation {
	for _, e := range s.silences {
		if e.Until.Sub(e.At) > bound+s.stall {
			return []Violation{s.violation(fmt.Sprintf("silent for %v, want at most %v", e.Until.Sub(e.At), bound), e)}
		}
	}
	return nil
}

// measured is the number that the bound is about, of the worst address.
func measured(h History, want Expectation) time.Duration {
	h = withoutStrangers(h, want.Strangers)
	h.sort()
	var worst time.Duration
	for _, addr := range h.addrs(Watched) {
		s := newSight(h, addr)
		hit := slices.Contains(s.faulty, s.owner)
		if hit && want.Outcome == Back {
			worst = max(worst, s.returned())
			continue
		}
		if took, ok := s.successor(); hit && ok && want.Outcome == Moves {
			worst = max(worst, took)
		}
		for _, e := range s.silences {
			worst = max(worst, e.Until.Sub(e.At))
		}
	}
	return worst
}
