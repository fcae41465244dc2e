// Package pulse finds out whether a loop still goes round.
package pulse

import (
	"context"
	"fmt"
)

// Pulse is a question that a loop answers by receiving from C in its select.
type Pulse struct {
	name string
	c    chan struct{}
}

// New returns the pulse of the named loop.
func New(name string) *Pulse { return &Pulse{name: name, c: make(chan struct{})} }

// C is what the loop receives from.
func (p *Pulse) C() <-chan struct{} { return p.c }

// Check returns an error if the loop does not come round before ctx ends.
func (p *Pulse) Check(ctx context.Context) error {
	select {
	case p.c <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s is stuck: %w", p.name, ctx.Err())
	}
}
