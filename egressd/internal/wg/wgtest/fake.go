// Package wgtest has the kernel that tests of tunnels run on and the suite
// that holds it to the real one.
package wgtest

import (
	"fmt"
	"maps"
	"slices"

	"github.com/vipod/vipod/egressd/internal/tunnel"
)

// Fake is a kernel in memory.
type Fake struct {
	State tunnel.Actual
	// Fail, when set, may give an operation an error instead of its effect.
	Fail func(tunnel.Op) error
	// Done are the operations that were made, in order.
	Done []tunnel.Op
}

// Observe implements wg.Kernel.
func (f *Fake) Observe(alias string, names []string) (tunnel.Actual, error) {
	seen := tunnel.Actual{Links: maps.Clone(f.State.Links)}
	maps.DeleteFunc(seen.Links, func(name string, l tunnel.Link) bool {
		return !l.Ours(alias) && !slices.Contains(names, name)
	})
	return seen, nil
}

// Do implements wg.Kernel.
func (f *Fake) Do(op tunnel.Op) error {
	if f.Fail != nil {
		if err := f.Fail(op); err != nil {
			return err
		}
	}
	if err := f.check(op); err != nil {
		return err
	}
	f.State = tunnel.Apply(f.State, op)
	f.Done = append(f.Done, op)
	return nil
}

// check refuses what the kernel refuses.
func (f *Fake) check(op tunnel.Op) error {
	name := ""
	switch o := op.(type) {
	case tunnel.Add:
		if _, ok := f.State.Links[o.Name]; ok {
			return fmt.Errorf("making %q: it is there", op)
		}
	case tunnel.Configure:
		name = o.Tunnel.Name
	case tunnel.SetUp:
		name = o.Name
	case tunnel.Route:
		name = o.Name
		if !f.State.Links[name].Up {
			return fmt.Errorf("making %q: the link is down", op)
		}
	}
	if _, ok := f.State.Links[name]; name != "" && !ok {
		return fmt.Errorf("making %q: no such link", op)
	}
	return nil
}
