package reconcile

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/vipod/vipod/shared/schema"
	"github.com/vipod/vipod/vipd/internal/desired"
	"github.com/vipod/vipod/vipd/internal/routes"
)

// reassertEvery is how often the routes of routing-table mode are told to
// routing daemons once more, which may have missed them.
const reassertEvery = 30 * time.Second

// routing is what a pass found and did about routes.
type routing struct {
	desired    routes.Desired
	there      map[netip.Addr]bool
	failed     map[netip.Addr]error
	reasserted time.Time
	arriving   map[netip.Addr]bool // that routers send here
}

// convergeRoutes makes the routes match the documents. One that cannot be
// added concerns its VIP alone and is tried again.
func (r *Reconciler) convergeRoutes() error {
	d := routes.Of(r.docs.Settings(), r.docs.VIPs, r.docs.Grants.Held(now()), r.docs.Complete)
	if d.Table == 0 || r.Routes == nil {
		return nil
	}
	r.untilGrantEnds()
	d.Reassert = len(d.Routes) > 0 && time.Since(r.routing.reasserted) >= reassertEvery
	return r.doRoutes(d)
}

// untilGrantEnds makes a pass come when routes under a grant must go.
func (r *Reconciler) untilGrantEnds() {
	t := now()
	for _, v := range r.docs.VIPs {
		if left := r.docs.Grants.Left(v.Grant, t); v.Route != nil && left > 0 {
			r.soon(time.Now().Add(left))
		}
	}
}

func (r *Reconciler) doRoutes(d routes.Desired) error {
	r.RouteProtocol.Store(uint32(d.Protocol))
	actual, err := r.Routes.Observe(d.Table, d.Protocol)
	if err != nil {
		return err
	}
	before := r.routing.failed
	r.routing.desired, r.routing.failed = d, map[netip.Addr]error{}
	var lost []error
	ops := routes.Plan(d, actual)
	for i, err := range r.Routes.Do(ops) {
		op := ops[i]
		if err == nil {
			actual = routes.Apply(actual, op)
			if _, again := op.(routes.Reassert); !again {
				r.Log.Info("route changed", "op", op.String())
			}
			continue
		}
		r.Metrics.kernelErrors.WithLabelValues("Route").Inc()
		r.routing.failed[op.Of()] = err
		if old := before[op.Of()]; old == nil || old.Error() != err.Error() {
			r.Log.Error("route failed", "err", err)
		}
		if _, deleting := op.(routes.Delete); deleting {
			lost = append(lost, err)
		}
	}
	if d.Reassert {
		r.routing.reasserted = time.Now()
	}
	if len(d.Routes) > 0 {
		r.soon(r.routing.reasserted.Add(reassertEvery))
	}
	r.routing.there = routes.Addresses(d, actual)
	return short(lost)
}

// noteRouted tells of addresses that routers begin to send here: no link gets
// them, but what reaches the node before its Service proxy knows them is taken
// for something else all the same.
func (r *Reconciler) noteRouted() {
	arriving := map[netip.Addr]bool{}
	for _, v := range r.docs.VIPs {
		if !desired.Routed(v) || !desired.Wanted(v.State) {
			continue
		}
		for _, a := range v.Addresses {
			if arriving[a.IP] = true; !r.routing.arriving[a.IP] {
				r.Added(a.IP)
			}
		}
	}
	r.routing.arriving = arriving
}

// routed says why a VIP's routes are not as they shall be, "" if they are.
func (r *Reconciler) routed(vip schema.VIP) (reason, message string) {
	for _, a := range vip.Addresses {
		switch err := r.routing.failed[a.IP]; {
		case r.routing.there[a.IP]:
		case errors.Is(err, routes.ErrForeign):
			return "ForeignRoute", fmt.Sprintf("table %d has a route for %s that is not ours", r.routing.desired.Table, a.IP)
		case err != nil:
			return "KernelError", err.Error()
		default:
			return "NotRouted", fmt.Sprintf("%s has no route in table %d", a.IP, r.routing.desired.Table)
		}
	}
	return "", ""
}

// removeRoutes removes every route of ours.
func (r *Reconciler) removeRoutes() error {
	s := r.docs.Settings()
	if s.RoutingTable == 0 || r.Routes == nil {
		return nil
	}
	return r.doRoutes(routes.Desired{Table: s.RoutingTable, Protocol: uint8(s.Protocol), Sweep: true})
}
