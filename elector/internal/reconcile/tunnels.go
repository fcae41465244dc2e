package reconcile

import (
	"fmt"
	"maps"
	"time"

	"github.com/vipod/vipod/elector/internal/config"
	"github.com/vipod/vipod/elector/internal/kube"
	"github.com/vipod/vipod/elector/internal/plan"
	"github.com/vipod/vipod/shared/schema"
)

// tunnelled is what egressd says of the tunnel of this very document.
func (r *Reconciler) tunnelled(doc *schema.VIP) schema.ConditionStatus {
	report, ok := r.reports.egressd[doc.Key]
	c, found := schema.FindCondition(report.Conditions, schema.ConditionTunnelled)
	if !ok || !found || report.Observed != doc.Seen() {
		return schema.Unknown
	}
	return c.Status
}

// silenced are vipd's reports, without those about VIPs whose tunnel may still
// be up: an address is not silent before its tunnel is.
func (r *Reconciler) silenced() map[string]schema.Status {
	reports, cloned := r.reports.vipd, false
	for key, doc := range r.book.VIPs() {
		if doc.WireGuard == nil {
			continue
		}
		status := r.tunnelled(doc)
		if status == schema.False || status == schema.True && doc.State == schema.StateActive {
			continue
		}
		if !cloned {
			reports, cloned = maps.Clone(reports), true
		}
		delete(reports, key)
	}
	return reports
}

// tunnelProblem is what egressd says is wrong with what it reads.
func (r *Reconciler) tunnelProblem() string {
	if r.Config.Mode != config.ModeWireGuard {
		return ""
	}
	c, ok := schema.FindCondition(r.reports.egressdDaemon.Conditions, schema.ConditionDocuments)
	if !ok || c.Status != schema.False {
		return ""
	}
	return c.Message
}

// tunnelPatience is for how long a far end may be silent before people hear of
// it.
const tunnelPatience = 10 * time.Second

// lookAtTunnel notes how the tunnel of a VIP that this node serves stands.
func (r *Reconciler) lookAtTunnel(now time.Duration, v *plan.VIP, doc *schema.VIP, state map[kube.Event]bool, failing map[string]time.Duration) {
	if doc == nil || doc.State != schema.StateActive || doc.WireGuard == nil {
		return
	}
	report, ok := r.reports.egressd[v.Key]
	c, found := schema.FindCondition(report.Conditions, schema.ConditionTunnelled)
	if !ok || !found || report.Observed != doc.Seen() {
		return
	}
	message := fmt.Sprintf("on node %s: %s", r.Config.NodeName, c.Message)
	if c.Status == schema.True && c.Reason == schema.TunnelConnected {
		state[r.aboutTunnel(v, false, "TunnelUp", message)] = true
		return
	}
	key := v.Key + " tunnel"
	since, known := r.failing[key]
	if !known {
		since = now
	}
	failing[key] = since
	if at := since + tunnelPatience; now < at {
		r.observe.next = min(r.observe.next, at)
		return
	}
	reason := "TunnelFailed"
	if c.Status == schema.True {
		reason = "Tunnel" + c.Reason
	}
	state[r.aboutTunnel(v, true, reason, message)] = true
}

// aboutTunnel is an Event about the VIP's Service, or about this Node for the
// control plane's.
func (r *Reconciler) aboutTunnel(v *plan.VIP, warning bool, reason, message string) kube.Event {
	if v.Kind == schema.KindControlPlane {
		return kube.Event{About: aboutNode(r.Config.NodeName), Warning: warning, Reason: reason, Action: "Tunnelling", Message: message}
	}
	return r.about(v, warning, reason, "Tunnelling", message)
}
