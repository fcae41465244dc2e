package schedule

import (
	"container/heap"
	"errors"
	"time"

	"github.com/vipod/vipod/arpd/internal/frame"
	"github.com/vipod/vipod/arpd/internal/plan"
)

// ErrNoGrant is a frame that came up while its grant was not valid.
var ErrNoGrant = errors.New("grant has ended")

// Send is one frame to send now.
type Send struct {
	plan.Key
	Interface string
	Hardware  frame.Hardware
	Kind      frame.Kind

	event *event
}

// Due returns the frames to send now, at most Batch. The caller sends them
// and calls Sent for each.
func (s *Schedule) Due(now time.Duration) []Send {
	s.bucket.fill(now)
	for s.later.Len() > 0 && s.later.list[0].due <= now {
		e := heap.Pop(&s.later).(*event)
		switch {
		case e.gone():
		case e.sends():
			heap.Push(&s.ready, e)
		case e.address != nil:
			s.endConflict(e.address, now)
		default:
			s.concludeProbe(e, now)
		}
	}
	s.takeSlots(now)
	var out []Send
	for len(out) < Batch && s.ready.Len() > 0 {
		e := s.ready.list[0]
		if !e.gone() && e.address != nil && !s.granted(e.address.Grants, now) {
			heap.Pop(&s.ready)
			s.announceFailed(e, ErrNoGrant, now)
			continue
		}
		if !e.gone() {
			if !s.bucket.take() {
				break
			}
			out = append(out, e.send())
		}
		heap.Pop(&s.ready)
	}
	return out
}

func (e *event) send() Send {
	if e.probe != nil {
		return Send{Key: e.probe.Key, Interface: e.probe.Interface, Hardware: e.probe.Hardware, Kind: e.kind, event: e}
	}
	return Send{Key: e.address.Key, Interface: e.address.Interface, Hardware: e.address.Hardware, Kind: e.kind, event: e}
}

// Next returns how long nothing needs to be done, unless something is heard
// or set; ok is false when nothing will ever be due.
func (s *Schedule) Next(now time.Duration) (wait time.Duration, ok bool) {
	s.bucket.fill(now)
	if s.ready.Len() > 0 {
		return s.bucket.wait(), true
	}
	due, ok := s.nextSlot()
	if s.later.Len() > 0 && (!ok || s.later.list[0].due < due) {
		due, ok = s.later.list[0].due, true
	}
	return max(0, due-now), ok
}

// Sent reports what became of a frame. For the first frame of an address that
// went out it returns the time since the address was seen.
func (s *Schedule) Sent(d Send, err error, now time.Duration) (delay time.Duration, first bool) {
	e := d.event
	switch {
	case e.gone():
		return 0, false
	case e.probe != nil:
		s.probeSent(e, err, now)
		return 0, false
	case err != nil:
		s.announceFailed(e, err, now)
		return 0, false
	}
	a := e.address
	s.changed = s.changed || a.err != nil
	a.sent, a.err = now, nil
	a.frames++
	if first = !a.announced; first {
		a.announced, s.changed = true, true
		delay = now - a.since
	}
	if e.what == whatRound {
		s.roundDone(e, now)
	}
	return delay, first
}

// roundDone is called after the leading frame of a round: its second frame
// follows at once and the next round in its time.
func (s *Schedule) roundDone(e *event, now time.Duration) {
	a := e.address
	if a.IP.Is4() {
		s.push(&event{due: now, rank: e.rank + 1, what: whatSecond, address: a, kind: frame.Reply})
	}
	s.nextRound(a, now)
}

func (s *Schedule) nextRound(a *address, now time.Duration) {
	if a.left--; a.left > 0 {
		s.push(&event{due: now + roundSpacing, rank: rankRound, what: whatRound, address: a, kind: lead(a.Key)})
	}
}

// announceFailed retries the first round soon and leaves everything else to
// the next round or refresh.
func (s *Schedule) announceFailed(e *event, err error, now time.Duration) {
	a := e.address
	if a.err == nil || a.err.Error() != err.Error() {
		a.err, s.changed = err, true
	}
	switch {
	case e.what != whatRound:
	case a.announced:
		s.nextRound(a, now)
	default:
		s.push(&event{due: now + a.retry, rank: rankFirst, what: whatRound, address: a, kind: e.kind})
		a.retry = min(2*a.retry, roundSpacing)
	}
}

// nextSlot returns when the next address is refreshed: the interval divided
// by the number of addresses after the last, sooner when the one whose turn it
// is would otherwise wait for longer than the interval.
func (s *Schedule) nextSlot() (time.Duration, bool) {
	n := s.ring.Len()
	if n == 0 {
		return 0, false
	}
	spacing := s.interval / time.Duration(n)
	oldest := s.ring.Front().Value.(*address).last + s.interval
	return max(min(s.slot+spacing, oldest), s.slot+min(spacing, slotMin)), true
}

// takeSlots makes the refreshing frames whose time has come. Time that was
// missed, because the process or the machine slept, is not caught up with.
func (s *Schedule) takeSlots(now time.Duration) {
	due, ok := s.nextSlot()
	if !ok || due > now {
		return
	}
	s.slot = due
	if now-due > slotMin {
		s.slot = now
	}
	a := s.ring.Front().Value.(*address)
	s.ring.MoveToBack(a.ring)
	a.last = now
	if a.left > 0 {
		return // its burst goes on
	}
	kind := lead(a.Key)
	if a.reply && a.IP.Is4() {
		kind = frame.Reply
	}
	a.reply = !a.reply
	s.count++
	heap.Push(&s.ready, &event{due: due, rank: rankRefresh, seq: s.count, what: whatRefresh, address: a, kind: kind})
}
