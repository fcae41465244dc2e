// Package kernel makes the plan's operations in the Linux kernel and reads
// back what is there. Addresses go over rtnetlink, the fence over nf_tables;
// both need CAP_NET_ADMIN. It works in the network namespace of the calling
// thread.
package kernel

import (
	"fmt"
	"time"

	"github.com/vipod/vipod/vipd/internal/plan"
)

// Kernel is what the reconciler needs; Linux is the real one and
// kerneltest.Fake the other, and one suite of tests holds both to the same.
type Kernel interface {
	// Observe reads everything that the plan looks at.
	Observe() (plan.Actual, error)
	// Do makes operations of one stage and returns an error or nil for each.
	// An object that is there already, or gone already, is no error.
	Do(ops []plan.Op) []error
	// SetGrant lets this node claim the grant's VIPs on the links for the
	// time left; with none left it closes the fence at once.
	SetGrant(g plan.Grant, links []string, left time.Duration) error
}

// Linux is the kernel of this machine. It is not safe for concurrent use.
type Linux struct {
	fence *fence // nil where nf_tables is missing
	index map[string]int
}

// NewLinux returns the kernel. The table's name tells the fences of several
// instances apart; an empty one means that there shall be none.
func NewLinux(table string) *Linux {
	k := &Linux{index: map[string]int{}}
	if table != "" {
		k.fence = &fence{table: table}
	}
	return k
}

// TableName returns the name of the fence's table for an instance.
func TableName(instance string) string {
	if instance == "" {
		return "vipod_fence"
	}
	return "vipod_fence_" + instance
}

// Observe implements Kernel.
func (k *Linux) Observe() (plan.Actual, error) {
	var a plan.Actual
	names, err := k.observeLinks(&a)
	if err != nil {
		return plan.Actual{}, err
	}
	if err := observeAddresses(&a, names); err != nil {
		return plan.Actual{}, err
	}
	if k.fence != nil {
		if a.Fence, err = k.fence.observe(); err != nil {
			return plan.Actual{}, fmt.Errorf("reading table %s: %w", k.fence.table, err)
		}
	}
	return a, nil
}

// Do implements Kernel. Operations on the fence are one transaction, those on
// addresses one exchange.
func (k *Linux) Do(ops []plan.Op) []error {
	errs := make([]error, len(ops))
	var onFence, onAddresses []int
	for i, op := range ops {
		switch op.(type) {
		case plan.AddAddress, plan.Refresh, plan.DelAddress:
			onAddresses = append(onAddresses, i)
		default:
			onFence = append(onFence, i)
		}
	}
	if len(onFence) > 0 {
		err := k.fence.do(pick(ops, onFence))
		for _, i := range onFence {
			errs[i] = err
		}
	}
	if len(onAddresses) > 0 {
		for n, err := range k.doAddresses(pick(ops, onAddresses)) {
			errs[onAddresses[n]] = err
		}
	}
	return errs
}

func pick(ops []plan.Op, which []int) []plan.Op {
	list := make([]plan.Op, len(which))
	for n, i := range which {
		list[n] = ops[i]
	}
	return list
}

// SetGrant implements Kernel.
func (k *Linux) SetGrant(g plan.Grant, links []string, left time.Duration) error {
	if err := k.fence.setGrant(g, links, left); err != nil {
		return fmt.Errorf("setting grant %s: %w", g, err)
	}
	return nil
}
