// Package names follows DNS names that stand in the place of addresses: it asks
// again when a record's time to live is over, keeps the last answer while there
// is none, and lets the address before a change stay for a while, so that a VIP
// moves to the new one without a gap.
package names

import (
	"net/netip"
	"slices"
	"time"
)

// Times of following a name.
const (
	// least and most bound the time between two questions, whatever a record's
	// time to live.
	least = 2 * time.Second
	most  = time.Hour
	// retryMin and retryMax bound the wait after a question that was not
	// answered; it doubles.
	retryMin = time.Second
	retryMax = 30 * time.Second
	// Overlap is how long the address before a change stays.
	Overlap = 10 * time.Second
)

// Answer is what a name stands for now.
type Answer struct {
	// IPv4 and IPv6 are the address of each family, followed by those that are
	// on their way out.
	IPv4, IPv6 []netip.Addr
	// Problem says why there is no newer answer, "" if there is one. Without
	// both there was no answer yet.
	Problem string
}

// Empty says whether the name stands for nothing.
func (a Answer) Empty() bool { return len(a.IPv4)+len(a.IPv6) == 0 }

func (a Answer) equal(b Answer) bool {
	return slices.Equal(a.IPv4, b.IPv4) && slices.Equal(a.IPv6, b.IPv6) && a.Problem == b.Problem
}

// table is what is known of each name. It has no clock.
type table map[string]*entry

type entry struct {
	four, six family
	problem   string
	due       time.Time
	asking    bool
	retry     time.Duration
}

// family is one family's addresses of a name.
type family struct {
	now netip.Addr
	old []leaving
}

type leaving struct {
	ip    netip.Addr
	until time.Time
}

// want makes the table one of these names.
func (t table) want(names []string) {
	for name := range t {
		if !slices.Contains(names, name) {
			delete(t, name)
		}
	}
	for _, name := range names {
		if t[name] == nil {
			t[name] = &entry{}
		}
	}
}

// next returns a name that is to be asked for now, or when there is something
// to do.
func (t table) next(now time.Time) (name string, at time.Time) {
	at = now.Add(most)
	for n, e := range t {
		switch {
		case e.asking:
		case !e.due.After(now) && (name == "" || n < name):
			name = n
		case e.due.Before(at):
			at = e.due
		}
		for _, f := range []*family{&e.four, &e.six} {
			for _, o := range f.old {
				if o.until.Before(at) {
					at = o.until
				}
			}
		}
	}
	if name != "" {
		t[name].asking = true
	}
	return name, at
}

// take takes the answer to a question, or why there was none. A name that has
// no address any more is such a failure as well: the last answer stays.
func (t table) take(now time.Time, name string, found []netip.Addr, ttl time.Duration, problem string) {
	e := t[name]
	if e == nil {
		return // not wanted any more
	}
	e.asking, e.problem = false, problem
	if problem != "" {
		e.retry = min(max(2*e.retry, retryMin), retryMax)
		e.due = now.Add(e.retry)
		return
	}
	e.retry, e.due = 0, now.Add(min(max(ttl, least), most))
	var four, six []netip.Addr
	for _, ip := range found {
		if ip = ip.Unmap().WithZone(""); ip.Is4() {
			four = append(four, ip)
		} else {
			six = append(six, ip)
		}
	}
	e.four.take(now, four)
	e.six.take(now, six)
}

// take keeps the address that is in use while the answer has it, and else takes
// the lowest, which every node takes.
func (f *family) take(now time.Time, found []netip.Addr) {
	if slices.Contains(found, f.now) {
		return
	}
	before := f.now
	f.now = netip.Addr{}
	if len(found) > 0 {
		f.now = slices.MinFunc(found, netip.Addr.Compare)
	}
	f.old = slices.DeleteFunc(f.old, func(o leaving) bool { return o.ip == f.now })
	if before.IsValid() {
		f.old = append(f.old, leaving{before, now.Add(Overlap)})
	}
}

func (f *family) list(now time.Time) []netip.Addr {
	f.old = slices.DeleteFunc(f.old, func(o leaving) bool { return !o.until.After(now) })
	var list []netip.Addr
	if f.now.IsValid() {
		list = append(list, f.now)
	}
	for _, o := range f.old {
		list = append(list, o.ip)
	}
	if len(list) > 1 {
		slices.SortStableFunc(list[1:], netip.Addr.Compare)
	}
	return list
}

// answers returns all that is known.
func (t table) answers(now time.Time) map[string]Answer {
	all := make(map[string]Answer, len(t))
	for name, e := range t {
		all[name] = Answer{IPv4: e.four.list(now), IPv6: e.six.list(now), Problem: e.problem}
	}
	return all
}
