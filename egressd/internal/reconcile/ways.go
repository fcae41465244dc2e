package reconcile

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/vipod/vipod/shared/schema"
)

// gateways are the nodes through which pods of this one leave: those that own
// the VIPs of Services that ask for it.
func (r *Reconciler) gateways() []netip.Addr {
	all := map[netip.Addr]bool{}
	for _, doc := range r.docs.egress {
		for _, g := range doc.Gateways {
			all[g] = len(doc.Pods) > 0 || all[g]
		}
	}
	maps.DeleteFunc(all, func(_ netip.Addr, wanted bool) bool { return !wanted })
	return slices.SortedFunc(maps.Keys(all), netip.Addr.Compare)
}

// makeWays makes the ways that are wanted, before any packet is sent there,
// and returns their marks. Pods without one are held back.
func (r *Reconciler) makeWays() map[netip.Addr]uint32 {
	marks, lost := map[netip.Addr]uint32{}, map[netip.Addr]string{}
	for _, g := range r.gateways() {
		mark, err := r.ways().Make(g)
		if err != nil {
			lost[g] = err.Error()
			if r.lost[g] != lost[g] {
				r.Log.Warn("no way to a node", "gateway", g, "err", err)
			}
			continue
		}
		marks[g] = mark
	}
	r.lost = lost
	return marks
}

// sweepWays removes the ways that nobody wants any more, after the last packet
// was sent there.
func (r *Reconciler) sweepWays() error {
	if !r.docs.Complete {
		return nil
	}
	return r.ways().Sweep(r.gateways())
}

func (r *Reconciler) ways() Ways {
	return r.Ways(r.docs.Settings().InstanceName, r.docs.Settings().Protocol)
}

// whyLost says why the pods of a Service cannot leave through the owner.
func (r *Reconciler) whyLost(e schema.Egress) string {
	for _, g := range e.Gateways {
		if why := r.lost[g]; why != "" {
			return why
		}
	}
	return ""
}
