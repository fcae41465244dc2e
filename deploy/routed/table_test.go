package routed

import (
	"fmt"
	"net/netip"
	"strings"
	"syscall"
	"testing"

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
	c := start(t, "vip_routingtable=true")
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
