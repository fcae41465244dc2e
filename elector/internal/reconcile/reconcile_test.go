package reconcile

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/vipod/vipod/elector/internal/kube"
	"github.com/vipod/vipod/shared/ownership"
	"github.com/vipod/vipod/shared/schema"
	"github.com/vipod/vipod/shared/statefile"
)

// patience is for what happens within milliseconds on a machine that others
// keep busy; it is well under a Lease's duration times what a test waits for.
const patience = 15 * time.Second

// loadBalancer makes a Service with one endpoint on each named node.
func (c *cluster) loadBalancer(name string, ips string, nodes ...string) *corev1.Service {
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, UID: types.UID("uid-" + name),
			Annotations:       map[string]string{"kube-vip.io/loadbalancerIPs": ips},
			CreationTimestamp: metav1.NewTime(time.Unix(1_700_000_000, 0)),
		},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, ExternalTrafficPolicy: corev1.ServiceExternalTrafficPolicyCluster,
			Ports:      []corev1.ServicePort{{Port: 80, Protocol: corev1.ProtocolTCP}},
			IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
		},
	}
	c.endpoints(name, nodes...)
	c.putService(svc)
	return svc
}

func (c *cluster) endpoints(name string, nodes ...string) {
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name + "-1", Labels: map[string]string{discoveryv1.LabelServiceName: name},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
	}
	for i, n := range nodes {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{fmt.Sprintf("198.51.100.%d", 10+i)}, NodeName: &n,
			Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true), Serving: ptr.To(true)},
		})
	}
	c.putSlice(slice)
}

// edit changes a Service.
func (c *cluster) edit(name string, change func(*corev1.Service)) {
	svc := c.service(name).DeepCopy()
	change(svc)
	c.putService(svc)
}

// served waits until one node claims the address and the status says so.
func (c *cluster) served(t *testing.T, name, ip string) (node string) {
	t.Helper()
	eventually(t, patience, name+" is served at "+ip, func() bool {
		node = c.wire.owner(ip)
		svc := c.service(name)
		return node != "" && svc.Annotations[kube.AnnotationHost] == node &&
			slices.ContainsFunc(svc.Status.LoadBalancer.Ingress, func(i corev1.LoadBalancerIngress) bool { return i.IP == ip })
	})
	return node
}

func TestOneNodeServesAServiceAndSaysSo(t *testing.T) {
	c := newTestCluster(t, 3, nil)
	c.loadBalancer("web", "203.0.113.10", "n1")
	node := c.served(t, "web", "203.0.113.10")
	eventually(t, patience, "the owner is told", func() bool {
		m, ok := c.told("web", "VIPActive")
		return ok && strings.Contains(m, node)
	})
	in := c.service("web").Status.LoadBalancer.Ingress[0]
	if in.IPMode == nil || *in.IPMode != corev1.LoadBalancerIPModeVIP || len(in.Ports) != 1 || in.Ports[0].Port != 80 {
		t.Errorf("ingress %+v", in)
	}
}

func TestElectorReportsAboutItself(t *testing.T) {
	c := newTestCluster(t, 1, nil)
	n := c.nodes["n1"]
	is := func(kind string, want schema.ConditionStatus) {
		t.Helper()
		eventually(t, patience, kind+" is "+string(want), func() bool {
			doc, err := statefile.Read[schema.Daemon](ownership.Dir(n.dir, ownership.Elector)+"/daemon.json", os.Getuid())
			if err != nil {
				return false
			}
			var node schema.Observed
			if n.r.ask(t.Context(), func() { node = n.r.book.Node() }) != nil {
				return false
			}
			c, ok := schema.FindCondition(doc.Conditions, kind)
			return ok && c.Status == want && doc.Observed == node
		})
	}
	for _, kind := range []string{schema.ConditionReady, conditionSynced, conditionRenewed, conditionServing} {
		is(kind, schema.True)
	}
	n.api.setCut(true)
	is(conditionRenewed, schema.False)
	var page strings.Builder
	if report, err := n.r.Report(t.Context()); err != nil || report.Print(&page) != nil || !strings.Contains(page.String(), "cannot be renewed") {
		t.Errorf("%v; the page does not say that the Lease cannot be renewed:\n%s", err, page.String())
	}
	n.api.setCut(false)
	is(conditionRenewed, schema.True)
	n.arpdUp.Store(false)
	is(conditionServing, schema.False)
	is(schema.ConditionReady, schema.True)
}

