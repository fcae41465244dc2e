package e2e

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/vipod/vipod/deploy/lab"
)

func TestE2EClassDecidesWhichServicesAreServed(t *testing.T) {
	e := beside(t)
	vips := e.vips(3)
	for i, c := range []struct{ name, class string }{
		{"class-none", ""}, {"class-ours", ourClass}, {"class-other", "example.org/other"},
	} {
		e.create(lab.ServiceSpec{Name: c.name, Class: c.class, VIPs: vips[i].Slice(), Pods: e.allPods()})
	}
	e.owned("class-none")
	e.owned("class-ours")
	e.holds(calm, "the Service of another class is left alone", func() error {
		return firstError(e.unserved("class-other"), e.nowhere(vips[2].V4), e.nowhere(vips[2].V6))
	})
	if events := e.events("class-other"); len(events) > 0 {
		t.Errorf("Events about a Service of another class: %q", events)
	}
}

func TestE2ESharedAddressIsOnOneNodeAndLeavesWithTheLast(t *testing.T) {
	e := beside(t)
	vip := e.vip()
	share := func(name string, port int32) {
		e.create(lab.ServiceSpec{Name: name, VIPs: vip.Slice(), Pods: e.allPods(), Ports: []corev1.ServicePort{
			{Port: port, TargetPort: intstr.FromInt32(lab.HTTPPort)},
		}})
	}
	share("shared-a", 81)
	owner := e.owned("shared-a")
	removed := e.watchRemovals(owner)
	share("shared-b", 82)
	if got := e.owned("shared-b"); got != owner {
		t.Errorf("the Services of one address are on %s and %s", owner, got)
	}
	for _, ip := range vip.Slice() {
		e.answers(ip, 81)
		e.answers(ip, 82)
	}
	e.during(vip, func() {
		e.must(e.DeleteService(e.ctx, "shared-a"))
		e.holds(calm, "the other Service is served", func() error {
			return firstError(e.only(owner, vip.V4), e.only(owner, vip.V6))
		})
	}).changedHands(0).lost(0)
	e.untouched(removed, vip.Slice()...)
	e.hasStatus("shared-b", owner, vip.Slice())
	e.must(e.DeleteService(e.ctx, "shared-b"))
	e.within(soon, "the address is gone with the last Service", func() error {
		return firstError(e.nowhere(vip.V4), e.nowhere(vip.V6))
	})
}

func TestE2EServicesOfOneLeaseNameLiveOnOneNode(t *testing.T) {
	e := beside(t)
	vips := e.vips(4)
	owners := map[string]bool{}
	for i, vip := range vips {
		name := fmt.Sprintf("group-%d", i)
		e.create(lab.ServiceSpec{Name: name, VIPs: vip.Slice(), Pods: e.allPods(),
			Annotations: map[string]string{annotationGroup: "together"}})
	}
	for i := range vips {
		owners[e.owned(fmt.Sprintf("group-%d", i))] = true
	}
	if len(owners) != 1 {
		t.Errorf("Services of one lease name are on %v", owners)
	}
}

func TestE2ELocalPolicyFollowsTheEndpoints(t *testing.T) {
	e := beside(t)
	vip, name := e.vip(), "local"
	e.create(lab.ServiceSpec{
		Name: name, VIPs: vip.Slice(), Pods: []string{"p1"}, Policy: corev1.ServiceExternalTrafficPolicyLocal,
	})
	for _, node := range []string{"n1", "n2"} {
		from := "n1"
		if node == "n1" {
			from = ""
		}
		// Its new node is ready before its old one loses the pod, as in a
		// rolling update.
		if from != "" {
			e.must(e.SetEndpoints(e.ctx, name, podOf(from), podOf(node)))
			e.holds(calm, "it stays while its pod is there", func() error { return e.only(from, vip.V4) })
			e.during(vip, func() {
				e.must(e.SetEndpoints(e.ctx, name, podOf(node)))
				e.moved(name, from)
				e.within(soon, "the old node lets go", func() error { return e.only(node, vip.V6) })
			}).changedHands(1).lost(0)
		}
		if owner := e.owned(name); owner != node {
			t.Fatalf("a Service with its only pod on %s is on %s", node, owner)
		}
		for _, ip := range vip.Slice() {
			answer := e.answers(ip, 80)
			client, err := netip.ParseAddrPort(answer.Client)
			e.must(err)
			if answer.Pod != podOf(node) || !slices.Contains(lab.ClientAddrs().Slice(), client.Addr()) {
				t.Errorf("%s answers and sees %s, want %s and the client's own address", answer.Pod, answer.Client, podOf(node))
			}
		}
	}
	e.must(e.SetEndpoints(e.ctx, name))
	e.within(soon, "without an endpoint it is nowhere", func() error {
		return firstError(e.nowhere(vip.V4), e.nowhere(vip.V6), e.unserved(name))
	})
	e.must(e.SetEndpoints(e.ctx, name, "p3"))
	if owner := e.owned(name); owner != "n3" {
		t.Errorf("a Service with its only pod on n3 is on %s", owner)
	}
}

