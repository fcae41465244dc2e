// Package kernel makes the plan's operations in the Linux kernel and reads
// back what is there: nftables tables of the inet family, and the connections
// that are tracked. All of it needs CAP_NET_ADMIN. It works in the network
// namespace of the calling thread.
package kernel

import (
	"net/netip"
	"time"

	"github.com/vipod/vipod/egressd/internal/plan"
)

// Kernel is what the reconciler needs; Linux is the real one and
// kerneltest.Fake the other, and one suite of tests holds both to the same.
type Kernel interface {
	// Observe reads everything that the plan looks at.
	Observe() (plan.Actual, error)
	// Do makes the operations as one transaction: all or none.
	Do(ops []plan.Op) error
	// Forget removes tracked connections of the sources, or of anybody if
	// none is named, for which want is true. It returns how many.
	Forget(sources []netip.Addr, want func(plan.Flow) bool) (int, error)
	// Permit lets tunnels send from ports, each for that long from now.
	Permit(ports map[uint16]time.Duration) error
	// Dropped returns how many packets each table has dropped since it was
	// made.
	Dropped() (map[plan.Kind]uint64, error)
}

// Linux is the kernel of this machine, with the tables of one instance. It is
// not safe for concurrent use, but for Ours.
type Linux struct {
	tables   tables
	tracking tracking
}

// NewLinux returns the kernel.
func NewLinux(instance string) *Linux { return &Linux{tables: tables{instance: instance}} }

// Observe implements Kernel.
func (k *Linux) Observe() (plan.Actual, error) { return k.tables.observe() }

// Do implements Kernel.
func (k *Linux) Do(ops []plan.Op) error { return k.tables.do(ops) }

// Forget implements Kernel.
func (k *Linux) Forget(sources []netip.Addr, want func(plan.Flow) bool) (int, error) {
	return k.tracking.forget(sources, want)
}

// Dropped implements Kernel.
func (k *Linux) Dropped() (map[plan.Kind]uint64, error) { return k.tables.dropped() }

// Close gives up what is kept open between calls.
func (k *Linux) Close() error { return k.tables.close() }

// Ours says whether a notification of nf_tables with that port number is about
// a transaction of this process. It may be called from anywhere.
func (k *Linux) Ours(port uint32) bool { return port != 0 && k.tables.port.Load() == port }
