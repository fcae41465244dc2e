// Package trigger wakes a level-triggered loop: any number of events become
// one wake-up, which says that something may have changed and never what.
package trigger

import (
	"context"
	"math/rand/v2"
	"time"
)

// Trigger is a wake-up that coalesces. The zero value is not usable.
type Trigger struct {
	c chan struct{}
}

// New returns a trigger that has not fired.
func New() *Trigger { return &Trigger{c: make(chan struct{}, 1)} }

// Fire wakes the loop; it never blocks. Firing before the loop has woken has
// no further effect.
func (t *Trigger) Fire() {
	select {
	case t.c <- struct{}{}:
	default:
	}
}

// C is what the loop receives from.
func (t *Trigger) C() <-chan struct{} { return t.c }

// Resync fires the trigger at random intervals between low and high until ctx
// ends. It stands behind every watch, whose events may be lost.
func (t *Trigger) Resync(ctx context.Context, low, high time.Duration) {
	for {
		timer := time.NewTimer(low + rand.N(high-low+1))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
			t.Fire()
		}
	}
}

// Backoff is the waiting time of something that is tried again: it doubles
// from Min to Max with every failure and is spread by a fifth, so that several
// do not try in step.
type Backoff struct {
	Min, Max time.Duration

	next time.Duration
}

// Failed returns how long to wait after one more failure.
func (b *Backoff) Failed() time.Duration {
	wait := max(b.next, b.Min)
	b.next = min(2*wait, b.Max)
	return wait - wait/10 + rand.N(wait/5+1)
}

// Reset ends a series of failures.
func (b *Backoff) Reset() { b.next = 0 }
