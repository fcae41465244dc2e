package routed

import (
	"fmt"
	"net/netip"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vipod/vipod/deploy/lab"
)

var getOptions = metav1.GetOptions{}

var bgpEnv = []string{"bgp_enable=true", fmt.Sprintf("bgp_as=%d", nodeAS), fmt.Sprintf("bgp_peers=198.51.100.100:%d,[2001:db8:0:1::100]:%d", routerAS, routerAS)}

func TestE2EBGP(t *testing.T) {
	c := start(t, bgpEnv...)
	c.startBird("")
	t.Run("every node announces a Service, and pods answer", func(t *testing.T) {
		c := c.in(t)
		vips := c.next()
		c.create(lab.ServiceSpec{Name: "web", VIPs: vips, Pods: c.pods()})
		c.awaitHops(3, vips...)
		for _, ip := range vips {
			c.answers(ip)
		}
		c.status("web", vips)
		c.delete("web")
		c.awaitHops(0, vips...)
	})
}

// in returns the cluster for a part of a test.
func (c *cluster) in(t *testing.T) *cluster {
	sub := *c
	sub.t = t
	c.vip += 10
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
	_, err := c.AwaitAnswer(c.ctx, netip.AddrPortFrom(ip, 80))
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
