package reconcile

import (
	"net/netip"
	"slices"

	"github.com/vipod/vipod/shared/schema"
	"github.com/vipod/vipod/vipd/internal/plan"
)

// Report is the answer to /status.
type Report struct {
	// Fence says that the kernel can mute; else lifetimes are the only fence.
	Fence bool        `json:"fence"`
	VIPs  []VIPReport `json:"vips"`
}

// VIPReport is one VIP.
type VIPReport struct {
	Key       string           `json:"key"`
	State     schema.State     `json:"state"`
	Grant     schema.GrantName `json:"grant"`
	Addresses []AddressReport  `json:"addresses"`
	// GrantLeft is filled in when the question is asked, in seconds.
	GrantLeft float64 `json:"grantLeftSeconds"`
}

// AddressReport is one address of a VIP.
type AddressReport struct {
	IP        netip.Addr `json:"ip"`
	Interface string     `json:"interface"`
	Present   bool       `json:"present"`
	Muted     bool       `json:"muted"`
	Fenced    bool       `json:"fenced"`
	Reason    string     `json:"reason,omitempty"`
}

// Report returns how things stood after the last pass.
func (r *Reconciler) Report() Report {
	s := *r.answer.Load()
	s.VIPs = slices.Clone(s.VIPs)
	for i := range s.VIPs {
		s.VIPs[i].GrantLeft = r.Metrics.left(s.VIPs[i].Grant).Seconds()
	}
	return s
}

func (r *Reconciler) vipReport(vip schema.VIP, verdicts map[netip.Addr]plan.Verdict) VIPReport {
	out := VIPReport{Key: vip.Key, State: vip.State, Grant: vip.Grant}
	for _, a := range vip.Addresses {
		v, wanted := verdicts[a.IP]
		reason := string(v.Why)
		if !wanted {
			reason = "NotWanted"
		}
		out.Addresses = append(out.Addresses, AddressReport{IP: a.IP, Interface: a.Interface,
			Present: v.Present, Muted: v.Muted, Fenced: v.Fenced, Reason: reason})
	}
	return out
}

// linkReport returns the links that matter to others: lo, those that are up,
// and those with an address of their own.
func (r *Reconciler) linkReport() []schema.Link {
	own := map[string][]netip.Prefix{}
	for _, a := range r.actual.Addresses {
		if ip := a.Prefix.Addr(); a.Protocol != r.protocol() && !ip.IsLoopback() && !ip.IsLinkLocalUnicast() {
			own[a.Link] = append(own[a.Link], a.Prefix)
		}
	}
	var list []schema.Link
	for _, l := range r.actual.Links {
		if !l.Loopback && !l.Admin && len(own[l.Name]) == 0 || schema.ValidateInterface(l.Name) != nil {
			continue
		}
		list = append(list, schema.Link{Name: l.Name, Index: l.Index, MAC: l.MAC, Up: l.Up, Addresses: own[l.Name],
			DefaultIPv4: l.DefaultIPv4, DefaultIPv6: l.DefaultIPv6})
	}
	return list
}

func (m *Metrics) count(verdicts map[netip.Addr]plan.Verdict) {
	n := map[string]int{}
	for _, v := range verdicts {
		switch {
		case !v.Present:
			n["absent"]++
		case v.Muted:
			n["muted"]++
		default:
			n["present"]++
		}
	}
	for _, state := range []string{"present", "muted", "absent"} {
		m.addresses.WithLabelValues(state).Set(float64(n[state]))
	}
}
