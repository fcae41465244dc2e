package main

import "context"

// cutOff takes the owner off the LAN, and brings it back when another node
// has taken over.
func cutOff(ctx context.Context, m *measuring) error {
	return m.each(ctx, "", m.trials, func(ctx context.Context, _ int) ([]value, error) {
		w := m.world
		f, err := w.strike(ctx, w.cutOff)
		if err != nil {
			return nil, err
		}
		defer f.stop()
		if err := f.successor(ctx); err != nil {
			return nil, err
		}
		if err := pause(ctx, after/3); err != nil {
			return nil, err
		}
		if err := w.heal(ctx, f.owner); err != nil {
			return nil, err
		}
		if err := pause(ctx, after); err != nil {
			return nil, err
		}
		seen := f.stop()
		values, first := f.announcements(seen)
		values = append(values, silence(seen)...)
		values = append(values, twoOwners(seen, 1))
		return append(values, f.sinceClaim(first)...), nil
	})
}
