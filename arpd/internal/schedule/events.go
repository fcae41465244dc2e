package schedule

import (
	"time"

	"github.com/vipod/vipod/arpd/internal/frame"
)

type what uint8

// What an event does when it comes up.
const (
	whatRound       what = iota // leading frame of a round of the burst
	whatSecond                  // the round's second frame
	whatRefresh                 // slow refresh
	whatDefence                 // answer to a conflict
	whatConflictEnd             // is the conflict over?
	whatProbe                   // probing frame
	whatProbeEnd                // nobody answered?
	whatProbeAgain              // is the stranger still there?
)

// event is something to do at a time, for an address or for a probe.
type event struct {
	due     time.Duration
	rank    int
	seq     uint64
	what    what
	kind    frame.Kind
	address *address
	probe   *probe
}

func (e *event) gone() bool {
	return e.address != nil && e.address.gone || e.probe != nil && e.probe.gone
}

// sends says whether the event hands out a frame.
func (e *event) sends() bool {
	return e.what <= whatDefence || e.what == whatProbe
}

// events is a heap (container/heap).
type events struct {
	list []*event
	less func(a, b *event) bool
}

func byTime(a, b *event) bool {
	if a.due != b.due {
		return a.due < b.due
	}
	return a.seq < b.seq
}

func byRank(a, b *event) bool {
	if a.rank != b.rank {
		return a.rank < b.rank
	}
	return byTime(a, b)
}

func (h *events) Len() int           { return len(h.list) }
func (h *events) Less(i, j int) bool { return h.less(h.list[i], h.list[j]) }
func (h *events) Swap(i, j int)      { h.list[i], h.list[j] = h.list[j], h.list[i] }
func (h *events) Push(x any)         { h.list = append(h.list, x.(*event)) }

func (h *events) Pop() any {
	last := len(h.list) - 1
	e := h.list[last]
	h.list[last] = nil
	h.list = h.list[:last]
	return e
}
