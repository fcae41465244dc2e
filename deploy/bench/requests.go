package main

import (
	"context"
	"strings"
	"time"

	"github.com/vipod/vipod/deploy/trial"
)

// baselineLook is how long the lab's own requests are counted: it makes some
// every 10 s.
const baselineLook = 20 * time.Second

// window counts requests for a while.
func (w *world) window(ctx context.Context, d time.Duration) (trial.Requests, error) {
	before, err := w.Requests(ctx)
	if err != nil {
		return nil, err
	}
	if err := pause(ctx, d); err != nil {
		return nil, err
	}
	now, err := w.Requests(ctx)
	return now.Since(before), err
}

// quiet waits until the system has nothing more to write about Services.
func (w *world) quiet(ctx context.Context) error {
	for {
		c, err := w.window(ctx, 3*time.Second)
		if err != nil {
			return err
		}
		busy := 0.0
		for k, n := range c {
			if strings.Contains(k, " services") || strings.HasSuffix(k, " events") {
				busy += n
			}
		}
		if busy == 0 {
			return nil
		}
	}
}
