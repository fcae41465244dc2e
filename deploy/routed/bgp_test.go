package routed

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vipod/vipod/deploy/lab"
	"github.com/vipod/vipod/shared/ownership"
)

var getOptions = metav1.GetOptions{}

var bgpEnv = []string{
	"bgp_enable=true", fmt.Sprintf("bgp_as=%d", nodeAS), "per_service_election_on_demand=true",
	"vipod_pod_anycast=203.0.113.96/27,2001:db8:0:9::/64",
}

func TestE2EBGP(t *testing.T) {
	peers := newPeers(t)
	c := start(t, append(bgpEnv, "vipod_bgp_config="+peers)...)
	c.peers = peers
	c.startBird("graceful restart on; bfd on;")
	for _, part := range []struct {
		name string
		test func(*cluster)
	}{
		{"every node announces a Service and pods answer", everyNodeAnnounces},
		{"only nodes with an endpoint announce with policy Local", onlyNodesWithEndpoints},
		{"a shared address goes with the last Service", sharedAddress},
		{"one node at a time where that is asked for", elected},
		{"nothing is lost when bgpd is killed", killedSpeakers},
		{"nothing is lost when a node's pod is replaced", replaced},
		{"nothing is lost while endpoints are replaced one by one", rolledEndpoints},
		{"pods that share an address are routed to while they serve", anycastPods},
		{"a node that is cut off is left within BFD's detection time", cutWithBFD},
		{"the control plane's VIP follows each node's API server", controlPlane},
	} {
		t.Run(part.name, func(t *testing.T) { part.test(c.in(t)) })
	}
}

func everyNodeAnnounces(c *cluster) {
	vips := c.next()
	c.create(lab.ServiceSpec{Name: "web", VIPs: vips, Pods: c.pods()})
	c.awaitHops(3, vips...)
	for _, ip := range vips {
		c.answers(ip)
	}
	c.status("web", vips)
	c.must(c.SetEndpoints(c.ctx, "web"))
	c.awaitHops(0, vips...)
	c.must(c.SetEndpoints(c.ctx, "web", c.pods()...))
	c.awaitHops(3, vips...)
	c.delete("web")
	c.awaitHops(0, vips...)
}

func onlyNodesWithEndpoints(c *cluster) {
	vips, pods := c.next(), c.pods()
	c.create(lab.ServiceSpec{Name: "local", VIPs: vips, Policy: corev1.ServiceExternalTrafficPolicyLocal, Pods: pods[:1]})
	c.awaitHops(1, vips...)
	pod, err := c.Pod(pods[0])
	c.must(err)
	node, err := lab.NodeAddrs(pod.Node)
	c.must(err)
	if got := c.hops(vips[0]); !slices.Equal(got, []string{node.V4.String()}) {
		c.t.Errorf("next hops %v, want %s", got, node.V4)
	}
	c.answers(vips[0])
	c.must(c.SetEndpoints(c.ctx, "local", pods...))
	c.awaitHops(3, vips...)
	c.must(c.SetEndpoints(c.ctx, "local"))
	c.awaitHops(0, vips...)
	c.delete("local")
}

func sharedAddress(c *cluster) {
	vips := c.next()
	c.create(lab.ServiceSpec{Name: "one", VIPs: vips, Pods: c.pods()})
	c.create(lab.ServiceSpec{Name: "two", VIPs: vips, Pods: c.pods(), Ports: []corev1.ServicePort{{Name: "other", Port: 8080, Protocol: corev1.ProtocolTCP}}})
	c.awaitHops(3, vips...)
	c.delete("one")
	time.Sleep(time.Second)
	c.awaitHops(3, vips...)
	c.delete("two")
	c.awaitHops(0, vips...)
}

func elected(c *cluster) {
	vips := c.next()
	c.create(lab.ServiceSpec{Name: "single", VIPs: vips, Pods: c.pods(), Annotations: map[string]string{"kube-vip.io/forcePerServiceElection": "true"}})
	c.awaitHops(1, vips...)
	for _, ip := range vips {
		c.answers(ip)
	}
	owner, err := c.AwaitOwner(c.ctx, "single", "")
	c.must(err)
	c.must(c.StopNode(c.ctx, owner, syscall.SIGTERM))
	_, err = c.AwaitOwner(c.ctx, "single", owner)
	c.must(err)
	c.awaitHops(1, vips...)
	c.answers(vips[0])
	c.must(c.StartNode(c.ctx, owner))
	c.must(c.AwaitReady(c.ctx, owner))
	c.delete("single")
	c.awaitHops(0, vips...)
}

