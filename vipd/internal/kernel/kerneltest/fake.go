// Package kerneltest has the kernel that tests run on and the suite that
// holds it to the real one.
package kerneltest

import (
	"maps"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vipod/vipod/vipd/internal/plan"
)

// Fake is a kernel in memory. Its zero value has no links.
type Fake struct {
	State plan.Actual
	// Fail, when set, may give an operation an error instead of its effect.
	Fail func(plan.Op) error
	// Done are the operations that had an effect, in order.
	Done []plan.Op
	// Left is the last time given to each grant.
	Left map[plan.Grant]time.Duration
}

// Observe implements kernel.Kernel.
func (f *Fake) Observe() (plan.Actual, error) {
	a := f.State
	a.Links = slices.Clone(a.Links)
	a.Addresses = slices.Clone(a.Addresses)
	a.Fence.Vips, a.Fence.Open = maps.Clone(a.Fence.Vips), maps.Clone(a.Fence.Open)
	return a, nil
}

// Do implements kernel.Kernel.
func (f *Fake) Do(ops []plan.Op) []error {
	errs := make([]error, len(ops))
	var done []plan.Op
	for i, op := range ops {
		if errs[i] = f.check(op); errs[i] == nil && !f.noop(op) {
			done = append(done, op)
		}
	}
	f.State = plan.Apply(f.State, done...)
	f.Done = append(f.Done, done...)
	return errs
}

func (f *Fake) check(op plan.Op) error {
	if f.Fail != nil {
		if err := f.Fail(op); err != nil {
			return err
		}
	}
	if o, ok := op.(plan.AddAddress); ok && !slices.ContainsFunc(f.State.Links, func(l plan.Link) bool { return l.Name == o.Link }) {
		return unix.ENODEV
	}
	return nil
}

// noop says whether the kernel has the address of an addition, whose ever it
// is.
func (f *Fake) noop(op plan.Op) bool {
	o, ok := op.(plan.AddAddress)
	return ok && slices.ContainsFunc(f.State.Addresses, func(a plan.Address) bool {
		return a.Link == o.Link && a.Prefix == o.Prefix
	})
}

// SetGrant implements kernel.Kernel.
func (f *Fake) SetGrant(g plan.Grant, links []string, left time.Duration) error {
	if f.Left == nil {
		f.Left = map[plan.Grant]time.Duration{}
	}
	f.Left[g] = left
	open := maps.Clone(f.State.Fence.Open)
	if open == nil {
		open = map[plan.Grant][]string{}
	}
	if open[g] = nil; left > 0 {
		open[g] = slices.Sorted(slices.Values(links))
	}
	f.State.Fence.Open = open
	return nil
}
