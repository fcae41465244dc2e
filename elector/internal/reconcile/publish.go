package reconcile

import (
	"fmt"
	"reflect"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipod/vipod/elector/internal/kube"
	"github.com/vipod/vipod/elector/internal/plan"
	"github.com/vipod/vipod/shared/bootclock"
	"github.com/vipod/vipod/shared/schema"
)

// orphanPatience is how long the last owner waits for a successor before it
// clears the status of a Service that nobody serves.
const orphanPatience = time.Second

// serves says whether vipd has put into the kernel what an active document
// asks for.
func (r *Reconciler) serves(doc *schema.VIP) bool {
	if doc == nil || doc.State != schema.StateActive && (doc.Grant != schema.GrantNone || doc.State != schema.StateDraining) {
		return false
	}
	if doc.Announces(schema.AnnounceBGP) && !slices.ContainsFunc(doc.Addresses, schema.Address.Placed) {
		return r.announces(doc) // nothing of it is in the kernel
	}
	report, ok := r.reports.vipd[doc.Key]
	return ok && report.Observed == doc.Seen() && schema.IsTrue(report.Conditions, schema.ConditionPresent) && r.announces(doc)
}

// publish writes the status of a Service that this node serves, and tells
// whoever asks when that is new.
func (r *Reconciler) publish(v *plan.VIP, doc *schema.VIP) {
	svc, ok := r.API.Service(v.Namespace, v.Name)
	if !ok || string(svc.UID) != v.UID {
		return
	}
	host, node := svc.Annotations[kube.AnnotationHost], r.Config.NodeName
	if r.active[v.Key] != list(doc.Addresses) {
		message := fmt.Sprintf("node %s serves %s", node, list(doc.Addresses))
		if host != "" && host != node && !v.Spread {
			r.teller.tell(r.about(v, false, "OwnerChanged", "Claiming", message+", before it was "+host))
		} else {
			r.teller.tell(r.about(v, false, "VIPActive", "Claiming", message))
		}
	}
	if r.Config.Services.DisableUpdates {
		return
	}
	ingress := ingressOf(v, doc)
	r.published[v.Key] = ingress
	notes := r.annotations(v, doc)
	if (host == node || v.Spread && r.speaksFor(v, host)) && reflect.DeepEqual(svc.Status.LoadBalancer.Ingress, ingress) && contains(svc.Annotations, notes) {
		return
	}
	r.wishes[v.Key] = true
	r.status.want(v.Key, kube.ServiceStatus{
		Namespace: v.Namespace, Name: v.Name, Version: svc.ResourceVersion, Host: node, Ingress: ingress,
		Annotations: notes,
	})
}

// contains says whether all of some annotations are there.
func contains(all, some map[string]string) bool {
	for name, value := range some {
		if all[name] != value {
			return false
		}
	}
	return true
}

// speaksFor says whether the named node serves the VIP as well as this one: of
// many that do, one has its name on the Service.
func (r *Reconciler) speaksFor(v *plan.VIP, host string) bool {
	return host != "" && r.machine.Alive(bootclock.Now(), host) &&
		(v.Candidates == nil || slices.Contains(v.Candidates, host))
}

func ingressOf(v *plan.VIP, doc *schema.VIP) []corev1.LoadBalancerIngress {
	mode := corev1.LoadBalancerIPModeVIP
	ingress := make([]corev1.LoadBalancerIngress, 0, len(doc.Addresses))
	for _, a := range doc.Addresses {
		ingress = append(ingress, corev1.LoadBalancerIngress{IP: a.IP.String(), IPMode: &mode, Ports: v.Ports})
	}
	return ingress
}

// lookAtOrphans clears the status of Services that nobody serves any more.
// The node named in the annotation does it; for one that died, the speaker.
func (r *Reconciler) lookAtOrphans(now time.Duration) {
	if r.Config.Services.DisableUpdates {
		return
	}
	orphans := map[string]time.Duration{}
	published := map[string][]corev1.LoadBalancerIngress{}
	for _, svc := range r.API.Services() {
		host := svc.Annotations[kube.AnnotationHost]
		key := schema.Key(svc.Namespace, svc.Name)
		if ours, ok := r.published[key]; ok && (host != "" || r.wishes[key]) {
			published[key] = ours
		}
		if host == "" {
			continue
		}
		v := r.byKey[key]
		if v != nil && r.held(now, v) {
			continue
		}
		patience, mine := r.orphanTime(now, host, v == nil)
		if !mine {
			continue
		}
		since, ok := r.orphans[key]
		if !ok {
			since = now
		}
		orphans[key] = since
		if at := since + patience; now < at {
			r.observe.next = min(r.observe.next, at)
			continue
		}
		r.clear(key, svc)
	}
	r.orphans, r.published = orphans, published
}

// orphanTime says whether this node clears what the named one left, and after
// what time.
func (r *Reconciler) orphanTime(now time.Duration, host string, unwanted bool) (time.Duration, bool) {
	switch {
	case host == r.Config.NodeName && unwanted:
		return 0, true // there will be no successor
	case host == r.Config.NodeName:
		return orphanPatience, true
	}
	if r.machine.Alive(now, host) {
		return 0, false
	}
	return r.Config.LeaseDuration + 2*time.Second, r.speaker(now)
}

// clear removes what this node wrote; addresses that another controller wrote
// since stay.
func (r *Reconciler) clear(key string, svc *corev1.Service) {
	s := kube.ServiceStatus{Namespace: svc.Namespace, Name: svc.Name, Version: svc.ResourceVersion}
	if ours, ok := r.published[key]; ok && !reflect.DeepEqual(svc.Status.LoadBalancer.Ingress, ours) {
		s.Ingress = svc.Status.LoadBalancer.Ingress
	}
	r.wishes[key] = true
	r.status.want(key, s)
}