func controlPlane(c *cluster) {
	vip := lab.ControlPlaneVIP()
	c.awaitHops(3, vip.Slice()...)
	for _, node := range c.Nodes() { // each has it, and none claims it by ARP
		out, err := c.Exec(c.ctx, node, "ip", "-4", "-o", "address", "show")
		c.must(err)
		if !strings.Contains(string(out), vip.V4.String()+"/32") {
			c.t.Errorf("%s has not %s:\n%s", node, vip.V4, out)
		}
	}
	c.must(c.StopRelay(c.ctx, "n1"))
	c.awaitHops(2, vip.Slice()...)
	c.must(c.StartRelay(c.ctx, "n1"))
	c.awaitHops(3, vip.Slice()...)
}

func killedSpeakers(c *cluster) {
	vips := c.next()
	c.create(lab.ServiceSpec{Name: "kept", VIPs: vips, Pods: c.pods()})
	c.awaitHops(3, vips...)
	for _, ip := range vips {
		c.settled(ip)
		c.nothingIsLost(ip, func() {
			for _, node := range c.Nodes() {
				c.must(c.KillDaemon(c.ctx, node, ownership.Bgpd))
			}
			time.Sleep(500 * time.Millisecond)
			for _, node := range c.Nodes() {
				c.must(c.StartDaemon(c.ctx, node, ownership.Bgpd))
			}
			c.awaitSessions()
		})
	}
	c.delete("kept")
	c.awaitHops(0, vips...)
}

// settled waits until pods answer by every flow: each node's kube-proxy knows
// the address by then.
func (c *cluster) settled(ip netip.Addr) {
	c.t.Helper()
	c.eventually("every flow to "+ip.String()+" is answered", func() bool {
		stop := c.asking(ip)
		time.Sleep(200 * time.Millisecond)
		return stop().silence < 100*time.Millisecond
	})
}

// awaitSessions waits until every bgpd has all its sessions and has told its
// paths.
func (c *cluster) awaitSessions() {
	c.t.Helper()
	for _, node := range c.Nodes() {
		c.eventually("bgpd on "+node+" has its sessions", func() bool {
			b, err := c.Ask(c.ctx, node, ownership.Bgpd, "/metrics")
			return err == nil && strings.Count(string(b), `state="SESSION_STATE_ESTABLISHED"} 1`) == 2
		})
	}
}

func replaced(c *cluster) {
	vips, pods := c.next(), c.pods()
	c.create(lab.ServiceSpec{Name: "rolled", VIPs: vips, Pods: pods})
	c.awaitHops(3, vips...)
	c.settled(vips[0])
	c.nothingIsLost(vips[0], func() {
		c.must(c.StopNode(c.ctx, "n2", syscall.SIGTERM)) // the whole pod, as in a rolling update
		c.awaitHops(2, vips...)
		c.must(c.StartNode(c.ctx, "n2"))
		c.must(c.AwaitReady(c.ctx, "n2"))
		c.awaitHops(3, vips...)
	})
	c.delete("rolled")
	c.awaitHops(0, vips...)
}

// in returns the cluster for a part of a test.
func (c *cluster) in(t *testing.T) *cluster {
	sub := *c
	sub.t = t
	c.vip += 3
	return &sub
}

func (c *cluster) pods() (names []string) {
	pods, err := c.Pods()
	c.must(err)
	for _, p := range pods {
		names = append(names, p.Name)
	}
	return names
}

func (c *cluster) create(spec lab.ServiceSpec) {
	c.t.Helper()
	_, err := c.CreateService(c.ctx, spec)
	c.must(err)
}

func (c *cluster) delete(name string) {
	c.t.Helper()
	c.must(c.DeleteService(c.ctx, name))
}

func (c *cluster) answers(ip netip.Addr) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.ctx, patience)
	defer cancel()
	_, err := c.AwaitAnswer(ctx, netip.AddrPortFrom(ip, 80))
	c.must(err)
}

// status waits until the Service's status has the addresses.
func (c *cluster) status(name string, want []netip.Addr) {
	c.t.Helper()
	c.eventually("the status of "+name+" is written", func() bool {
		s, err := c.Client().CoreV1().Services("default").Get(c.ctx, name, getOptions)
		if err != nil || len(s.Status.LoadBalancer.Ingress) != len(want) {
			return false
		}
		for i, ip := range want {
			if s.Status.LoadBalancer.Ingress[i].IP != ip.String() {
				return false
			}
		}
		return true
	})
}
