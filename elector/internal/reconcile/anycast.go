package reconcile

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vipod/vipod/elector/internal/kube"
	"github.com/vipod/vipod/elector/internal/plan"
	"github.com/vipod/vipod/shared/schema"
)

// anycast is what pods of this node have themselves, as last planned, and what
// was told about those that do not get it.
type anycast struct {
	wanted bool // some pods may have addresses
	known  bool // the pods are
	out    []plan.Anycast
	told   map[plan.Refusal]bool
}

// planAnycast brings it up to date. A pod that is gone, or another of the same
// name, is so at once: the store has pods as they are now.
func (r *Reconciler) planAnycast(in plan.Input) {
	if len(r.Config.BGP.Anycast) == 0 {
		r.anycast.known = true // that there are none
		return
	}
	r.anycast.wanted = true
	if !r.API.PodsSynced() {
		return
	}
	var refused []plan.Refusal
	r.anycast.known = true
	r.anycast.out, refused = plan.Anycasts(in, anycastPods(r.API.Pods()), r.out.VIPs)
	told := map[plan.Refusal]bool{}
	for _, why := range refused {
		if told[why] = true; !r.anycast.told[why] {
			r.Log.Warn("anycast refused", "pod", why.Namespace+"/"+why.Name, "why", why.Message)
			r.teller.tell(kube.Event{About: aboutPod(why), Warning: true, Reason: why.Reason, Action: "Announcing", Message: why.Message})
		}
	}
	r.anycast.told = told
}

// aboutPod returns a reference to the pod that was refused something.
func aboutPod(why plan.Refusal) corev1.ObjectReference {
	return corev1.ObjectReference{
		APIVersion: "v1", Kind: "Pod", Namespace: why.Namespace, Name: why.Name, UID: types.UID(why.UID),
	}
}

// anycastPods takes what matters of the Pods.
func anycastPods(list []*corev1.Pod) []plan.AnycastPod {
	var out []plan.AnycastPod
	for _, p := range list {
		wants := plan.WantsOf(p.Annotations)
		if wants == "" {
			continue
		}
		pod := plan.AnycastPod{
			Namespace: p.Namespace, Name: p.Name, UID: string(p.UID), Wants: wants, HostNetwork: p.Spec.HostNetwork,
			Addresses: addressesOf(p),
		}
		for _, c := range p.Status.Conditions {
			pod.Serves = pod.Serves || c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		}
		pod.Serves = pod.Serves && p.DeletionTimestamp == nil && !hasEnded(p)
		out = append(out, pod)
	}
	return out
}

// podsPrefix begins the keys of documents about pods' addresses. No Service
// has such a key, since no namespace begins with an underscore.
const podsPrefix = "_pods."

// documents are those of the addresses, one for each; while the pods are not
// known, those that an earlier process wrote. leaving says that this node is
// about to announce nothing any more.
func (a *anycast) documents(leaving bool, before map[string]*schema.VIP) (docs []*schema.VIP) {
	if !a.known {
		for _, key := range slices.Sorted(maps.Keys(before)) {
			if before[key].Kind == schema.KindPods {
				docs = append(docs, before[key])
			}
		}
		return docs
	}
	state := schema.StateActive
	if leaving {
		state = schema.StateDraining
	}
	for _, one := range a.out {
		docs = append(docs, &schema.VIP{
			Key: podsPrefix + strings.ReplaceAll(one.IP.String(), ":", "-"), Kind: schema.KindPods, State: state, Grant: schema.GrantNone,
			Addresses: []schema.Address{{IP: one.IP, PrefixLength: one.IP.BitLen(), Source: schema.SourceStatic}},
			Announce:  []schema.Announce{schema.AnnounceBGP}, Via: one.Via,
		})
	}
	return docs
}
