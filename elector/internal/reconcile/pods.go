package reconcile

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipod/vipod/elector/internal/plan"
)

// podsPatience is for how long the documents about egress stay as an earlier
// process left them while the pods of this node are not known, which takes
// milliseconds; it is longer only where they may not be read.
const podsPatience = 10 * time.Second

// pods are this node's, nil while they are not known. A pod that has ended has
// given its address back, before its object goes.
func (r *Reconciler) pods() []plan.Pod {
	if r.podsKnown = r.API.PodsSynced(); !r.podsKnown {
		return nil
	}
	list := []plan.Pod{}
	for _, p := range r.API.Pods() {
		if !p.Spec.HostNetwork && !hasEnded(p) {
			list = append(list, plan.Pod{Namespace: p.Namespace, Labels: p.Labels, IPs: addressesOf(p)})
		}
	}
	return list
}

func hasEnded(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

// addressesOf are the pod's addresses, the first of them its primary one.
func addressesOf(p *corev1.Pod) (list []netip.Addr) {
	for _, text := range append([]corev1.PodIP{{IP: p.Status.PodIP}}, p.Status.PodIPs...) {
		if ip, err := netip.ParseAddr(text.IP); err == nil && !slices.Contains(list, ip.Unmap()) {
			list = append(list, ip.Unmap())
		}
	}
	return list
}

// followPods has the pods of this node followed while the plan needs them.
func (r *Reconciler) followPods(now time.Duration) {
	if want := r.out.FollowPods || r.anycast.wanted; want != (r.podsSince != 0) {
		r.podsSince = 0
		if want {
			r.podsSince = max(now, 1)
		}
		r.API.FollowPods(want)
	}
}

// egressWaits says whether it is not known yet what the documents about egress
// follow from.
func (r *Reconciler) egressWaits(now time.Duration) bool {
	return r.podsSince != 0 && !r.podsKnown && now < r.podsSince+podsPatience
}

// writeEgress writes the documents about egress.
func (r *Reconciler) writeEgress(now time.Duration) error {
	if r.egressWaits(now) {
		return nil
	}
	docs := slices.Clone(r.out.Egress)
	for i, doc := range docs {
		if r.out.Across[doc.Key] {
			next := *doc
			next.Gateways = r.gateways(now, doc.Key)
			docs[i] = &next
		}
	}
	return r.book.WriteEgress(docs)
}

// gateways are the addresses of the node that owns the VIP, one of each
// family, if it is not this one.
func (r *Reconciler) gateways(now time.Duration, key string) (list []netip.Addr) {
	v := r.byKey[key]
	if v == nil {
		return nil
	}
	owner := ""
	for _, a := range v.Addresses {
		owner = cmp.Or(owner, r.machine.Holder(now, a.IP))
	}
	if owner == "" || owner == r.Config.NodeName {
		return nil
	}
	for _, ip := range r.internal[owner] {
		if !slices.ContainsFunc(list, func(a netip.Addr) bool { return a.Is4() == ip.Is4() }) {
			list = append(list, ip)
		}
	}
	return list
}
