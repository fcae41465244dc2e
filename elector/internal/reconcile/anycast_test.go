package reconcile

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vipod/vipod/shared/ownership"
	"github.com/vipod/vipod/shared/schema"
	"github.com/vipod/vipod/shared/statefile"
)

// anycastPod is one that is ready, with changes applied.
func anycastPod(changes ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-0", UID: "one", Annotations: map[string]string{"vipod.io/anycast": "203.0.113.9"}},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, PodIPs: []corev1.PodIP{{IP: "192.0.2.3"}},
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		},
	}
	for _, change := range changes {
		change(p)
	}
	return p
}

func TestAddressesOfPodsGoWithThemAndStayUntilPodsAreKnown(t *testing.T) {
	c := newTestCluster(t, 1, map[string]string{
		"vip_arp": "false", "bgp_enable": "true", "bgp_peers": "192.0.2.1:65001", "vipod_pod_anycast": "203.0.113.0/24",
	})
	n := c.nodes["n1"]
	setPods := func(list ...*corev1.Pod) {
		n.api.mu.Lock()
		n.api.pods = map[string]*corev1.Pod{}
		for _, p := range list {
			n.api.pods[p.Name] = p
		}
		n.api.mu.Unlock()
		n.api.changed.Fire()
	}
	file := filepath.Join(ownership.VIPs(n.dir, ownership.Elector), "_pods.203.0.113.9.json")
	document := func() *schema.VIP {
		doc, err := statefile.Read[schema.VIP](file, os.Geteuid())
		if err != nil {
			return nil
		}
		return &doc
	}
	await := func(what string, want bool) {
		t.Helper()
		eventually(t, patience, what, func() bool { return (document() != nil) == want })
	}
	setPods(anycastPod())
	await("the pod's address has a document", true)
	doc := document()
	if doc.Kind != schema.KindPods || doc.State != schema.StateActive || !doc.Announces(schema.AnnounceBGP) || len(doc.Via) != 1 || doc.Via[0].String() != "192.0.2.3" {
		t.Errorf("%+v", doc)
	}
	setPods(anycastPod(), anycastPod(func(p *corev1.Pod) { p.Name, p.UID, p.Status.PodIPs[0].IP = "web-1", "three", "192.0.2.4" }))
	eventually(t, patience, "both pods are in the document", func() bool { doc := document(); return doc != nil && len(doc.Via) == 2 })
	setPods(anycastPod(func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse }))
	await("a pod that is not ready has none", false)
	setPods(anycastPod())
	await("a pod that is ready again has one", true)
	n.kill()
	n.start()
	time.Sleep(3 * testRenew)
	if document() == nil {
		t.Error("the document went with the restart")
	}
	setPods(anycastPod(func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: time.Now()} }))
	await("a pod that is being deleted has none", false)
	setPods(anycastPod(func(p *corev1.Pod) { p.UID, p.Annotations = "two", nil }))
	time.Sleep(2 * testRenew)
	if document() != nil {
		t.Error("another pod of the name has the address")
	}
}
