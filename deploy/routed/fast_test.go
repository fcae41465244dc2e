package routed

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vipod/vipod/deploy/lab"
	"github.com/vipod/vipod/shared/ownership"
)

// newPeers returns a file of peers that every elector can read: the router by
// each family.
func newPeers(t *testing.T) (file string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "peers")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(dir, "peers.yaml")
	writePeers(t, file, "")
	return file
}

// writePeers replaces the file; extra goes to each peer.
func writePeers(t *testing.T, file, extra string) {
	t.Helper()
	text := "peers:\n"
	for name, ip := range map[string]string{"four": "198.51.100.100", "six": "2001:db8:0:1::100"} {
		text += fmt.Sprintf("  - {name: %s, address: \"%s\", asn: %d%s}\n", name, ip, routerAS, extra)
	}
	if err := os.WriteFile(file+".new", []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
}

// awaitBFD waits until BFD is up with both peers of every node, or gone.
func (c *cluster) awaitBFD(want bool) {
	c.t.Helper()
	for _, node := range c.Nodes() {
		c.eventually(fmt.Sprintf("BFD on %s: %t", node, want), func() bool {
			b, err := c.Ask(c.ctx, node, ownership.Bgpd, "/status")
			up := strings.Count(string(b), `"bfd":"up"`)
			return err == nil && (up == 2 || !want && up == 0)
		})
	}
	c.awaitSessions()
}

// cutWithBFD has the peers' file ask for BFD, cuts a node off and measures for
// how long flows through it are silent.
func cutWithBFD(c *cluster) {
	writePeers(c.t, c.peers, ", bfd: {transmit: 50ms, receive: 50ms, multiplier: 3}")
	c.awaitBFD(true)
	vips := c.next()
	c.create(lab.ServiceSpec{Name: "cut", VIPs: vips, Pods: c.pods()})
	c.awaitHops(3, vips...)
	c.settled(vips[0])
	stop := c.asking(vips[0])
	time.Sleep(300 * time.Millisecond)
	c.must(c.Cut(c.ctx, "n1"))
	took := c.eventually("the router has left the node that is cut off", func() bool {
		return len(c.hops(vips[0])) == 2 && len(c.hops(vips[1])) == 2
	})
	time.Sleep(500 * time.Millisecond)
	o := stop()
	c.t.Logf("cut, BFD 3 x 50 ms: routes gone after %s, flows silent for at most %s, %d of %d lost", took, o.silence, o.lost, o.sent)
	if o.silence > 5*time.Second { // the hold time is 30 s
		c.t.Errorf("no answer for %s", o.silence)
	}
	c.must(c.Heal(c.ctx, "n1"))
	c.awaitHops(3, vips...)
	c.delete("cut")
	writePeers(c.t, c.peers, "")
	c.awaitBFD(false)
}

// rolledEndpoints replaces the endpoints node by node, as a rolling update
// does: each terminates and serves on until routers have left its node.
func rolledEndpoints(c *cluster) {
	vips, pods := c.next(), c.pods()
	c.create(lab.ServiceSpec{Name: "roll", VIPs: vips, Policy: corev1.ServiceExternalTrafficPolicyLocal, Pods: pods})
	c.awaitHops(3, vips...)
	c.settled(vips[0])
	c.nothingIsLost(vips[0], func() {
		for i, name := range pods {
			pod, err := c.Pod(name)
			c.must(err)
			c.terminating("roll", pod)
			c.awaitHops(2, vips...)
			rest := append(append([]string{}, pods[:i]...), pods[i+1:]...)
			c.must(c.SetEndpoints(c.ctx, "roll", rest...))
			time.Sleep(100 * time.Millisecond)
			c.must(c.SetEndpoints(c.ctx, "roll", pods...))
			c.awaitHops(3, vips...)
		}
	})
	c.delete("roll")
	c.awaitHops(0, vips...)
}

// terminating marks a pod's endpoints as of one that is being deleted and
// still serves.
func (c *cluster) terminating(service string, pod lab.Pod) {
	c.t.Helper()
	slices := c.Client().DiscoveryV1().EndpointSlices(metav1.NamespaceDefault)
	list, err := slices.List(c.ctx, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + service})
	c.must(err)
	yes, no := true, false
	for i := range list.Items {
		s := &list.Items[i]
		for n := range s.Endpoints {
			e := &s.Endpoints[n]
			if ip, err := netip.ParseAddr(e.Addresses[0]); err == nil && (ip == pod.V4 || ip == pod.V6) {
				e.Conditions = discoveryv1.EndpointConditions{Ready: &no, Serving: &yes, Terminating: &yes}
			}
		}
		_, err := slices.Update(c.ctx, s, metav1.UpdateOptions{})
		c.must(err)
	}
}
