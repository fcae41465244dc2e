package reconcile

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/vipod/vipod/shared/report"
	"github.com/vipod/vipod/shared/schema"
	"github.com/vipod/vipod/vipd/internal/plan"
)

// reportAll writes the report about the daemon and, after a pass that acted on
// the documents, about every VIP: until then the last reports stay true.
func (r *Reconciler) reportAll() {
	r.report.Daemon(schema.Daemon{
		Observed: r.docs.Seen(), Links: r.linkReport(),
		Conditions: []schema.Condition{report.Ready(r.docs.Node != nil, r.passErr), r.docs.Problems.Condition()},
	})
	if !r.acted {
		return
	}
	verdicts := plan.Judge(r.desired, r.actual)
	left := plan.Leftovers(r.desired, r.actual)
	answer := &Report{Fence: r.fence}
	for _, key := range slices.Sorted(maps.Keys(r.docs.VIPs)) {
		vip := r.docs.VIPs[key]
		r.reportVIP(vip, verdicts, left)
		answer.VIPs = append(answer.VIPs, r.vipReport(vip, verdicts))
	}
	r.removeReports(left)
	r.Metrics.count(verdicts)
	r.answer.Store(answer)
}

// reportLinks reports the links in the midst of a pass, for whom others wait.
func (r *Reconciler) reportLinks() {
	if d := r.report.Self(); len(d.Conditions) > 0 { // the first report is made at the end of the first pass
		d.Links = r.linkReport()
		r.report.Daemon(d)
	}
}

func (r *Reconciler) reportVIP(vip schema.VIP, verdicts map[netip.Addr]plan.Verdict, left map[netip.Addr]string) {
	s := schema.Status{Key: vip.Key, Observed: vip.Seen(), Conditions: r.conditions(vip, verdicts)}
	for _, a := range vip.Addresses {
		v := verdicts[a.IP]
		link := a.Interface
		if v.Link != "" {
			link = v.Link
		}
		s.Addresses = append(s.Addresses, schema.AddressStatus{IP: a.IP, Interface: link, Present: v.Present})
	}
	// What the document does not name any more is listed until it is gone.
	last, _ := r.report.Last(vip.Key)
	for _, a := range last.Addresses {
		link, still := left[a.IP]
		if still && !slices.ContainsFunc(vip.Addresses, func(b schema.Address) bool { return a.IP == b.IP }) {
			s.Addresses = append(s.Addresses, schema.AddressStatus{IP: a.IP, Interface: link, Present: true})
		}
	}
	r.report.VIP(s)
}

// conditions says how a VIP stands.
func (r *Reconciler) conditions(vip schema.VIP, verdicts map[netip.Addr]plan.Verdict) []schema.Condition {
	present := schema.Condition{Type: schema.ConditionPresent, Status: schema.True, Reason: "InKernel"}
	muted := schema.Condition{Type: schema.ConditionMuted, Status: schema.True, Reason: "Draining"}
	fenced := schema.Condition{Type: schema.ConditionFenced, Status: schema.True, Reason: "Fenced"}
	no := func(c *schema.Condition, reason, message string) {
		if c.Status == schema.True {
			c.Status, c.Reason, c.Message = schema.False, reason, message
		}
	}
	if len(vip.Addresses) == 0 {
		no(&present, "NoAddresses", "the document has no addresses")
		no(&fenced, "NoAddresses", "")
	}
	switch routed := vip.Announces(schema.AnnounceRoute); {
	case routed:
		if reason, message := r.routed(vip); reason != "" {
			no(&present, reason, message)
		}
		no(&fenced, "NoGrantNeeded", "")
	case len(vip.Via) > 0:
		if reason, message := r.reached(vip); reason != "" {
			no(&present, reason, message)
		}
		no(&fenced, "NoGrantNeeded", "")
	case !slices.ContainsFunc(vip.Addresses, schema.Address.Placed):
		no(&present, "NotPlaced", "no interface gets the VIP")
		no(&fenced, "NotPlaced", "")
	}
	for _, a := range vip.Addresses {
		if !a.Placed() {
			continue
		}
		v, wanted := verdicts[a.IP]
		switch {
		case !wanted:
			no(&present, "NotWanted", fmt.Sprintf("the VIP is %s", vip.State))
			no(&fenced, "NotWanted", "")
		case !v.Present:
			no(&present, string(v.Why), r.explain(a, v))
		}
		switch {
		case !r.fence:
			no(&fenced, "NoNftables", "the kernel has no nf_tables egress hook: address lifetimes are the only fence")
		case vip.Grant == schema.GrantNone:
			no(&fenced, "NoGrantNeeded", "")
		case !v.Fenced:
			no(&fenced, "NotFenced", fmt.Sprintf("%s is not behind the fence", a.IP))
		}
		if !v.Muted {
			no(&muted, "NotMuted", "")
		}
	}
	return []schema.Condition{present, muted, fenced}
}

func (r *Reconciler) explain(a schema.Address, v plan.Verdict) string {
	switch v.Why {
	case plan.ForeignAddress:
		return fmt.Sprintf("%s is on this node already and not ours", a.IP)
	case plan.LinkMissing:
		return fmt.Sprintf("there is no link %s", v.Link)
	case plan.LinkDown:
		return fmt.Sprintf("link %s is down", v.Link)
	case plan.LinkSettling:
		return fmt.Sprintf("link %s has just come up", v.Link)
	case plan.NotGranted:
		return "the grant is not held"
	case plan.NotMutable:
		return "without nf_tables a VIP is muted by being absent"
	}
	if err := r.failed[a.IP]; err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%s is not in the kernel yet", a.IP)
}

// removeReports removes the status of VIPs that have no document any more
// and of which nothing is left in the kernel.
func (r *Reconciler) removeReports(left map[netip.Addr]string) {
	for _, key := range r.report.Keys() {
		if _, ok := r.docs.VIPs[key]; ok {
			continue
		}
		last, _ := r.report.Last(key)
		if !slices.ContainsFunc(last.Addresses, func(a schema.AddressStatus) bool { return left[a.IP] != "" }) {
			r.report.Remove(key)
		}
	}
}
