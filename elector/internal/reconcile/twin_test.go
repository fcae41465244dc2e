package reconcile

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/vipod/vipod/elector/internal/claim"
	"github.com/vipod/vipod/elector/internal/kube"
)

// renewedByTwin is n1's Lease as another machine of that name renews it.
func (c *cluster) renewedByTwin(claims ...netip.Addr) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.version++
	l := kube.NodeLease{Writer: "another machine", Lease: claim.Lease{
		Node: "n1", Version: c.version, Duration: testDuration, Ready: true, Claims: claims,
	}}
	c.leases["n1"] = l
	c.all(func(a *fakeAPI) { a.leasesC <- kube.LeaseEvent{Leases: []kube.NodeLease{l}} })
}

func TestBesideAMachineOfTheSameNameNothingIsClaimedOrCleared(t *testing.T) {
	const ip = "203.0.113.10"
	c := newTestCluster(t, 1, nil)
	c.loadBalancer("web", ip, "n1")
	c.served(t, "web", ip)
	c.renewedByTwin(netip.MustParseAddr(ip))
	eventually(t, patience, "silent", func() bool { return c.wire.owner(ip) == "" })
	for end := time.Now().Add(2 * testDuration); time.Now().Before(end); time.Sleep(testDuration / 8) {
		c.renewedByTwin(netip.MustParseAddr(ip))
		if o := c.wire.owner(ip); o != "" {
			t.Fatalf("the address is claimed by %s as well", o)
		}
	}
	c.mu.Lock()
	web := c.services[types.NamespacedName{Namespace: "default", Name: "web"}]
	events := slices.Clone(c.events)
	c.mu.Unlock()
	if len(web.Status.LoadBalancer.Ingress) == 0 || web.Annotations[kube.AnnotationHost] != "n1" {
		t.Errorf("the other machine's status was cleared: %v, %v", web.Annotations, web.Status.LoadBalancer)
	}
	if !slices.ContainsFunc(events, func(e kube.Event) bool { return e.Reason == "NodeNameTaken" }) {
		t.Errorf("nobody was told: %v", events)
	}
	eventually(t, patience, "served again", func() bool { return c.wire.owner(ip) == "n1" })
}
