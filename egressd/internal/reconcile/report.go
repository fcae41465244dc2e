package reconcile

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/vipod/vipod/egressd/internal/desired"
	"github.com/vipod/vipod/egressd/internal/plan"
	"github.com/vipod/vipod/shared/report"
	"github.com/vipod/vipod/shared/schema"
)

// Report is the answer to /status.
type Report struct {
	VIPs []VIPReport `json:"vips"`
}

// VIPReport is what egressd does for one VIP.
type VIPReport struct {
	Key   string       `json:"key"`
	State schema.State `json:"state,omitempty"` // of the VIP's document
	// Pods are those on this node, Sources what their connections leave as.
	Pods    int          `json:"pods"`
	Sources []netip.Addr `json:"sources,omitempty"`
	// Backends are those that the control plane's connections go to.
	Backends   int                `json:"backends,omitempty"`
	Conditions []schema.Condition `json:"conditions"`
}

// Report returns how things stood after the last pass.
func (r *Reconciler) Report() Report { return *r.answer.Load() }

// reportAll writes the report about the daemon and, after a pass that did
// everything, about every VIP: until then the last reports stay true.
func (r *Reconciler) reportAll() {
	conditions := []schema.Condition{report.Ready(r.docs.Node != nil, r.passErr), r.docs.Problems.Condition()}
	for _, about := range []func() (schema.Condition, bool){r.mirrorCondition, r.leftoverCondition} {
		if c, ok := about(); ok {
			conditions = append(conditions, c)
		}
	}
	r.report.Daemon(schema.Daemon{Observed: r.docs.Seen(), Conditions: conditions, Tunnels: r.tunnels.documents()})
	if r.passErr != nil || r.docs.Node == nil {
		return
	}
	answer := &Report{VIPs: []VIPReport{}}
	kept := map[string]bool{}
	for _, key := range r.keys() {
		v := r.vip(key)
		if len(v.Conditions) == 0 {
			continue
		}
		kept[key] = true
		r.report.VIP(schema.Status{Key: key, Observed: r.observed(key), Conditions: v.Conditions})
		v.Conditions = nil
		if last, ok := r.report.Last(key); ok {
			v.Conditions = last.Conditions // with their times
		}
		answer.VIPs = append(answer.VIPs, v)
	}
	for _, key := range r.report.Keys() {
		if !kept[key] {
			r.report.Remove(key)
		}
	}
	r.measure()
	r.answer.Store(answer)
}

// keys are the VIPs that any document is about.
func (r *Reconciler) keys() []string {
	all := map[string]bool{}
	for key := range r.docs.VIPs {
		all[key] = true
	}
	for key := range r.wanted.Services {
		all[key] = true
	}
	return slices.Sorted(maps.Keys(all))
}

// observed is the VIP's document if there is one, else that about egress.
func (r *Reconciler) observed(key string) schema.Observed {
	if vip, ok := r.docs.VIPs[key]; ok {
		return vip.Seen()
	}
	e := r.docs.egress[key]
	return e.Seen()
}

// vip says what is done for a VIP; without conditions it is nothing.
func (r *Reconciler) vip(key string) VIPReport {
	doc := r.docs.VIPs[key]
	v := VIPReport{Key: key, State: doc.State}
	if s := r.wanted.Services[key]; s != nil {
		v.Pods, v.Sources = len(s.Pods), s.Sources()
		v.Conditions = append(v.Conditions, egressCondition(s, doc, r.whyLost(s.Egress)))
	}
	if doc.Firewall != nil {
		c := schema.Condition{Type: schema.ConditionFirewalled, Status: schema.True, Reason: "PortsOnly",
			Message: fmt.Sprintf("%d ports are reached and no others", len(doc.Firewall.Ports))}
		if doc.Firewall.Open {
			c.Status, c.Reason, c.Message = schema.False, "OptedOut", "the Service wants no firewall"
		}
		v.Conditions = append(v.Conditions, c)
	}
	if doc.Balance != nil {
		c := schema.Condition{Type: schema.ConditionBalanced, Status: schema.True, Reason: "Spread"}
		v.Backends = len(doc.Balance.Backends)
		switch {
		case r.wanted.Tables[plan.Balance] != nil:
			c.Message = fmt.Sprintf("connections are spread over %d backends", v.Backends)
		case v.Backends == 0:
			c.Status, c.Reason, c.Message = schema.False, "NoBackends", "no API server is known to be well"
		default:
			c.Status, c.Reason, c.Message = schema.False, "NotActive", "the VIP is "+string(doc.State)+" here, or not granted"
		}
		v.Conditions = append(v.Conditions, c)
	}
	if doc.WireGuard != nil {
		v.Conditions = append(v.Conditions, r.tunnels.condition(r.wanted, doc))
	}
	return v
}

func egressCondition(s *desired.Service, doc schema.VIP, lost string) schema.Condition {
	c := schema.Condition{Type: schema.ConditionEgress, Status: schema.False}
	switch {
	case s.Hold != "":
		c.Reason, c.Message = "Refused", "held back: "+s.Hold
	case len(s.Sources()) > 0:
		c.Status, c.Reason = schema.True, "Translated"
		c.Message = fmt.Sprintf("%d pods leave as %v", len(s.Pods)+len(s.Elsewhere), s.Sources())
	case lost != "":
		c.Reason, c.Message = "NoWay", fmt.Sprintf("%d pods are held back: %s", len(s.Pods), lost)
	case len(s.Forwarded()) > 0:
		c.Status, c.Reason = schema.True, "Forwarded"
		c.Message = fmt.Sprintf("%d pods leave through %v", len(s.Pods), s.Forwarded())
	case doc.Key == "":
		c.Reason, c.Message = "NotOwner", fmt.Sprintf("%d pods are held back: another node owns the VIP, or none", len(s.Pods))
	default:
		c.Reason = "NotActive"
		c.Message = fmt.Sprintf("%d pods are held back: the VIP is %s here, or not granted", len(s.Pods), doc.State)
	}
	return c
}

// measure sets the gauges.
func (r *Reconciler) measure() {
	for _, kind := range plan.Kinds {
		n := 0
		for _, elements := range r.actual.Tables[kind] {
			n += len(elements)
		}
		r.Metrics.elements.WithLabelValues(string(kind)).Set(float64(n))
	}
	pods := map[string]int{"translated": 0, "forwarded": 0, "held": 0}
	for _, s := range r.wanted.Services {
		switch {
		case len(s.Sources()) > 0:
			pods["translated"] += len(s.Pods) + len(s.Elsewhere)
		case len(s.Forwarded()) > 0:
			pods["forwarded"] += len(s.Pods)
		default:
			pods["held"] += len(s.Pods)
		}
	}
	for state, n := range pods {
		r.Metrics.pods.WithLabelValues(state).Set(float64(n))
	}
	r.Metrics.tunnels.described.Set(float64(len(r.tunnels.list)))
	backends := 0
	if b := r.docs.VIPs[schema.ControlPlaneKey].Balance; b != nil && r.wanted.Tables[plan.Balance] != nil {
		backends = len(b.Backends)
	}
	r.Metrics.backends.Set(float64(backends))
}
