package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// steadySizes are how many Services there are.
var steadySizes = []int{10, 1000, 5000}

// steadyWindow is how long requests are counted for one value.
const steadyWindow = 20 * time.Second

// steady counts requests to the API server while nothing happens.
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
		err = m.each(ctx, size, m.large, func(ctx context.Context, _ int) ([]value, error) {
			c, err := m.world.window(ctx, steadyWindow)
			if err != nil {
				return nil, err
			}
			return m.world.beyond(c.rates(steadyWindow)), nil
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

// beyond says what was asked beyond what the lab itself asks.
func (w *world) beyond(rates map[string]float64) []value {
	var values []value
	var objects, health float64
	for _, kind := range slices.Sorted(maps.Keys(rates)) {
		rate := max(0, rates[kind]-w.own[kind])
		values = append(values, value{kind, "requests/s", rate})
		if isHealth(kind) {
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
