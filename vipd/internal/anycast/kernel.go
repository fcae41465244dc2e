package anycast

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/vipod/vipod/shared/netsafe"
)

// Kernel makes and observes our routes; Linux is the real one.
type Kernel interface {
	// Observe returns the routes that have the protocol, by address.
	Observe(protocol uint8) ([]Route, error)
	// Do makes the operations and returns an error or nil for each.
	Do(ops []Op) []error
	// Spread has the kernel spread connections by their ports, too, and not by
	// addresses alone.
	Spread() error
}

// ErrForeign is a route of somebody else's in the place of ours.
var ErrForeign = errors.New("there is a route of somebody else's for it")

// Linux is the kernel of this machine.
type Linux struct{}

// Observe implements Kernel.
func (Linux) Observe(protocol uint8) ([]Route, error) {
	list, err := netsafe.ViaRoutes(unix.RT_TABLE_MAIN, protocol)
	out := make([]Route, 0, len(list))
	for _, r := range list {
		out = append(out, Route{r.IP, r.Via})
	}
	return out, err
}

// Do implements Kernel.
func (Linux) Do(ops []Op) []error {
	changes := make([]netsafe.ViaChange, 0, len(ops))
	of := func(kind netsafe.ChangeKind, r Route, protocol uint8) netsafe.ViaChange {
		return netsafe.ViaChange{Kind: kind, Route: netsafe.ViaRoute{
			IP: r.IP, Table: unix.RT_TABLE_MAIN, Protocol: protocol, Via: r.Via,
		}}
	}
	for _, op := range ops {
		switch o := op.(type) {
		case Add:
			changes = append(changes, of(netsafe.Add, o.Route, o.Protocol))
		case Change:
			changes = append(changes, of(netsafe.Replace, o.Route, o.Protocol))
		case Delete:
			changes = append(changes, of(netsafe.Delete, o.Route, o.Protocol))
		}
	}
	errs := netsafe.ChangeViaRoutes(changes)
	for i, err := range errs {
		errs[i] = outcome(ops[i], err)
	}
	return errs
}

// outcome folds "gone already" into success.
func outcome(op Op, err error) error {
	_, deleting := op.(Delete)
	switch {
	case err == nil, deleting && (errors.Is(err, unix.ESRCH) || netsafe.Gone(err)):
		return nil
	case errors.Is(err, unix.EEXIST):
		return fmt.Errorf("making %q: %w", op, ErrForeign)
	}
	return fmt.Errorf("making %q: %w", op, err)
}

// byPorts is the policy of Spread, ip-sysctl of the kernel's documentation.
const byPorts = "1"

// Spread implements Kernel.
func (Linux) Spread() error {
	var errs []error
	for _, family := range []string{"ipv4", "ipv6"} {
		name := "/proc/sys/net/" + family + "/fib_multipath_hash_policy"
		if now, err := os.ReadFile(name); err == nil && len(now) > 0 && string(now[:1]) == byPorts {
			continue
		}
		if err := set(name, byPorts); err != nil {
			errs = append(errs, fmt.Errorf("spreading connections by ports: %w", err))
		}
	}
	return errors.Join(errs...)
}

// set writes to a file of the kernel's, for which NET_ADMIN is enough where
// /proc/sys can be written to at all.
func set(name, value string) error {
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}
