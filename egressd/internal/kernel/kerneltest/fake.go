// Package kerneltest has the kernel that tests run on and the suite that
// holds it to the real one.
package kerneltest

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/vipod/vipod/egressd/internal/plan"
)

// Fake is a kernel in memory.
type Fake struct {
	State plan.Actual
	// Flows are the tracked connections.
	Flows []plan.Flow
	// Fail, when set, may give a transaction an error instead of its effect.
	Fail func([]plan.Op) error
	// Done are the operations that were made, in order; Transactions how many
	// there were, Observed how often the tables were read.
	Done                   []plan.Op
	Permitted              map[uint16]time.Duration
	Transactions, Observed int
}

// Observe implements kernel.Kernel.
func (f *Fake) Observe() (plan.Actual, error) {
	f.Observed++
	return plan.Apply(f.State), nil
}

// Do implements kernel.Kernel.
func (f *Fake) Do(ops []plan.Op) error {
	if f.Fail != nil {
		if err := f.Fail(ops); err != nil {
			return err
		}
	}
	state := f.State
	for _, op := range ops {
		if err := check(state, op); err != nil {
			return err
		}
		state = plan.Apply(state, op)
	}
	f.State = state
	f.Done = append(f.Done, ops...)
	f.Transactions++
	return nil
}

// check refuses what the kernel refuses.
func check(state plan.Actual, op plan.Op) error {
	switch o := op.(type) {
	case plan.AddElement:
		t, ok := state.Tables[o.Kind]
		if !ok {
			return fmt.Errorf("making %q: no such table", op)
		}
		chain, jumps := strings.CutPrefix(o.Value, "jump ")
		if _, there := t[plan.Lists][chain]; jumps && !there {
			return fmt.Errorf("making %q: no such chain", op)
		}
		if old, ok := t[o.Set][o.Key]; ok && old != o.Value {
			return fmt.Errorf("making %q: the element has another value", op)
		}
	case plan.DelElement:
		if _, ok := state.Tables[o.Kind][o.Set][o.Key]; !ok {
			return fmt.Errorf("making %q: no such element", op)
		}
		for _, set := range []string{plan.Narrowed + "4", plan.Narrowed + "6"} {
			for pod, value := range state.Tables[o.Kind][set] {
				if o.Set == plan.Lists && value == "jump "+o.Key {
					return fmt.Errorf("making %q: %s refers to it", op, pod)
				}
			}
		}
	}
	return nil
}

// Forget implements kernel.Kernel.
func (f *Fake) Forget(sources []netip.Addr, want func(plan.Flow) bool) (int, error) {
	before := len(f.Flows)
	f.Flows = slices.DeleteFunc(slices.Clone(f.Flows), func(x plan.Flow) bool {
		return (len(sources) == 0 || slices.Contains(sources, x.Source.Addr())) && want(x)
	})
	return before - len(f.Flows), nil
}

// Permit implements kernel.Kernel.
func (f *Fake) Permit(ports map[uint16]time.Duration) error {
	if _, ok := f.State.Tables[plan.Wireguard]; !ok && len(ports) > 0 {
		return errors.New("permitting tunnels: no such table")
	}
	f.Permitted = ports
	return nil
}

// Dropped implements kernel.Kernel.
func (f *Fake) Dropped() (map[plan.Kind]uint64, error) { return map[plan.Kind]uint64{}, nil }

// Lose removes a table behind everybody's back.
func (f *Fake) Lose(kind plan.Kind) {
	f.State.Tables = maps.Clone(f.State.Tables)
	delete(f.State.Tables, kind)
}
