package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/vipod/vipod/deploy/probe"
	"github.com/vipod/vipod/deploy/trial"
)

// steadySizes are how many Services there are.
var steadySizes = []int{10, 1000, 5000}

// steadyWindow is how long requests are counted for one value.
const steadyWindow = 20 * time.Second

// announced is how long addresses are announced again and again after they
// came.
const announced = 6 * time.Second

// steady counts requests to the API server, and announcements on the LAN,
// while nothing happens.
func steady(ctx context.Context, m *measuring) error {
	for _, n := range steadySizes {
		n := m.scaled(n)
		size := fmt.Sprint(n)
		b, err := m.fill(ctx, n)
		if err != nil {
			if err := m.failed(size, 0, err); err != nil {
				return err
			}
			continue
		}
		if err := pause(ctx, announced); err != nil {
			return err
		}
		err = m.each(ctx, size, m.large, func(ctx context.Context, _ int) ([]value, error) {
			return m.world.nothing(ctx, steadyWindow)
		})
		if err != nil {
			return err
		}
		if err := m.empty(ctx, b); err != nil {
			return err
		}
	}
	return nil
}

// nothing counts requests and announcements for a while.
func (w *world) nothing(ctx context.Context, d time.Duration) ([]value, error) {
	capture, err := w.capture()
	if err != nil {
		return nil, err
	}
	defer capture.Close()
	begin := time.Now()
	c, err := w.window(ctx, d)
	if err != nil {
		return nil, err
	}
	frames := 0
	for _, f := range capture.Frames() {
		if at := f.Time.Sub(begin); f.Unsolicited && at >= 0 && at < d {
			frames++
		}
	}
	return append(w.beyond(c.Rates(d)), value{"announcements", "frames/s", float64(frames) / d.Seconds()}), nil
}

// capture begins to capture ARP and NA frames at the client.
func (w *world) capture() (capture *probe.Capture, err error) {
	err = w.InNS(client, func() error {
		capture, err = probe.Listen(iface)
		return err
	})
	return capture, err
}

// beyond says what was asked beyond what the lab itself asks.
func (w *world) beyond(rates map[string]float64) []value {
	var values []value
	var objects, health float64
	for _, kind := range slices.Sorted(maps.Keys(rates)) {
		rate := max(0, rates[kind]-w.own[kind])
		values = append(values, value{kind, "requests/s", rate})
		if trial.IsHealth(kind) {
			health += rate
		} else {
			objects += rate
		}
	}
	return append(values, value{"requests", "requests/s", objects}, value{"health checks", "requests/s", health})
}

// fillTime is how long making many Services and the system's quiet after it
// may take.
const fillTime = 8 * time.Minute

// fill makes Services and waits until the system has done all about them.
// Where that fails the lab is made anew.
func (m *measuring) fill(ctx context.Context, n int) (*batch, error) {
	b, err := m.tryFill(ctx, n)
	if err == nil || ctx.Err() != nil {
		return b, err
	}
	return nil, errors.Join(err, m.leave(), m.enter(ctx))
}

func (m *measuring) tryFill(ctx context.Context, n int) (*batch, error) {
	ctx, cancel := context.WithTimeout(ctx, fillTime)
	defer cancel()
	b, err := m.world.batch(n)
	if err != nil {
		return nil, err
	}
	s, err := b.sweep()
	if err != nil {
		return nil, err
	}
	defer s.Stop()
	begin := time.Now()
	if err := b.create(ctx); err != nil {
		return nil, err
	}
	if err := b.awaitAll(ctx, s); err != nil {
		return nil, err
	}
	if err := m.world.quiet(ctx); err != nil {
		return nil, err
	}
	m.say("  %d Services, all written about after %v", n, time.Since(begin).Round(time.Second))
	return b, nil
}

// empty removes a batch; where that fails the lab is made anew.
func (m *measuring) empty(ctx context.Context, b *batch) error {
	removeCtx, cancel := context.WithTimeout(ctx, fillTime)
	defer cancel()
	err := b.remove(removeCtx)
	if err == nil || ctx.Err() != nil {
		return ctx.Err()
	}
	m.say("  a new lab, since Services could not be removed: %v", err)
	if err := m.leave(); err != nil {
		return err
	}
	return m.enter(ctx)
}
