package reconcile

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/vipod/vipod/shared/schema"
	"github.com/vipod/vipod/vipd/internal/anycast"
)

// anycasting is what a pass found and did about routes to pods.
type anycasting struct {
	there  map[netip.Addr]bool
	failed map[netip.Addr]error
	spread bool // the kernel was asked to spread connections
}

// convergeAnycast makes the routes to pods match the documents. One that
// cannot be made concerns its address alone and is tried again.
func (r *Reconciler) convergeAnycast() error {
	if r.Anycast == nil {
		return nil
	}
	return r.doAnycast(anycast.Of(r.protocol(), r.docs.VIPs, r.docs.Complete))
}

// removeAnycast removes every route to pods.
func (r *Reconciler) removeAnycast() error {
	if r.Anycast == nil {
		return nil
	}
	return r.doAnycast(anycast.Desired{Protocol: r.protocol(), Sweep: true})
}

func (r *Reconciler) doAnycast(d anycast.Desired) error {
	actual, err := r.Anycast.Observe(d.Protocol)
	if err != nil {
		return err
	}
	if len(d.Routes) > 0 && !r.anycasting.spread {
		r.anycasting.spread = true // once: it is a wish, and an administrator may want it otherwise
		if err := r.Anycast.Spread(); err != nil {
			r.Log.Warn("connections to several pods of one address are spread by client alone", "err", err)
		}
	}
	before := r.anycasting.failed
	r.anycasting.failed, r.anycasting.there = map[netip.Addr]error{}, map[netip.Addr]bool{}
	ops := anycast.Plan(d, actual)
	var lost []error
	for i, err := range r.Anycast.Do(ops) {
		op := ops[i]
		if err == nil {
			actual = anycast.Apply(actual, op)
			r.Log.Info("route changed", "op", op.String())
			continue
		}
		r.Metrics.kernelErrors.WithLabelValues("Route").Inc()
		r.anycasting.failed[op.Of()] = err
		if old := before[op.Of()]; old == nil || old.Error() != err.Error() {
			r.Log.Error("route failed", "err", err)
		}
		if _, deleting := op.(anycast.Delete); deleting {
			lost = append(lost, err)
		}
	}
	for _, route := range actual {
		r.anycasting.there[route.IP] = r.anycasting.failed[route.IP] == nil
	}
	return short(lost)
}

// reached says why pods with an address are not routed to, "" if they are.
func (r *Reconciler) reached(vip schema.VIP) (reason, message string) {
	for _, a := range vip.Addresses {
		switch err := r.anycasting.failed[a.IP]; {
		case r.anycasting.there[a.IP]:
		case errors.Is(err, anycast.ErrForeign):
			return "ForeignRoute", fmt.Sprintf("the main table has a route for %s that is not ours", a.IP)
		case err != nil:
			return "KernelError", err.Error()
		default:
			return "NotRouted", fmt.Sprintf("%s has no route to its pods", a.IP)
		}
	}
	return "", ""
}
