package reconcile

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipod/vipod/elector/internal/claim"
	"github.com/vipod/vipod/elector/internal/intent"
	"github.com/vipod/vipod/elector/internal/kube"
	"github.com/vipod/vipod/elector/internal/plan"
	"github.com/vipod/vipod/shared/schema"
)

// observe is what elector remembers of what it saw, to tell people about
// changes and to keep Services' status.
type observe struct {
	next      time.Duration            // when to look again at the latest
	active    map[string]string        // VIPs that this node serves, and their addresses
	unserved  map[string]time.Duration // VIPs without an owner, and since when
	orphans   map[string]time.Duration // Services with a status that nobody serves
	published map[string][]corev1.LoadBalancerIngress
	told      map[kube.Event]bool      // what still is so and was told
	wishes    map[string]bool          // Services whose status is to be written
	rivalled  map[string]time.Duration // standby documents that others answer for, and since when
	failing   map[string]time.Duration // VIPs that egressd cannot serve, and since when
	// egressdUntil is when egressd's gate must be looked at again.
	egressdUntil time.Duration
}

func newObserve() observe {
	return observe{
		active: map[string]string{}, unserved: map[string]time.Duration{}, orphans: map[string]time.Duration{},
		published: map[string][]corev1.LoadBalancerIngress{}, told: map[kube.Event]bool{},
	}
}

// look compares what is with what was: it tells people, keeps the status of
// Services and the metrics.
func (r *Reconciler) look(now time.Duration) {
	if r.planned == 0 {
		r.observe.next = never
		return
	}
	r.observe.next = never
	r.transitions()
	if _, twin := r.machine.Twin(now); twin {
		r.lookAtTwin(now)
		return
	}
	state := map[kube.Event]bool{}
	r.wishes = map[string]bool{}
	r.lookAtVIPs(now, state)
	if cp := r.out.ControlPlane; cp != nil {
		r.lookAtLinks(cp, r.book.VIP(cp.Key), state)
	}
	r.lookAtOrphans(now)
	r.status.keep(r.wishes)
	r.lookAtRefusals(r.speaker(now), state)
	r.tellState(state)
	r.measure(now)
}

// lookAtRefusals looks at what is refused: what all nodes refuse is told by the
// one that speaks for all.
func (r *Reconciler) lookAtRefusals(speaker bool, state map[kube.Event]bool) {
	for _, f := range r.out.Refusals {
		if !f.Here && !speaker {
			continue
		}
		state[kube.Event{
			About: aboutService(f.Namespace, f.Name, f.UID), Warning: true,
			Reason: f.Reason, Action: "Planning", Message: f.Message,
		}] = true
	}
}

// tellState tells what has become so since the last look.
func (r *Reconciler) tellState(state map[kube.Event]bool) {
	for e := range state {
		if !r.told[e] {
			r.teller.tell(e)
		}
	}
	r.told = state
}

// transitions counts what became of addresses and tells about the control
// plane's VIP.
func (r *Reconciler) transitions() {
	after := make(map[addr]claim.Phase, len(r.before))
	r.machine.Addresses(func(ip addr, o claim.Ownership) { after[ip] = o.Phase })
	for ip, p := range after {
		was := r.before[ip]
		switch {
		case p == claim.Owned && was != claim.Owned && was != claim.Draining:
			r.Metrics.claims.WithLabelValues("owned").Inc()
			r.Metrics.transitions.WithLabelValues(kube.LeaseName(r.Config.NodeName)).Inc()
		case p == claim.Released && was != claim.Released:
			r.Metrics.claims.WithLabelValues("released").Inc()
		}
	}
	for ip, was := range r.before {
		switch p := after[ip]; {
		case was == claim.Claiming && p != claim.Claiming && p != claim.Owned:
			r.Metrics.claims.WithLabelValues("lost").Inc()
		case was == claim.Owned && p == claim.Idle:
			r.Metrics.claims.WithLabelValues("forfeited").Inc()
		}
	}
	r.before = after
	if r.lock == nil {
		return
	}
	p, was := r.lock.Phase(), r.lockBefore
	r.lockBefore = p
	about := aboutNode(r.Config.NodeName)
	switch {
	case p == claim.Owned && was != claim.Owned && was != claim.Draining:
		r.Metrics.transitions.WithLabelValues(r.Config.ControlPlane.LeaseName).Inc()
		r.teller.tell(kube.Event{About: about, Reason: "ControlPlaneVIPActive", Action: "Claiming",
			Message: "this node serves the control plane's virtual IP"})
	case p != claim.Owned && p != claim.Draining && (was == claim.Owned || was == claim.Draining):
		r.teller.tell(kube.Event{About: about, Reason: "ControlPlaneVIPReleased", Action: "Releasing",
			Message: "this node no longer serves the control plane's virtual IP"})
	}
}

