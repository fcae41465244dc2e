// Package kerneltest is a kernel in memory, and the suite that holds both it
// and the real one to what the plan's model says.
package kerneltest

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"

	"github.com/vipod/vipod/linkd/internal/kernel"
	"github.com/vipod/vipod/linkd/internal/plan"
)

// Fake is a Kernel in memory. Its fields may be changed between calls.
type Fake struct {
	mu    sync.Mutex
	links []plan.Link
	// Broken are the errors of operations on links of these names.
	Broken map[string]error
	// Blind is the error of Observe.
	Blind error
	// Done are the operations that were made.
	Done []string
	next int
}

// New returns a kernel with the links.
func New(links ...plan.Link) *Fake {
	f := &Fake{links: links, Broken: map[string]error{}, next: 100}
	return f
}

// Observe implements kernel.Kernel. Every link that is up has a link-local
// address.
func (f *Fake) Observe() (kernel.State, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.Blind != nil {
		return kernel.State{}, f.Blind
	}
	s := kernel.State{Actual: plan.Actual{Links: slices.Clone(f.links)}, LinkLocal: map[int]netip.Addr{}}
	for _, l := range f.links {
		if l.Admin {
			s.LinkLocal[l.Index] = netip.MustParseAddr(fmt.Sprintf("fe80::%x", l.Index))
		}
	}
	return s, nil
}

// errRefused is the kernel's refusal of an operation that the model does not
// carry out.
var errRefused = errors.New("refused")

// Do implements kernel.Kernel.
func (f *Fake) Do(op plan.Op) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.Broken[op.Of()]; err != nil {
		return fmt.Errorf("making %q: %w", op, err)
	}
	before := plan.Actual{Links: f.links}
	after := plan.Apply(before, op)
	if add, ok := op.(plan.Add); ok {
		i := slices.IndexFunc(after.Links, func(l plan.Link) bool { return l.Name == add.Name && l.Alias == add.Alias })
		if i < 0 {
			return fmt.Errorf("making %q: %w", op, errRefused)
		}
		f.next++
		after.Links[i].Index = f.next // an index is never used again
	}
	f.links, f.Done = after.Links, append(f.Done, op.String())
	return nil
}

// Set puts a link there as somebody else would, or changes it.
func (f *Fake) Set(l plan.Link) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.links = append(slices.DeleteFunc(f.links, func(o plan.Link) bool { return o.Name == l.Name }), l)
}

// Remove removes a link as somebody else would.
func (f *Fake) Remove(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, l := range f.links {
		if l.Name == name {
			f.links = plan.Apply(plan.Actual{Links: f.links}, plan.Delete{Name: name, Index: l.Index}).Links
			return
		}
	}
}