func TestStopHandsOverWithoutWaitingForTheLease(t *testing.T) {
	c := newTestCluster(t, 3, nil)
	c.loadBalancer("web", "203.0.113.10", "n1")
	node := c.served(t, "web", "203.0.113.10")
	begin := time.Now()
	moved := make(chan time.Duration, 1)
	go func() {
		for time.Since(begin) < patience {
			if o := c.wire.owner("203.0.113.10"); o != "" && o != node {
				break
			}
			time.Sleep(time.Millisecond)
		}
		moved <- time.Since(begin)
	}()
	c.nodes[node].stop()
	if d := <-moved; d > testDuration-testRenew {
		t.Errorf("moved after %v", d)
	} else {
		t.Logf("moved after %v", d)
	}
	eventually(t, patience, "the new owner is told", func() bool { _, ok := c.told("web", "OwnerChanged"); return ok })
}

func TestKilledElectorIsReplacedAfterItsLease(t *testing.T) {
	c := newTestCluster(t, 3, nil)
	c.loadBalancer("web", "203.0.113.10", "n1")
	node := c.served(t, "web", "203.0.113.10")
	c.nodes[node].kill()
	eventually(t, patience, "another node takes over", func() bool {
		o := c.wire.owner("203.0.113.10")
		return o != "" && o != node
	})
	c.served(t, "web", "203.0.113.10")
}

func TestRestartWithinTheGrantMovesNothing(t *testing.T) {
	c := newTestCluster(t, 3, nil)
	c.loadBalancer("web", "203.0.113.10", "n1")
	node := c.served(t, "web", "203.0.113.10")
	for range 3 {
		c.nodes[node].kill()
		time.Sleep(50 * time.Millisecond)
		c.nodes[node].start()
		time.Sleep(testDuration + testRenew)
		if o := c.wire.owner("203.0.113.10"); o != node {
			t.Fatalf("owner is %q, was %s", o, node)
		}
	}
	if o := c.wire.owners("203.0.113.10"); len(o) != 1 {
		t.Errorf("owners %v", o)
	}
}

func TestRestartAfterTheGrantClaimsAfresh(t *testing.T) {
	c := newTestCluster(t, 1, nil)
	c.loadBalancer("web", "203.0.113.10", "n1")
	c.served(t, "web", "203.0.113.10")
	c.nodes["n1"].kill()
	time.Sleep(testDuration)
	if o := c.wire.owner("203.0.113.10"); o != "" {
		t.Fatalf("%s still claims after its grant", o)
	}
	c.nodes["n1"].start()
	c.served(t, "web", "203.0.113.10")
}

func TestCutOffNodeFallsSilentBeforeAnotherStarts(t *testing.T) {
	c := newTestCluster(t, 3, nil)
	c.loadBalancer("web", "203.0.113.10", "n1")
	node := c.served(t, "web", "203.0.113.10")
	c.nodes[node].api.setCut(true)
	eventually(t, patience, "another node takes over", func() bool {
		o := c.wire.owner("203.0.113.10")
		return o != "" && o != node
	})
	c.nodes[node].api.setCut(false)
	next := c.served(t, "web", "203.0.113.10")
	time.Sleep(3 * testRenew)
	if o := c.wire.owner("203.0.113.10"); o != next {
		t.Errorf("the address went back from %s to %q", next, o)
	}
}

func TestEditedAddressMoves(t *testing.T) {
	c := newTestCluster(t, 2, nil)
	c.loadBalancer("web", "203.0.113.128", "n1")
	c.served(t, "web", "203.0.113.128")
	c.edit("web", func(s *corev1.Service) { s.Annotations["kube-vip.io/loadbalancerIPs"] = "203.0.113.126" })
	c.served(t, "web", "203.0.113.126")
	eventually(t, patience, "the old address is gone", func() bool { return c.wire.owner("203.0.113.128") == "" && !c.claimed("203.0.113.128") })
	c.edit("web", func(s *corev1.Service) { s.Spec.Ports[0].Port = 8080 })
	eventually(t, patience, "the status has the port", func() bool {
		in := c.service("web").Status.LoadBalancer.Ingress
		return len(in) == 1 && in[0].Ports[0].Port == 8080
	})
	if o := c.wire.owners("203.0.113.126"); len(o) != 1 {
		t.Errorf("the address moved: %v", o)
	}
}

