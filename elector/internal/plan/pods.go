package plan

import (
	"fmt"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/vipod/vipod/elector/internal/config"
	"github.com/vipod/vipod/shared/schema"
)

// annotationEgressPods selects pods of the Service's namespace that leave with
// its VIP besides those that it sends connections to.
const annotationEgressPods = "vipod.io/egress-pod-selector"

// Pod is what matters of a pod of this node that has not ended and is not on
// the node's network.
type Pod struct {
	Namespace string
	Labels    map[string]string
	// IPs are its addresses; none until the kubelet has told them.
	IPs []netip.Addr
}

// selectors are by which a Service knows its pods: what it sends connections
// to, whether there is an endpoint of it yet or not, and what it asks for
// besides.
func (s *service) selectors() ([]labels.Selector, error) {
	var list []labels.Selector
	if len(s.Spec.Selector) > 0 {
		list = append(list, labels.SelectorFromSet(s.Spec.Selector))
	}
	text := s.Annotations[annotationEgressPods]
	if text == "" {
		return list, nil
	}
	asked, err := labels.Parse(text)
	if err != nil || asked.Empty() {
		return list, fmt.Errorf("annotation %s: %s is no selector of labels", annotationEgressPods, config.Quote(text))
	}
	return append(list, asked), nil
}

// selected adds the addresses of this node's pods that the Service selects and
// says whether one has none yet.
func (e *egressPlan) selected(s *service, list []labels.Selector) (ips []netip.Addr, expected bool) {
	for _, p := range e.local[s.Namespace] {
		if !slices.ContainsFunc(list, func(l labels.Selector) bool { return l.Matches(labels.Set(p.Labels)) }) {
			continue
		}
		expected = expected || len(p.IPs) == 0
		ips = append(ips, p.IPs...)
	}
	return ips, expected
}

// guard returns what holds back pods that are not known, nil if nothing shall:
// every address of this node's networks of pods that no pod is known to have.
// A pod has its address, and may send, before anybody can know of it: the
// kubelet tells the API server afterwards.
func (e *egressPlan) guard() *schema.Egress {
	mode := e.in.Config.Egress.Unknown
	if e.in.Pods == nil || mode == config.UnknownFree || mode != config.UnknownHeld && !e.guarded && !e.across {
		return nil
	}
	g := &schema.Guard{Networks: e.ownNetworks(), Known: []netip.Addr{}}
	for _, p := range e.in.Pods {
		for _, ip := range p.IPs {
			if e.pods[ip] == nil {
				g.Known = append(g.Known, ip)
			}
		}
	}
	if len(g.Networks) == 0 {
		return nil
	}
	slices.SortFunc(g.Known, netip.Addr.Compare)
	g.Known = slices.Compact(g.Known)
	return &schema.Egress{Key: schema.EgressGuardKey, Guard: g}
}

// ownNetworks are those of this node's pods: its own as far as they lie in
// those that are configured, else those. Where pods of other nodes leave
// through this one, all are its own.
func (e *egressPlan) ownNetworks() (list []netip.Prefix) {
	configured := e.in.Config.Egress.PodCIDRs
	if e.across {
		return e.podNetworks()
	}
	for _, n := range e.in.Nodes {
		if n.Name != e.in.Config.NodeName {
			continue
		}
		for _, own := range n.PodCIDRs {
			if len(configured) == 0 || slices.ContainsFunc(configured, func(p netip.Prefix) bool {
				return p.Contains(own.Addr()) && p.Bits() <= own.Bits()
			}) {
				list = append(list, own)
			}
		}
	}
	for _, p := range configured {
		if !slices.ContainsFunc(list, func(own netip.Prefix) bool { return own.Addr().Is4() == p.Addr().Is4() }) {
			list = append(list, p)
		}
	}
	slices.SortFunc(list, netip.Prefix.Compare)
	return slices.Compact(list)
}
