// Package links remembers how links behaved: a link that flaps is reported
// down until it has been up for a while, and a link that has just come back
// is given time to get its own addresses before it gets a VIP. It has no
// clock: every call is told the time.
package links

import (
	"time"

	"github.com/vipod/vipod/vipd/internal/plan"
)

const (
	// holdMin is how long a link that was down must stay up to count as up.
	// The hold doubles with every further loss up to holdMax.
	holdMin = time.Second
	holdMax = 30 * time.Second
	// calm is how long a link must have kept up for its hold to halve.
	calm = time.Minute
	// settle is how long a link that came back is waited for to get
	// addresses of its own.
	settle = time.Second
)

// Tracker follows all links. The zero value is not usable.
type Tracker struct {
	byName map[string]*history
	// started says that the first look was taken: links seen then were there
	// before and owe nobody a proof.
	started bool
}

type history struct {
	index     int
	up, admin bool
	since     time.Time // of up
	adminAt   time.Time
	hold      time.Duration
	holding   bool // down until the hold has passed
}

// New returns a Tracker that has seen nothing.
func New() *Tracker { return &Tracker{byName: map[string]*history{}} }

// Update looks at the links and their addresses as they are now. It sets Up,
// Settled4 and Settled6 of each and returns when to look again even if
// nothing happens, zero for never. Addresses with the given protocol are ours
// and do not count as a link's own.
func (t *Tracker) Update(now time.Time, a *plan.Actual, protocol uint8) (again time.Time) {
	soonest := func(at time.Time) {
		if at.After(now) && (again.IsZero() || at.Before(again)) {
			again = at
		}
	}
	own4, own6 := ownAddresses(a.Addresses, protocol)
	seen := map[string]bool{}
	for i := range a.Links {
		l := &a.Links[i]
		seen[l.Name] = true
		h := t.look(now, *l)
		if h.holding && l.Up {
			soonest(h.since.Add(h.hold))
		}
		l.Up = l.Up && !h.holding
		waited := l.Loopback || now.Sub(h.adminAt) >= settle
		l.Settled4, l.Settled6 = waited || own4[l.Name], waited || own6[l.Name]
		if !l.Settled4 || !l.Settled6 {
			soonest(h.adminAt.Add(settle))
		}
	}
	for name, h := range t.byName {
		if !seen[name] {
			h.lose(now)
			h.admin = false
			if now.Sub(h.since) > calm+holdMax {
				delete(t.byName, name)
			}
		}
	}
	t.started = true
	return again
}

func ownAddresses(list []plan.Address, protocol uint8) (own4, own6 map[string]bool) {
	own4, own6 = map[string]bool{}, map[string]bool{}
	for _, a := range list {
		switch ip := a.Prefix.Addr(); {
		case a.Protocol == protocol, !ip.IsGlobalUnicast():
		case ip.Is4():
			own4[a.Link] = true
		default:
			own6[a.Link] = true
		}
	}
	return own4, own6
}

// look brings the history of one link up to date.
func (t *Tracker) look(now time.Time, l plan.Link) *history {
	h, known := t.byName[l.Name]
	if !known {
		h = &history{index: l.Index, up: l.Up, since: now, admin: l.Admin, adminAt: now}
		if !t.started {
			h.adminAt = now.Add(-settle)
		}
		t.byName[l.Name] = h
		return h
	}
	if h.index != l.Index {
		h.lose(now) // removed and made again between two looks
		h.index, h.admin = l.Index, false
	}
	if l.Admin && !h.admin {
		h.adminAt = now
	}
	h.admin = l.Admin
	switch {
	case !l.Up:
		h.lose(now)
	case !h.up:
		h.up, h.since = true, now
	case h.holding && now.Sub(h.since) >= h.hold:
		h.holding = false
	}
	return h
}

// lose notes that the link is down and how long it will be held down after
// it comes back.
func (h *history) lose(now time.Time) {
	if !h.up {
		return
	}
	for kept := now.Sub(h.since); kept >= calm && h.hold > holdMin; kept -= calm {
		h.hold /= 2
	}
	switch kept := now.Sub(h.since); {
	case h.hold == 0 || kept >= calm:
		h.hold = max(h.hold, holdMin)
	default:
		h.hold = min(2*h.hold, holdMax)
	}
	h.up, h.since, h.holding = false, now, true
}