// claimed says whether any Lease claims the address.
func (s *store) claimed(ip string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.leases {
		for _, a := range l.Claims {
			if a.String() == ip {
				return true
			}
		}
	}
	return false
}

func TestAddedAddressDoesNotPauseTheFirst(t *testing.T) {
	c := newTestCluster(t, 2, nil)
	c.loadBalancer("web", "203.0.113.10", "n1")
	node := c.served(t, "web", "203.0.113.10")
	done := make(chan struct{})
	paused := make(chan bool, 1)
	go func() {
		was := false
		for {
			select {
			case <-done:
				paused <- was
				return
			default:
				was = was || c.wire.owner("203.0.113.10") == ""
				time.Sleep(time.Millisecond)
			}
		}
	}()
	c.edit("web", func(s *corev1.Service) {
		s.Annotations["kube-vip.io/loadbalancerIPs"] = "203.0.113.10,2001:db8::10"
		s.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
	})
	if n := c.served(t, "web", "2001:db8::10"); n != node {
		t.Errorf("the second address is on %s, the first on %s", n, node)
	}
	close(done)
	if <-paused {
		t.Error("the first address paused")
	}
}

func TestTypeAndClassChangesWithdrawAndBringBack(t *testing.T) {
	c := newTestCluster(t, 2, nil)
	c.loadBalancer("web", "203.0.113.10", "n1")
	away := map[string]func(*corev1.Service){
		"type":  func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeClusterIP },
		"class": func(s *corev1.Service) { s.Spec.LoadBalancerClass = ptr.To("example.com/other") },
	}
	for name, change := range away {
		c.served(t, "web", "203.0.113.10")
		c.edit("web", change)
		eventually(t, patience, name+": withdrawn, released and cleared", func() bool {
			svc := c.service("web")
			_, annotated := svc.Annotations[kube.AnnotationHost]
			return c.wire.owner("203.0.113.10") == "" && !c.claimed("203.0.113.10") && !annotated &&
				len(svc.Status.LoadBalancer.Ingress) == 0
		})
		c.edit("web", func(s *corev1.Service) {
			s.Spec.Type, s.Spec.LoadBalancerClass = corev1.ServiceTypeLoadBalancer, nil
		})
	}
	c.served(t, "web", "203.0.113.10")
}

func TestDeletedServiceIsReleased(t *testing.T) {
	c := newTestCluster(t, 2, nil)
	c.loadBalancer("web", "203.0.113.10", "n1")
	c.loadBalancer("shared", "203.0.113.10", "n1")
	c.edit("shared", func(s *corev1.Service) { s.Spec.Ports[0].Port = 81 })
	node := c.served(t, "web", "203.0.113.10")
	c.served(t, "shared", "203.0.113.10")
	c.deleteService("default", "web")
	time.Sleep(2 * testRenew)
	if o := c.wire.owner("203.0.113.10"); o != node {
		t.Errorf("the sibling's address is at %q, was at %s", o, node)
	}
	c.deleteService("default", "shared")
	eventually(t, patience, "released", func() bool { return c.wire.owner("203.0.113.10") == "" && !c.claimed("203.0.113.10") })
}

func TestLocalPolicyFollowsItsEndpoints(t *testing.T) {
	c := newTestCluster(t, 3, nil)
	c.loadBalancer("web", "203.0.113.10", "n2")
	c.edit("web", func(s *corev1.Service) { s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal })
	on := func(node string) {
		t.Helper()
		eventually(t, patience, "served by "+node, func() bool { return c.wire.owner("203.0.113.10") == node })
	}
	on("n2")
	for range 3 {
		c.endpoints("web", "n3")
		on("n3")
		c.endpoints("web")
		on("")
		c.endpoints("web", "n2")
		on("n2")
	}
}