// lookAtVIPs looks at every Service's VIP.
func (r *Reconciler) lookAtVIPs(now time.Duration, state map[kube.Event]bool) {
	unserved := map[string]time.Duration{}
	active, rivalled := map[string]string{}, map[string]time.Duration{}
	failing := map[string]time.Duration{}
	for i := range r.out.VIPs {
		v := &r.out.VIPs[i]
		doc := r.book.VIP(v.Key)
		if r.serves(doc) {
			r.publish(v, doc)
			active[v.Key] = list(doc.Addresses)
		} else if was, ok := r.active[v.Key]; ok && doc != nil && doc.State == schema.StateActive {
			active[v.Key] = was // vipd is about to follow a change
		}
		r.publishNothing(v, doc)
		r.lookAtLinks(v, doc, state)
		r.lookAtConflicts(now, v, doc, state, rivalled)
		r.lookAtEgress(now, v, doc, state, failing)
		r.lookAtTunnel(now, v, doc, state, failing)
		r.lookAtSpread(now, v, doc, state, unserved)
		if r.held(now, v) {
			continue
		}
		since, ok := r.unserved[v.Key]
		if !ok {
			since = now
		}
		unserved[v.Key] = since
		if at := since + r.Config.LeaseDuration + time.Second; now < at {
			r.observe.next = min(r.observe.next, at)
		} else if why := r.whyNot(v); why != "" && r.speaker(now) {
			state[r.about(v, true, "NoEligibleNode", "Placing",
				fmt.Sprintf("no node serves %s; on node %s: %s", sought(v), r.Config.NodeName, why))] = true
		}
		if r.full[v.Group] && v.Group != plan.NoGroup {
			state[r.about(v, true, "NodeFull", "Placing", fmt.Sprintf(
				"node %s serves %d addresses already, as many as fit into its Lease", r.Config.NodeName, kube.MaxClaims))] = true
		}
	}
	if cp := r.out.ControlPlane; cp != nil {
		r.lookAtTunnel(now, cp, r.book.VIP(cp.Key), state, failing)
	}
	for key, was := range r.active {
		if _, still := active[key]; !still && r.byKey[key] != nil {
			r.teller.tell(r.about(r.byKey[key], false, "VIPReleased", "Releasing",
				fmt.Sprintf("node %s no longer serves %s", r.Config.NodeName, was)))
		}
	}
	r.unserved, r.active, r.rivalled, r.failing = unserved, active, rivalled, failing
}

// held says whether some node owns the VIP or, where nobody does, may serve it.
func (r *Reconciler) held(now time.Duration, v *plan.VIP) bool {
	if v.Spread {
		return v.Candidates == nil || len(v.Candidates) > 0
	}
	return v.Group != plan.NoGroup && slices.ContainsFunc(claims(v), func(ip addr) bool {
		return r.machine.Holder(now, ip) != ""
	})
}

func (r *Reconciler) whyNot(v *plan.VIP) string {
	if r.notReady != "" {
		return r.notReady
	}
	return v.Why
}