func TestE2EReadinessIsReadAsTheAPIDocumentsIt(t *testing.T) {
	e := beside(t)
	vip, name := e.vip(), "readiness"
	yes, no := true, false
	service := e.create(lab.ServiceSpec{
		Name: name, VIPs: []netip.Addr{vip.V4}, Policy: corev1.ServiceExternalTrafficPolicyLocal,
	})
	// Every node's endpoint is in a slice of its own.
	put := func(conditions map[string]discoveryv1.EndpointConditions) {
		for node, c := range conditions {
			e.putSlice(service, node, c)
		}
	}
	for _, c := range []struct {
		what       string
		conditions map[string]discoveryv1.EndpointConditions
		owner      string
	}{
		{"no condition is ready", map[string]discoveryv1.EndpointConditions{
			"n1": {Ready: &no}, "n2": {}, "n3": {Ready: &no, Serving: &yes}}, "n2"},
		{"terminating serves while nothing is ready", map[string]discoveryv1.EndpointConditions{
			"n1": {Ready: &no}, "n2": {Ready: &no}, "n3": {Ready: &no, Serving: &yes, Terminating: &yes}}, "n3"},
		{"ready comes before terminating", map[string]discoveryv1.EndpointConditions{
			"n1": {Ready: &yes}}, "n1"},
		{"nothing serves", map[string]discoveryv1.EndpointConditions{
			"n1": {Ready: &no, Serving: &no, Terminating: &yes}, "n3": {Ready: &no}}, ""},
	} {
		put(c.conditions)
		e.within(soon, c.what, func() error {
			owner, err := e.Owner(e.ctx, name)
			return errors.Join(err, want("the owner", owner, c.owner))
		})
	}
}

// putSlice writes the EndpointSlice that holds one node's endpoint.
func (e *env) putSlice(service *corev1.Service, node string, conditions discoveryv1.EndpointConditions) {
	e.t.Helper()
	pod, err := e.Pod(podOf(node))
	e.must(err)
	port, protocol, portName := int32(lab.HTTPPort), corev1.ProtocolTCP, "http"
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Name:   service.Name + "-" + node,
			Labels: map[string]string{discoveryv1.LabelServiceName: service.Name},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: &portName, Protocol: &protocol, Port: &port}},
		Endpoints: []discoveryv1.Endpoint{{
			Addresses: []string{pod.V4.String()}, NodeName: &node, Conditions: conditions,
		}},
	}
	client := e.Client().DiscoveryV1().EndpointSlices(metav1.NamespaceDefault)
	if _, err = client.Update(e.ctx, slice, metav1.UpdateOptions{}); err != nil {
		_, err = client.Create(e.ctx, slice, metav1.CreateOptions{})
	}
	e.must(err)
}

func TestE2EClusterPolicyNeedsAnEndpointUnlessAskedOtherwise(t *testing.T) {
	e := beside(t)
	vip, name := e.vip(), "endpointless"
	e.create(lab.ServiceSpec{Name: name, VIPs: vip.Slice()})
	e.told(leaseDuration+soon, name, "NoEligibleNode", "no endpoint")
	e.must(firstError(e.nowhere(vip.V4), e.nowhere(vip.V6), e.unserved(name)))
	e.annotate(name, annotationIdle, "true")
	owner := e.owned(name)
	e.must(firstError(e.only(owner, vip.V4), e.only(owner, vip.V6)))
	e.annotate(name, annotationIdle, "")
	e.within(soon, "it is nowhere again", func() error { return firstError(e.nowhere(vip.V4), e.unserved(name)) })
	e.must(e.SetEndpoints(e.ctx, name, e.allPods()...))
	e.owned(name)
	e.answers(vip.V4, 80)
}

func TestE2EExcludedNodeIsLeft(t *testing.T) {
	e := begin(t)
	vip, name := e.vip(), "excluded"
	owner := e.served(name, vip)
	label := func(value string) {
		patch := fmt.Sprintf(`{"metadata":{"labels":{%q:%s}}}`, corev1.LabelNodeExcludeBalancers, value)
		_, err := e.Client().CoreV1().Nodes().Patch(e.ctx, owner, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		e.must(err)
	}
	t.Cleanup(func() { label("null") })
	var successor string
	e.during(vip, func() {
		label(`"true"`)
		successor = e.moved(name, owner)
		e.within(soon, "the excluded node lets go", func() error { return e.only(successor, vip.V4) })
	}).changedHands(1).lost(0)
	label("null")
	e.holds(calm, "it does not come back", func() error { return e.only(successor, vip.V4) })
}
