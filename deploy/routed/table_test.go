package routed

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipod/vipod/deploy/lab"
)

// routesOf returns the routes of routing-table mode of a node.
func (c *cluster) routesOf(node string) string {
	all := ""
	for _, family := range []string{"-4", "-6"} {
		out, _ := c.Exec(c.ctx, node, "ip", family, "route", "show", "table", "198") // no route is an error for ip
		all += string(out)
	}
	return all
}

func (c *cluster) awaitRoutes(want bool, nodes []string, ips ...netip.Addr) {
	c.t.Helper()
	for _, node := range nodes {
		for _, ip := range ips {
			c.eventually(fmt.Sprintf("%s has a route for %s: %t", node, ip, want), func() bool {
				return strings.Contains(c.routesOf(node), ip.String()+" dev eth0 proto 248") == want
			})
		}
	}
}

func TestE2ERoutingTable(t *testing.T) {
	c := start(t, "vip_routingtable=true", "per_service_election_on_demand=true")
	cp := lab.ControlPlaneVIP().Slice()
	c.awaitRoutes(true, c.Nodes(), cp...)
	vips, pods := c.next(), c.pods()
	c.create(lab.ServiceSpec{Name: "web", VIPs: vips, Pods: pods})
	c.awaitRoutes(true, c.Nodes(), vips...)
	c.status("web", vips)
	c.create(lab.ServiceSpec{Name: "local", VIPs: c.next(), Policy: "Local", Pods: pods[:1]})
	pod, err := c.Pod(pods[0])
	c.must(err)
	second := []netip.Addr{netip.MustParseAddr("203.0.113.102"), netip.MustParseAddr("2001:db8:0:9::2")}
	for _, node := range c.Nodes() {
		c.awaitRoutes(node == pod.Node, []string{node}, second...)
	}
	sharedRoute(c, pods)
	electedRoute(c, pods)
	c.must(c.StopRelay(c.ctx, "n1"))
	c.awaitRoutes(false, []string{"n1"}, cp...)
	c.must(c.StartRelay(c.ctx, "n1"))
	c.awaitRoutes(true, []string{"n1"}, cp...)
	c.delete("web")
	c.awaitRoutes(false, c.Nodes(), vips...)
	c.must(c.StopNode(c.ctx, "n2", syscall.SIGTERM))
	if left := c.routesOf("n2"); left != "" {
		t.Errorf("left behind:\n%s", left)
	}
}

// sharedRoute: the route of an address goes with the last Service that has it.
func sharedRoute(c *cluster, pods []string) {
	vips := c.next()
	c.create(lab.ServiceSpec{Name: "one", VIPs: vips, Pods: pods})
	c.create(lab.ServiceSpec{Name: "two", VIPs: vips, Pods: pods, Ports: []corev1.ServicePort{{Name: "other", Port: 8080, Protocol: corev1.ProtocolTCP}}})
	c.awaitRoutes(true, c.Nodes(), vips...)
	c.delete("one")
	time.Sleep(time.Second)
	c.awaitRoutes(true, c.Nodes(), vips...)
	c.delete("two")
	c.awaitRoutes(false, c.Nodes(), vips...)
}

// electedRoute: one node at a time has the route where that is asked for, next
// to Services without an election.
func electedRoute(c *cluster, pods []string) {
	vips := c.next()
	c.create(lab.ServiceSpec{Name: "single", VIPs: vips, Pods: pods, Annotations: map[string]string{"kube-vip.io/forcePerServiceElection": "true"}})
	owner, err := c.AwaitOwner(c.ctx, "single", "")
	c.must(err)
	c.awaitRoutes(true, []string{owner}, vips...)
	c.awaitRoutes(false, slices.DeleteFunc(c.Nodes(), func(n string) bool { return n == owner }), vips...)
	c.delete("single")
	c.awaitRoutes(false, c.Nodes(), vips...)
}
