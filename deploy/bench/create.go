package main

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/vipod/vipod/deploy/bench/result"
	"github.com/vipod/vipod/deploy/probe"
)

// sizes are how many Services are made at once.
var sizes = []int{300, 1000, 5000}

// create makes Services in parallel as fast as the API server takes them and
// looks when each is announced and answers.
func create(ctx context.Context, m *measuring) error {
	for _, n := range sizes {
		n := m.scaled(n)
		err := m.each(ctx, fmt.Sprint(n), m.large, func(ctx context.Context, trial int) ([]value, error) {
			b, err := m.world.batch(n)
			if err != nil {
				return nil, err
			}
			s, err := b.sweep()
			if err != nil {
				return nil, err
			}
			defer m.profile(fmt.Sprintf("create-%d-%d", n, trial))()
			begin := time.Now()
			err = b.create(ctx)
			if err == nil {
				err = b.awaitAll(ctx, s)
			}
			seen := s.Stop()
			if err != nil {
				return nil, err
			}
			values := append([]value{{"creation of all", "s", b.last.Sub(begin).Seconds()}}, b.came(seen)...)
			if err := m.detail(fmt.Sprintf("create-%d-%d", n, trial), b, seen); err != nil {
				return nil, err
			}
			return values, b.remove(ctx)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// came says when the addresses came, from their Services' creation and from
// the last creation of all on.
func (b *batch) came(seen map[netip.Addr]probe.Swept) []value {
	var announced, answered result.Series
	var last time.Time
	for i, addr := range b.addrs {
		v := seen[addr]
		first := v.Announced
		if first.IsZero() {
			first = v.Found // asked before it was announced
		}
		announced.Values = append(announced.Values, ms(first.Sub(b.made[i])))
		answered.Values = append(answered.Values, ms(v.Answered.Sub(b.made[i])))
		if v.Answered.After(last) {
			last = v.Answered
		}
	}
	slices.Sort(announced.Values)
	slices.Sort(answered.Values)
	return []value{
		{"last creation until all answer", "s", max(0, last.Sub(b.last).Seconds())},
		{"announced after creation, p50", "ms", announced.P50()},
		{"announced after creation, p99", "ms", announced.P99()},
		{"announced after creation, max", "ms", announced.Max()},
		{"answering after creation, p50", "ms", answered.P50()},
		{"answering after creation, p99", "ms", answered.P99()},
	}
}
