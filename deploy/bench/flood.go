package main

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vipod/vipod/deploy/probe"
	"github.com/vipod/vipod/deploy/trial"
)

const (
	// floodSize is how many VIPs the owner has that is lost.
	floodSize = 1000
	// floodLook is how long requests are counted after a loss.
	floodLook = 20 * time.Second
)

// flood cuts off the owner of many VIPs.
func flood(ctx context.Context, m *measuring) error {
	first := m.world.Nodes()[0]
	for _, node := range m.world.Nodes()[1:] {
		m.world.off[node] = true
		if err := m.world.stop(ctx, node); err != nil {
			return err
		}
	}
	b, err := m.fill(ctx, m.scaled(floodSize))
	if err != nil {
		return m.failed("", 0, err)
	}
	clear(m.world.off)
	if err := m.mend(ctx); err != nil {
		return err
	}
	return m.each(ctx, "", m.large, func(ctx context.Context, _ int) ([]value, error) {
		if err := m.world.gather(ctx, b, first); err != nil {
			return nil, err
		}
		values, err := m.world.lose(ctx, b, first)
		return values, err
	})
}

// stop ends the system on a node in order.
func (w *world) stop(ctx context.Context, node string) error {
	if err := w.signal(node, unix.SIGTERM); err != nil {
		return err
	}
	return w.AwaitEnd(ctx, node, w.sys.programs()...)
}

// gather brings all VIPs to one node: the others are stopped and started
// again.
func (w *world) gather(ctx context.Context, b *batch, node string) error {
	for _, other := range w.Nodes() {
		if other == node {
			continue
		}
		if err := w.stop(ctx, other); err != nil {
			return err
		}
	}
	err := w.Await(ctx, "all VIPs are on "+node, func(ctx context.Context) (bool, error) {
		have, err := b.presentOn(node)
		return have == len(b.addrs), errors.Join(err, pause(ctx, poll))
	})
	if err != nil {
		return err
	}
	if err := w.mend(ctx); err != nil {
		return err
	}
	// What it writes about the move goes on for long and ends with it.
	return pause(ctx, announced)
}

// poll is the time between two looks that are not free.
const poll = 100 * time.Millisecond

// lose cuts the owner of all VIPs off and watches how the others take over.
func (w *world) lose(ctx context.Context, b *batch, owner string) ([]value, error) {
	capture, err := w.capture()
	if err != nil {
		return nil, err
	}
	defer capture.Close()
	meter := w.meter(ctx, floodLook)
	begin := time.Now()
	if err := w.cutOff(ctx, owner); err != nil {
		return nil, err
	}
	s, err := b.sweep()
	if err != nil {
		return nil, err
	}
	err = b.awaitAll(ctx, s)
	seen := s.Stop()
	if err != nil {
		return nil, err
	}
	rates, err := meter()
	if err != nil {
		return nil, err
	}
	return append(b.back(begin, seen, capture.Frames()), rates...), nil
}

// back says when the addresses came back, and how fast they were announced.
func (b *batch) back(begin time.Time, seen map[netip.Addr]probe.Swept, frames []probe.Frame) []value {
	var first, last time.Time
	for _, v := range seen {
		if first.IsZero() || v.Answered.Before(first) {
			first = v.Answered
		}
		if v.Answered.After(last) {
			last = v.Answered
		}
	}
	var times []time.Time
	for _, f := range frames {
		if f.Unsolicited && f.Time.After(begin) {
			times = append(times, f.Time)
		}
	}
	return []value{
		{"first answers again", "ms", ms(first.Sub(begin))},
		{"from the first to the last", "ms", ms(last.Sub(first))},
		{"announcements, busiest 100 ms", "frames/s", busiest(times, 100*time.Millisecond)},
		{"announcements, busiest second", "frames/s", busiest(times, time.Second)},
	}
}

// busiest returns the highest rate of events, a second, within any stretch of
// the length. The times are in order.
func busiest(times []time.Time, length time.Duration) float64 {
	most, from := 0, 0
	for i, t := range times {
		for t.Sub(times[from]) >= length {
			from++
		}
		most = max(most, i-from+1)
	}
	return float64(most) / length.Seconds()
}

// meter counts the requests of each second for a while.
func (w *world) meter(ctx context.Context, d time.Duration) (result func() ([]value, error)) {
	var seconds []float64
	var failed error
	var running sync.WaitGroup
	running.Go(func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		before, err := w.Requests(ctx)
		for range int(d / time.Second) {
			if failed = err; err != nil {
				return
			}
			select {
			case <-ctx.Done():
				failed = ctx.Err()
				return
			case <-tick.C:
			}
			var now trial.Requests
			now, err = w.Requests(ctx)
			seconds = append(seconds, now.Since(before).Objects())
			before = now
		}
		failed = err
	})
	return func() ([]value, error) {
		running.Wait()
		if failed != nil {
			return nil, failed
		}
		return []value{
			{"requests, busiest second", "requests/s", slices.Max(seconds)},
			{"requests, busiest 10 s", "requests/s", busiestMean(seconds, 10)},
		}, nil
	}
}

// busiestMean returns the highest mean of n values that follow each other.
func busiestMean(values []float64, n int) float64 {
	most := 0.0
	for i := range len(values) - n + 1 {
		sum := 0.0
		for _, v := range values[i : i+n] {
			sum += v
		}
		most = max(most, sum/float64(n))
	}
	return most
}
