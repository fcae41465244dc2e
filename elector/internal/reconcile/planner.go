package reconcile

import (
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/vipod/vipod/elector/internal/plan"
	"github.com/vipod/vipod/shared/bootclock"
)

type addr = netip.Addr

// planPause is the least time between two plans. A plan that takes long is
// made less often, so that planning never fills the loop.
const (
	planPause  = 10 * time.Millisecond
	planFactor = 4
)

// planner is the last plan and when there may be the next.
type planner struct {
	out       plan.Output
	byKey     map[string]*plan.VIP
	planned   uint64 // number of plans made
	planDirty bool
	planAfter time.Duration
	well      bool                    // the local API server, as last planned with
	noEgressd string                  // why egressd cannot be relied on, as last planned with
	networks  []netip.Prefix          // the cluster's own, as last known
	internal  map[string][]netip.Addr // InternalIPs of the nodes
	podsSince time.Duration           // since when this node's pods are followed, 0 for not
	podsKnown bool                    // they were, when last planned
}

// replan plans if something changed and everything is known.
func (r *Reconciler) replan(now time.Duration) {
	if well := r.locallyWell(); well != r.well {
		r.well, r.planDirty = well, true
	}
	if why := r.whyNoEgressd(now); why != r.noEgressd {
		r.noEgressd, r.planDirty = why, true
	}
	if !r.planDirty || now < r.planAfter || !r.listed || !r.API.Synced() {
		return
	}
	r.planDirty = false
	list := nodes(r.API.Nodes(), r.Config.NodeName)
	r.internal = map[string][]netip.Addr{}
	for _, n := range list {
		r.internal[n.Name] = n.Internal
	}
	r.planBGP(list)
	in := plan.Input{
		Config: r.Config, Services: r.API.Services(), Slices: r.API.Slices(), Nodes: list,
		Links: r.reports.vipdDaemon.Links, APIServers: r.apiServers(), Healthy: r.well,
		Names: r.names.Answers(), Taken: r.takenNow(),
		Linkd: r.linkdWhy, Linked: r.linked(), Leases: leases(r.reports.links, r.BootID),
		NoEgressd: r.noEgressd, Up: r.backends.up(), Pods: r.pods(),
		Tunnels: r.reports.egressdDaemon.Tunnels, TunnelProblem: r.tunnelProblem(),
	}
	r.out = plan.Plan(in)
	r.planAnycast(in)
	r.networks = r.out.Internal
	r.names.Want(r.out.Names)
	r.backends.follow(r.work, r.out.Backends)
	r.planned++
	r.byKey = make(map[string]*plan.VIP, len(r.out.VIPs))
	for i := range r.out.VIPs {
		r.byKey[r.out.VIPs[i].Key] = &r.out.VIPs[i]
	}
	end := bootclock.Now()
	r.followPods(end)
	r.planAfter = end + max(planPause, planFactor*(end-now))
	r.Metrics.planSeconds.Observe((end - now).Seconds())
}

// locallyWell says whether the API server on this node is well: it becomes
// unwell after several failures in a row, and well with the first answer.
func (r *Reconciler) locallyWell() bool {
	threshold := r.Config.ControlPlane.Health.FailureThreshold
	return r.Config.ControlPlane.Enabled && r.health.last.Load() != 0 && int(r.health.failures.Load()) < max(threshold, 1)
}

// apiServers are the addresses under which the API server is known.
func (r *Reconciler) apiServers() []netip.Addr {
	var list []netip.Addr
	if ip, ok := r.API.Host(); ok {
		list = append(list, ip)
	}
	for _, s := range r.API.Slices() {
		if s.Namespace != "default" || s.Labels[discoveryv1.LabelServiceName] != "kubernetes" {
			continue
		}
		for _, e := range s.Endpoints {
			for _, a := range e.Addresses {
				if ip, err := netip.ParseAddr(a); err == nil {
					list = append(list, ip.Unmap())
				}
			}
		}
	}
	return list
}

// Labels of Nodes that matter.
const (
	labelExcluded     = "node.kubernetes.io/exclude-from-external-load-balancers"
	labelControlPlane = "node-role.kubernetes.io/control-plane"
)

// nodes takes what matters of the Nodes; labels and annotations matter of our
// own alone.
func nodes(list []*corev1.Node, own string) []plan.Node {
	out := make([]plan.Node, 0, len(list))
	for _, n := range list {
		node := plan.Node{Name: n.Name}
		if n.Name == own {
			node.Labels, node.Annotations = n.Labels, n.Annotations
		}
		_, node.Excluded = n.Labels[labelExcluded]
		_, node.ControlPlane = n.Labels[labelControlPlane]
		for _, a := range n.Status.Addresses {
			if ip, err := netip.ParseAddr(a.Address); err == nil { // names are addresses, too
				node.Addresses = append(node.Addresses, ip.Unmap())
				if a.Type == corev1.NodeInternalIP {
					node.Internal = append(node.Internal, ip.Unmap())
				}
			}
		}
		for _, c := range n.Status.Conditions {
			node.Ready = node.Ready || c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		}
		for _, text := range n.Spec.PodCIDRs {
			if p, err := netip.ParsePrefix(text); err == nil && !p.Addr().Is4In6() {
				node.PodCIDRs = append(node.PodCIDRs, p.Masked())
			}
		}
		out = append(out, node)
	}
	return out
}
