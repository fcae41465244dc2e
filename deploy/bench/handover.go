package main

import (
	"context"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vipod/vipod/deploy/probe"
	"github.com/vipod/vipod/deploy/trial"
)

const (
	// calm is how long a trial looks before anything happens.
	calm = 300 * time.Millisecond
	// after is how long it looks when everything has happened.
	after = time.Second
)

// fault is what happens to the owner in a trial.
type fault struct {
	w     *world
	owner string
	mac   probe.MAC
	begin time.Time
	logs  *electorLogs
	watch *trial.Watch
	seen  []trial.Seen // once the watch has ended
}

// strike finds the owner, watches, and does something to the owner.
func (w *world) strike(ctx context.Context, do func(context.Context, string) error) (f *fault, err error) {
	f = &fault{w: w}
	if f.owner, err = w.aim(ctx); err != nil {
		return nil, err
	}
	if f.mac, err = w.MAC(f.owner); err != nil {
		return nil, err
	}
	f.logs = w.electorLogs()
	if f.watch, err = w.Watch(targets()...); err != nil {
		return nil, err
	}
	err = pause(ctx, calm)
	if err == nil {
		f.begin = time.Now()
		err = do(ctx, f.owner)
	}
	if err != nil {
		f.stop()
		return nil, err
	}
	return f, nil
}

// stop ends the watch and returns what it saw; it may be called again.
func (f *fault) stop() []trial.Seen {
	if f.seen == nil {
		f.seen = f.watch.Stop()
	}
	return f.seen
}

// successor waits until another machine has announced every target.
func (f *fault) successor(ctx context.Context) error {
	return f.w.Await(ctx, "another node announces the VIP", func(context.Context) (bool, error) {
		for _, t := range targets() {
			if _, ok := firstOf(f.watch.Claims(t.IP), f.announced); !ok {
				return false, nil
			}
		}
		return true, nil
	})
}

// announced says whether another machine announces the address unasked, after
// the fault.
func (f *fault) announced(frame probe.Frame) bool { return frame.Unsolicited && f.foreign(frame) }

// foreign says whether the frame is of another machine, after the fault.
func (f *fault) foreign(frame probe.Frame) bool {
	return frame.Sender != f.mac && frame.Time.After(f.begin)
}

func firstOf(frames []probe.Frame, is func(probe.Frame) bool) (probe.Frame, bool) {
	for _, f := range frames {
		if is(f) {
			return f, true
		}
	}
	return probe.Frame{}, false
}

// families names the targets in their order.
var families = []string{"IPv4", "IPv6"}

// lost counts the questions without an answer, by kind.
func lost(seen []trial.Seen) []value {
	var values []value
	total := 0
	for i, s := range seen {
		values = append(values,
			value{"lost ICMP " + families[i], "probes", float64(s.ICMP.Lost())},
			value{"lost UDP " + families[i], "probes", float64(s.UDP.Lost())})
		total += s.ICMP.Lost() + s.UDP.Lost()
	}
	return append(values, value{"lost", "probes", float64(total)})
}

// silence is the longest time without an answer, by kind.
func silence(seen []trial.Seen) []value {
	var values []value
	var longest time.Duration
	for i, s := range seen {
		values = append(values,
			value{"silence ICMP " + families[i], "ms", ms(s.ICMP.Gap)},
			value{"silence UDP " + families[i], "ms", ms(s.UDP.Gap)})
		longest = max(longest, s.Outage())
	}
	return append(values, value{"silence", "ms", ms(longest)})
}

// twoOwners counts the targets that two machines claimed in turns.
func twoOwners(seen []trial.Seen, moves int) value {
	n := 0
	for _, s := range seen {
		if s.Exclusive(moves) != nil {
			n++
		}
	}
	return value{"two owners", "addresses", float64(n)}
}

// announcements are the successor's first frames, from the fault on.
func (f *fault) announcements(seen []trial.Seen) (values []value, first []probe.Frame) {
	for i, what := range []string{"first GARP", "first NA"} {
		if frame, ok := firstOf(seen[i].Claims, f.announced); ok {
			values = append(values, value{what, "ms", ms(frame.Time.Sub(f.begin))})
			first = append(first, frame)
		}
	}
	if len(first) == 2 {
		values = append(values, value{"NA after GARP", "ms", ms(first[1].Time.Sub(first[0].Time))})
	}
	return values, first
}

// handover stops all programs of the owner in order.
func handover(ctx context.Context, m *measuring) error {
	return m.each(ctx, "", m.trials, func(ctx context.Context, _ int) ([]value, error) {
		w := m.world
		f, err := w.strike(ctx, func(_ context.Context, node string) error { return w.signal(node, unix.SIGTERM) })
		if err != nil {
			return nil, err
		}
		defer f.stop()
		if err := f.successor(ctx); err != nil {
			return nil, err
		}
		if err := pause(ctx, after); err != nil {
			return nil, err
		}
		seen := f.stop()
		if err := w.AwaitEnd(ctx, f.owner, w.sys.programs()...); err != nil {
			return nil, err
		}
		values, first := f.announcements(seen)
		values = append(values, lost(seen)...)
		values = append(values, silence(seen)...)
		values = append(values, twoOwners(seen, 1))
		return append(values, f.sinceClaim(first)...), nil
	})
}
