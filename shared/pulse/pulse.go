// Package pulse finds out whether a loop still goes round.
package pulse

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Wait is how long a loop may take to come round before it is called stuck.
const Wait = 2 * time.Second

// Pulse is a question that a loop answers by receiving from C in its select.
type Pulse struct {
	name string
	c    chan struct{}
}

// New returns the pulse of the named loop.
func New(name string) *Pulse { return &Pulse{name: name, c: make(chan struct{})} }

// C is what the loop receives from.
func (p *Pulse) C() <-chan struct{} { return p.c }

// Answer answers a question that waits, in a loop that is busy for long.
func (p *Pulse) Answer() {
	select {
	case <-p.c:
	default:
	}
}

// Check returns an error if the loop does not come round before ctx ends.
func (p *Pulse) Check(ctx context.Context) error {
	select {
	case p.c <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s is stuck: %w", p.name, ctx.Err())
	}
}

// Check returns an error if one of the loops is stuck. What a loop found out
// is not its concern: a daemon that cannot reach what it needs is not helped
// by a restart.
func Check(ctx context.Context, loops ...*Pulse) error {
	ctx, cancel := context.WithTimeout(ctx, Wait)
	defer cancel()
	var errs []error
	for _, p := range loops {
		errs = append(errs, p.Check(ctx))
	}
	return errors.Join(errs...)
}
