package reconcile

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/vipod/vipod/elector/internal/claim"
	"github.com/vipod/vipod/elector/internal/intent"
	"github.com/vipod/vipod/elector/internal/kube"
	"github.com/vipod/vipod/elector/internal/plan"
	"github.com/vipod/vipod/shared/ownership"
	"github.com/vipod/vipod/shared/schema"
)

// judgeLinkd finds out whether linkd can be relied on. Only VIPs that need
// links ask; without it this node is not for them.
func (r *Reconciler) judgeLinkd(now time.Duration) (until time.Duration) {
	ok, why, until := r.linkd.open(now, slices.Contains(r.Config.Components, ownership.Linkd),
		r.reports.linkdDaemon, r.book.Node())
	if r.linkdWhy != why {
		r.linkdWhy, r.planDirty = why, true
	}
	r.linkdGone = !ok
	return until
}

// linked are the VIPs that have their links: a linkd that is away for a while
// takes nothing from them.
func (r *Reconciler) linked() map[string]bool {
	linked := map[string]bool{}
	for key, doc := range r.book.VIPs() {
		if len(doc.Links) > 0 && doc.State == schema.StateActive && schema.IsTrue(r.reports.links[key].Conditions, schema.ConditionLinked) {
			linked[key] = true
		}
	}
	return linked
}

// leases are what linkd reports to have been lent, by key.
func leases(reports map[string]schema.LinkStatus, boot string) map[string][]schema.Lease {
	out := map[string][]schema.Lease{}
	for key, s := range reports {
		for _, l := range s.Leases {
			if l.Boot == boot {
				out[key] = append(out[key], l)
			}
		}
	}
	return out
}

// sameLeases says whether two reports of linkd mean the same to the plan: the
// times of leases are vipd's business.
func sameLeases(a, b map[string]schema.LinkStatus) bool {
	return maps.EqualFunc(a, b, func(a, b schema.LinkStatus) bool {
		return slices.EqualFunc(a.Leases, b.Leases, func(a, b schema.Lease) bool {
			return a.IP == b.IP && a.Interface == b.Interface && a.PrefixLength == b.PrefixLength && a.Boot == b.Boot
		})
	})
}

// released marks the withdrawn document of a Service that is gone, or that asks
// DHCP for nothing any more, so that its lease is given back. One that only
// leaves this node keeps its lease.
func (r *Reconciler) released(doc *schema.VIP) *schema.VIP {
	if doc.State != schema.StateWithdrawn || r.planned == 0 || r.stopping.since != 0 {
		return doc
	}
	v := r.byKey[doc.Key]
	if doc.Key == schema.ControlPlaneKey {
		v = r.out.ControlPlane
	}
	if v != nil && v.Token.IsValid() {
		return doc
	}
	return intent.Releasing(doc)
}

// takenFor is how long a lent address that another host has is declined, so
// that linkd has the time to tell the server.
const takenFor = time.Minute

// lookForTaken notes which lent addresses arpd found another host to have.
func (r *Reconciler) lookForTaken(now time.Duration) {
	for ip, until := range r.taken {
		if now >= until {
			delete(r.taken, ip)
		}
	}
	for key, doc := range r.book.VIPs() {
		report := r.reports.arpd[key]
		if doc.State != schema.StateStandby || report.Observed != doc.Seen() {
			continue
		}
		for _, a := range report.Addresses {
			lent := slices.ContainsFunc(doc.Addresses, func(d schema.Address) bool { return d.IP == a.IP && d.Source.Leased() })
			if _, known := r.taken[a.IP]; lent && a.ConflictMAC != "" && !known {
				r.taken[a.IP], r.planDirty = now+takenFor, true
			}
		}
	}
}

// takenNow is what the plan is told of it.
func (r *Reconciler) takenNow() map[addr]bool {
	taken := make(map[addr]bool, len(r.taken))
	for ip := range r.taken {
		taken[ip] = true
	}
	return taken
}

