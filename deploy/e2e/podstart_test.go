package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vipod/vipod/deploy/lab"
)

// report has the API server know a pod as its kubelet would: first that it is
// on the node, then its addresses.
func (e *env) report(pod lab.Pod, labels map[string]string) {
	e.t.Helper()
	accounts, pods := e.Client().CoreV1().ServiceAccounts(metav1.NamespaceDefault), e.Client().CoreV1().Pods(metav1.NamespaceDefault)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}} // without it no pod is let in
	if _, err := accounts.Create(e.ctx, account, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		e.t.Fatal(err)
	}
	no := false
	object, err := pods.Create(e.ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Labels: labels},
		Spec: corev1.PodSpec{NodeName: pod.Node, AutomountServiceAccountToken: &no,
			Containers: []corev1.Container{{Name: "server", Image: "server"}}},
	}, metav1.CreateOptions{})
	e.must(err)
	e.t.Cleanup(func() {
		now := int64(0)
		if err := pods.Delete(e.ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
			e.t.Error(err)
		}
	})
	object.Status.Phase, object.Status.PodIP = corev1.PodRunning, pod.V4.String()
	object.Status.PodIPs = []corev1.PodIP{{IP: pod.V4.String()}, {IP: pod.V6.String()}}
	_, err = pods.UpdateStatus(e.ctx, object, metav1.UpdateOptions{})
	e.must(err)
}

func TestE2EAPodIsHeldBackUntilItIsKnownWhoseItIs(t *testing.T) {
	e := begin(t)
	e.outside()
	vip, name := e.vip(), "egress-start"
	e.create(lab.ServiceSpec{
		Name: name, VIPs: vip.Slice(), Pods: []string{"p1"}, Policy: corev1.ServiceExternalTrafficPolicyLocal,
		Annotations: map[string]string{annotationEgress: "true", "vipod.io/egress-pod-selector": "job in (nightly)"},
		Change:      func(s *corev1.Service) { s.Spec.Selector = map[string]string{"app": name} },
	})
	owner := e.owned(name)
	e.within(soon, "unknown pods are held back", func() error {
		_, err := e.Exec(e.ctx, owner, "nft", "get", "element", "inet", "vipod_egress", "pods4", "{ "+e.podV4("p1")+" }")
		_, guard := e.Exec(e.ctx, owner, "sh", "-c", "nft list set inet vipod_egress local4 | grep -q elements")
		return errors.Join(err, guard)
	})
	var pods []lab.Pod
	for range 3 {
		pod, err := e.AddPod(e.ctx, owner)
		e.must(err)
		pods = append(pods, pod)
		e.must(e.heldBack(pod.Name))
	}
	e.report(pods[0], map[string]string{"app": name})
	e.report(pods[1], map[string]string{"job": "nightly"})
	e.report(pods[2], map[string]string{"app": "other"})
	e.within(soon, "a pod that is no endpoint yet leaves with the VIP", func() error { return e.leavesAs(pods[0].Name, vip) })
	e.within(soon, "a pod that will never be one leaves with the VIP", func() error { return e.leavesAs(pods[1].Name, vip) })
	e.within(soon, "nobody's pod is let go", func() error { // the lab has no way back to it
		_, err4 := e.Exec(e.ctx, owner, "nft", "get", "element", "inet", "vipod_egress", "known4", "{ "+pods[2].V4.String()+" }")
		_, err6 := e.Exec(e.ctx, owner, "nft", "get", "element", "inet", "vipod_egress", "known6", "{ "+pods[2].V6.String()+" }")
		return errors.Join(err4, err6)
	})
}

func (e *env) podV4(name string) string {
	e.t.Helper()
	pod, err := e.Pod(name)
	e.must(err)
	return pod.V4.String()
}

func TestE2EPodsOnEveryNodeLeaveThroughTheOwner(t *testing.T) {
	e := begin(t)
	e.outside()
	vip, name := e.vip(), "egress-across"
	all := []string{"p1", "p2", "p3"}
	e.create(lab.ServiceSpec{
		Name: name, VIPs: vip.Slice(), Pods: all,
		Annotations: map[string]string{annotationEgress: "true", "vipod.io/egress-across-nodes": "true"},
	})
	leave := func() error {
		for _, pod := range all {
			if err := e.leavesAs(pod, vip); err != nil {
				return err
			}
		}
		return nil
	}
	owner := e.owned(name)
	e.within(soon, "every pod leaves with the VIP", leave)
	e.stop(owner, unix.SIGTERM)
	e.within(takeover, "every pod that a node serves leaves with the VIP through another node", func() error {
		for _, pod := range all {
			if nodeOf(pod) == owner {
				continue // nothing of vipod runs there
			}
			if err := e.leavesAs(pod, vip); err != nil {
				return err
			}
		}
		return nil
	})
	e.start(owner)
	e.within(takeover, "every pod leaves with the VIP", leave)
	e.removeAll()
	for _, node := range e.Nodes() {
		e.within(soon, "no rule is left on "+node, func() error {
			out, err := e.Exec(e.ctx, node, "sh", "-c", "ip rule; ip -6 rule")
			if err == nil && strings.Contains(string(out), "fwmark 0x76") {
				err = fmt.Errorf("%s has\n%s", node, out)
			}
			return err
		})
	}
}