// rivalTime is for how long another host must answer for an address that is
// probed before people hear of it: for a moment it may be another node of ours
// that claims the address first.
const rivalTime = 2 * time.Second

// lookAtConflicts notes who else claims an address of the VIP.
func (r *Reconciler) lookAtConflicts(now time.Duration, v *plan.VIP, doc *schema.VIP, state map[kube.Event]bool, rivalled map[string]time.Duration) {
	for _, d := range []*schema.VIP{doc, r.book.VIP(intent.ProbeKey(v.Key))} {
		if d == nil {
			continue
		}
		report, ok := r.reports.arpd[d.Key]
		if !ok || report.Observed != d.Seen() {
			continue
		}
		if d.State == schema.StateStandby {
			c, ok := schema.FindCondition(report.Conditions, schema.ConditionUnclaimed)
			if !ok || c.Status != schema.False {
				continue
			}
			since, known := r.rivalled[d.Key]
			if !known {
				since = now
			}
			rivalled[d.Key] = since
			if now < since+rivalTime {
				r.observe.next = min(r.observe.next, since+rivalTime)
				continue
			}
			state[r.about(v, true, "ProbeConflict", "Probing",
				fmt.Sprintf("not claimed: another host answers for %s", rivals(report, c)))] = true
			continue
		}
		if c, ok := schema.FindCondition(report.Conditions, schema.ConditionConflict); ok && c.Status == schema.True {
			state[r.about(v, true, "AddressConflict", "Defending",
				fmt.Sprintf("another host claims %s", rivals(report, c)))] = true
		}
	}
}

// rivals names the addresses that are taken and by whom.
func rivals(report schema.Status, c schema.Condition) string {
	var out []string
	for _, a := range report.Addresses {
		if a.ConflictMAC != "" {
			out = append(out, fmt.Sprintf("%s (%s)", a.IP, a.ConflictMAC))
		}
	}
	if len(out) == 0 {
		return "an address: " + c.Message
	}
	return strings.Join(out, ", ")
}

// about makes an Event on a VIP's Service; those of the control plane's VIP are
// on this node.
func (r *Reconciler) about(v *plan.VIP, warning bool, reason, action, message string) kube.Event {
	e := kube.Event{Warning: warning, Reason: reason, Action: action, Message: message}
	if e.About = aboutService(v.Namespace, v.Name, v.UID); v.Kind == schema.KindControlPlane {
		e.About = aboutNode(r.Config.NodeName)
	}
	return e
}

func list(addresses []schema.Address) string {
	var out []string
	for _, a := range addresses {
		out = append(out, a.IP.String())
	}
	return strings.Join(out, ", ")
}

// measure sets the gauges.
func (r *Reconciler) measure(now time.Duration) {
	m := r.Metrics
	owned := 0
	for _, p := range r.before {
		if p == claim.Owned {
			owned++
		}
	}
	m.owned.Set(float64(owned))
	m.refusals.Set(float64(len(r.out.Refusals)))
	m.ready.Set(number(r.wished.ready))
	r.measureGrants(now)
	m.isLeader.WithLabelValues(r.Config.NodeName, kube.LeaseName(r.Config.NodeName)).Set(number(owned > 0))
	if r.lock != nil {
		m.isLeader.WithLabelValues(r.Config.NodeName, r.Config.ControlPlane.LeaseName).Set(number(r.lock.Phase() == claim.Owned))
	}
	m.activeServices.Reset()
	for key := range r.active {
		if v := r.byKey[key]; v != nil {
			m.activeServices.WithLabelValues(v.Namespace).Inc()
		}
	}
}

func (r *Reconciler) measureGrants(now time.Duration) {
	r.Metrics.grant.WithLabelValues("node").Set(max(r.machine.Grant()-now, 0).Seconds())
	if r.lock != nil {
		r.Metrics.grant.WithLabelValues("control-plane").Set(max(r.lock.Grant()-now, 0).Seconds())
	}
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