// annotations are what a Service is told about its link: another node, or this
// one after a restart, asks for the same address as the same host.
func (r *Reconciler) annotations(v *plan.VIP, doc *schema.VIP) map[string]string {
	if !v.Token.IsValid() {
		return nil
	}
	notes := map[string]string{}
	for _, l := range r.reports.links[v.Key].Links {
		if macvlan := doc.DHCPLink(); macvlan != nil && l.Name == macvlan.Name && l.MAC != "" {
			notes[kube.AnnotationMAC] = l.MAC
		}
	}
	var lent []string
	for _, a := range doc.Addresses {
		if a.Source.Leased() {
			lent = append(lent, a.IP.String())
		}
	}
	if len(lent) > 0 {
		notes[kube.AnnotationRequested] = strings.Join(lent, ",")
	}
	return notes
}

// publishNothing clears the addresses in the status of a Service that this node
// owns and that has none: its lease has ended.
func (r *Reconciler) publishNothing(v *plan.VIP, doc *schema.VIP) {
	svc, ok := r.API.Service(v.Namespace, v.Name)
	switch {
	case !ok || string(svc.UID) != v.UID || r.Config.Services.DisableUpdates:
		return
	case doc == nil || doc.State != schema.StateActive || len(doc.Addresses) > 0 || !hasDHCP(doc):
		return
	case len(svc.Status.LoadBalancer.Ingress) == 0 || svc.Annotations[kube.AnnotationHost] != r.Config.NodeName:
		return
	case len(r.published[v.Key]) == 0 && r.before[v.Token] != claim.Owned:
		return // another node's, which may go on with them
	}
	r.wishes[v.Key] = true
	r.published[v.Key] = nil
	r.status.want(v.Key, kube.ServiceStatus{
		Namespace: v.Namespace, Name: v.Name, Version: svc.ResourceVersion, Host: r.Config.NodeName,
	})
}

func hasDHCP(doc *schema.VIP) bool { return doc.DHCPLink() != nil }

// lookAtLinks notes why a VIP waits for its links or its addresses. A VLAN is
// waited for before anybody owns the VIP: arpd has to ask on it.
func (r *Reconciler) lookAtLinks(v *plan.VIP, doc *schema.VIP, state map[kube.Event]bool) {
	if doc == nil || doc.State != schema.StateActive && doc.State != schema.StateStandby || len(doc.Links) == 0 {
		return
	}
	report := r.reports.links[doc.Key]
	if report.Observed != doc.Seen() {
		return
	}
	if c, ok := schema.FindCondition(report.Conditions, schema.ConditionLinked); ok && c.Status == schema.False {
		state[r.about(v, true, "Link"+c.Reason, "Linking", c.Message)] = true
		return
	}
	c, ok := schema.FindCondition(report.Conditions, schema.ConditionLeased)
	if ok && c.Status == schema.False && (c.Reason == "NoServer" || c.Reason == "GivenUp") {
		state[r.about(v, true, "DHCP"+c.Reason, "Leasing", c.Message)] = true
	}
}

// claims are what a VIP holds in this node's Lease.
func claims(v *plan.VIP) []netip.Addr {
	var list []netip.Addr
	for _, a := range v.Addresses {
		list = append(list, a.IP)
	}
	if v.Token.IsValid() {
		list = append(list, v.Token)
	}
	if v.Pin.IsValid() {
		list = append(list, v.Pin)
	}
	return list
}

// sought is what a VIP is to people: its addresses, or that DHCP is to lend it
// one.
func sought(v *plan.VIP) string {
	if len(v.Addresses) == 0 && v.Token.IsValid() {
		return "the address that DHCP is to lend"
	}
	return list(v.Addresses)
}

// tokenReport is the line of /status about a VIP's macvlan.
func (r *Reconciler) tokenReport(now time.Duration, v plan.VIP) []AddressReport {
	if !v.Token.IsValid() {
		return nil
	}
	o := r.machine.State(v.Token)
	a := AddressReport{IP: v.Token, Owner: r.machine.Holder(now, v.Token), Phase: o.Phase.String(), Epoch: o.Epoch}
	for _, l := range v.Links {
		if l.DHCP != nil {
			a.Interface = fmt.Sprintf("%s on %s", l.Name, l.Parent)
		}
	}
	return []AddressReport{a}
}
