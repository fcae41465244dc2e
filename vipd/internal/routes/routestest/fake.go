// Package routestest has the routing table that tests run on.
package routestest

import (
	"fmt"
	"net/netip"

	"github.com/vipod/vipod/vipd/internal/routes"
)

// Fake is one table in memory. Foreign are routes of others by prefix.
type Fake struct {
	Routes  []routes.Route
	Foreign map[netip.Prefix]bool
	// Fail, when set, may give an operation an error instead of its effect.
	Fail func(routes.Op) error
	// Done are the operations that had an effect, in order.
	Done []routes.Op
}

// Observe implements routes.Kernel.
func (f *Fake) Observe(uint32, uint8) ([]routes.Route, error) { return f.Routes, nil }

// Do implements routes.Kernel.
func (f *Fake) Do(ops []routes.Op) []error {
	errs := make([]error, len(ops))
	for i, op := range ops {
		if f.Fail != nil {
			errs[i] = f.Fail(op)
		}
		if o, ok := op.(routes.Add); ok && f.Foreign[o.Prefix] {
			errs[i] = fmt.Errorf("making %q: %w", op, routes.ErrForeign)
		}
		if errs[i] == nil {
			f.Routes = routes.Apply(f.Routes, op)
			f.Done = append(f.Done, op)
		}
	}
	return errs
}
