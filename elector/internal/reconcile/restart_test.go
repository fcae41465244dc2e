package reconcile

import (
	"os"
	"testing"
	"time"

	"github.com/vipod/vipod/shared/ownership"
)

// A node forfeited what it owned while its elector was away. The Leases are
// listed before Services, slices and Nodes are: a renewal must not open the
// fence over the documents that are left.
func TestRestartAfterTheGrantClaimsNothingBeforeThePlan(t *testing.T) {
	c := newTestCluster(t, 2, nil)
	c.loadBalancer("web", "203.0.113.10", "n1")
	node := c.served(t, "web", "203.0.113.10")
	n := c.nodes[node]
	n.kill()
	next := ""
	eventually(t, patience, "another node takes over", func() bool {
		next = c.wire.owner("203.0.113.10")
		return next != "" && next != node
	})
	n.partial.Store(true)
	n.start()
	time.Sleep(3 * testRenew) // the wire fails the test when two nodes claim the address
	if o := c.wire.owner("203.0.113.10"); o != next {
		t.Errorf("the owner is %q, was %s", o, next)
	}
	n.partial.Store(false)
	n.api.changed.Fire()
	time.Sleep(2 * testRenew)
	if o := c.wire.owner("203.0.113.10"); o != next {
		t.Errorf("the owner is %q, was %s", o, next)
	}
}

func TestRestartWithinTheGrantGoesOnWithoutAPlan(t *testing.T) {
	c := newTestCluster(t, 2, nil)
	c.loadBalancer("web", "203.0.113.10", "n1")
	node := c.served(t, "web", "203.0.113.10")
	n := c.nodes[node]
	n.kill()
	n.partial.Store(true)
	n.start()
	time.Sleep(testDuration + testRenew)
	if o := c.wire.owners("203.0.113.10"); len(o) != 1 {
		t.Errorf("owners %v", o)
	}
	if o := c.wire.owner("203.0.113.10"); o != node {
		t.Errorf("the owner is %q, was %s", o, node)
	}
}

// What was resumed lapses before there is a plan.
func TestResumedGrantThatLapsesWithoutAPlanForfeits(t *testing.T) {
	c := newTestCluster(t, 2, nil)
	c.loadBalancer("web", "203.0.113.10", "n1")
	node := c.served(t, "web", "203.0.113.10")
	n := c.nodes[node]
	n.kill()
	n.partial.Store(true)
	n.start()
	eventually(t, patience, "renewed", func() bool { c.mu.Lock(); defer c.mu.Unlock(); return len(n.api.waiting) == 0 })
	n.api.setCut(true)
	next := ""
	eventually(t, patience, "another node takes over", func() bool {
		next = c.wire.owner("203.0.113.10")
		return next != "" && next != node
	})
	n.api.setCut(false)
	time.Sleep(3 * testRenew)
	if o := c.wire.owner("203.0.113.10"); o != next {
		t.Errorf("the owner is %q, was %s", o, next)
	}
}

func TestStopBeforeThePlanReleases(t *testing.T) {
	c := newTestCluster(t, 2, nil)
	c.loadBalancer("web", "203.0.113.10", "n1")
	node := c.served(t, "web", "203.0.113.10")
	n := c.nodes[node]
	n.kill()
	n.partial.Store(true)
	n.start()
	time.Sleep(testRenew)
	begin := time.Now()
	n.stop()
	eventually(t, patience, "moved", func() bool { o := c.wire.owner("203.0.113.10"); return o != "" && o != node })
	if d := time.Since(begin); d > testDuration+3*time.Second { // the linger, and a busy machine
		t.Errorf("moved after %v", d)
	}
}

// What an earlier process left active cannot be read: it is not known for how
// long this node claims it, so that its Lease must not be touched before vipd
// has swept the node.
func TestUnreadableDocumentIsSweptBeforeItsClaimIsGivenUp(t *testing.T) {
	for _, file := range []string{"vips/default.web.json", "grant.json"} {
		t.Run(file, func(t *testing.T) {
			c := newTestCluster(t, 2, nil)
			c.loadBalancer("web", "203.0.113.10", "n1")
			node := c.served(t, "web", "203.0.113.10")
			n := c.nodes[node]
			n.kill()
			n.vipdUp.Store(false) // the kernel goes on
			if err := os.WriteFile(ownership.Dir(n.dir, ownership.Elector)+"/"+file, []byte("{"), 0o640); err != nil {
				t.Fatal(err)
			}
			n.start()
			time.Sleep(testRenew)
			if o := c.wire.owner("203.0.113.10"); o != node {
				t.Fatalf("the owner is %q, was %s", o, node)
			}
			if !c.claimed("203.0.113.10") {
				t.Fatal("the claim was given up while the address is on the wire")
			}
			n.vipdUp.Store(true)
			time.Sleep(testDuration)
			c.served(t, "web", "203.0.113.10")
			eventually(t, patience, "the node is live again", func() bool { return n.api.ready(node) })
		})
	}
}

// ready says whether the node's Lease says so.
func (s *store) ready(node string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.leases[node].Ready
}

func TestVipdThatDoesNotAnswerSuspendsBeforeThePlan(t *testing.T) {
	c := newTestCluster(t, 2, nil)
	c.loadBalancer("web", "203.0.113.10", "n1")
	node := c.served(t, "web", "203.0.113.10")
	n := c.nodes[node]
	n.kill()
	n.partial.Store(true)
	n.start()
	n.vipdUp.Store(false)
	eventually(t, patience, "moved", func() bool { o := c.wire.owner("203.0.113.10"); return o != "" && o != node })
}

func TestControlPlaneIsNotClaimedBeforeThePlanAfterTheGrant(t *testing.T) {
	c := newTestCluster(t, 2, map[string]string{"cp_enable": "true", "address": "203.0.113.5"})
	node, next := "", ""
	eventually(t, patience, "served", func() bool { node = c.wire.owner("203.0.113.5"); return node != "" })
	n := c.nodes[node]
	n.kill()
	eventually(t, patience, "moved", func() bool { next = c.wire.owner("203.0.113.5"); return next != "" && next != node })
	n.partial.Store(true)
	n.start()
	c.nodes[next].kill() // the Lease becomes free while there is no plan
	time.Sleep(testDuration + 2*testRenew)
	if o := c.wire.owner("203.0.113.5"); o != "" {
		t.Errorf("%s claims the VIP without a plan", o)
	}
	n.partial.Store(false)
	n.api.changed.Fire()
	eventually(t, patience, "served again", func() bool { return c.wire.owner("203.0.113.5") == node })
}
