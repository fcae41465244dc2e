package reconcile

import (
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vipod/vipod/elector/internal/plan"
	"github.com/vipod/vipod/shared/trigger"
)

func podsReconciler(pods ...*corev1.Pod) (*Reconciler, *fakeAPI) {
	api := &fakeAPI{store: newStore(), changed: trigger.New()}
	api.pods = map[string]*corev1.Pod{}
	for _, p := range pods {
		api.pods[p.Name] = p
	}
	return &Reconciler{Options: Options{API: api}}, api
}

func TestPodsOfTheNodesNetworkAndThoseThatEndedDoNotCount(t *testing.T) {
	pod := func(name string, status corev1.PodStatus, host bool) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Spec: corev1.PodSpec{HostNetwork: host}, Status: status}
	}
	r, api := podsReconciler(
		pod("a", corev1.PodStatus{Phase: corev1.PodPending}, false),
		pod("b", corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "203.0.113.2", PodIPs: []corev1.PodIP{{IP: "203.0.113.2"}, {IP: "2001:db8::2"}}}, false),
		pod("c", corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "198.51.100.1"}, true),
		pod("d", corev1.PodStatus{Phase: corev1.PodSucceeded, PodIP: "203.0.113.3"}, false))
	if got := r.pods(); got != nil {
		t.Errorf("pods before they are known: %v", got)
	}
	api.FollowPods(true)
	got := r.pods()
	if len(got) == 2 && len(got[0].IPs) > 0 {
		got[0], got[1] = got[1], got[0] // a store has no order
	}
	want := []plan.Pod{{Namespace: "shop"}, {Namespace: "shop", IPs: []netip.Addr{netip.MustParseAddr("203.0.113.2"), netip.MustParseAddr("2001:db8::2")}}}
	if diff := cmp.Diff(want, got, cmpopts.EquateComparable(netip.Addr{}), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("(-want +have):\n%s", diff)
	}
}

func TestDocumentsAboutEgressWaitForThePods(t *testing.T) {
	r, api := podsReconciler()
	if r.egressWaits(time.Minute) {
		t.Error("waits without egress")
	}
	r.out.FollowPods = true
	r.followPods(time.Minute)
	if !r.egressWaits(time.Minute) || r.egressWaits(time.Minute+podsPatience) {
		t.Error("must wait for the pods, and not for ever")
	}
	if r.pods(); !api.follows.Load() || r.egressWaits(time.Minute) {
		t.Error("waits for pods that are known")
	}
	r.out.FollowPods = false
	r.followPods(2 * time.Minute)
	if api.follows.Load() || r.egressWaits(2*time.Minute) {
		t.Error("follows pods that nobody wants to know")
	}
}
