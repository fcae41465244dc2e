package main

import (
	"context"
	"time"

	"golang.org/x/sys/unix"
)

// freeze stops all programs of the owner in their tracks for longer than its
// Lease lasts, and lets them go on.
func freeze(ctx context.Context, m *measuring) error {
	return m.each(ctx, "", m.trials, func(ctx context.Context, _ int) ([]value, error) {
		w := m.world
		f, err := w.strike(ctx, func(_ context.Context, node string) error { return w.signal(node, unix.SIGSTOP) })
		if err != nil {
			return nil, err
		}
		defer f.stop()
		if err := f.successor(ctx); err != nil {
			return nil, err
		}
		frozen := time.Duration(w.setup.duration)*time.Second + time.Second
		if err := pause(ctx, frozen-time.Since(f.begin)); err != nil {
			return nil, err
		}
		if err := w.signal(f.owner, unix.SIGCONT); err != nil {
			return nil, err
		}
		if err := pause(ctx, after); err != nil {
			return nil, err
		}
		seen := f.stop()
		values, _ := f.announcements(seen)
		values = append(values, silence(seen)...)
		return append(values, twoOwners(seen, 1)), nil
	})
}
