package reconcile

import (
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vipod/vipod/shared/ownership"
	"github.com/vipod/vipod/shared/schema"
	"github.com/vipod/vipod/shared/statefile"
)

// slow is how long the fake egressd takes to take a tunnel away.
const slow = 200 * time.Millisecond

// fakeEgressd is an egressd with a tunnel for a VIP, and the far end that must
// never hear two nodes.
type fakeEgressd struct {
	n          *fakeNode
	far        *wire
	vip        netip.Prefix
	root, vips *statefile.Writer
	docs       *statefile.Set[schema.VIP, *schema.VIP]
	up         bool
	leaving    time.Time // since when the tunnel is to go
	reason     string
}

// burrow starts an egressd on every node of a cluster in WireGuard mode.
func burrow(t *testing.T, c *cluster, vip, reason string) *wire {
	t.Helper()
	far := &wire{t: t, claims: map[string]map[netip.Addr]time.Duration{}, moves: map[netip.Addr][]string{}}
	done := make(chan struct{})
	var wg sync.WaitGroup
	t.Cleanup(func() { close(done); wg.Wait() })
	for _, n := range c.nodes {
		e := &fakeEgressd{n: n, far: far, vip: netip.MustParsePrefix(vip), reason: reason,
			docs: statefile.NewSet[schema.VIP](ownership.VIPs(n.dir, ownership.Elector), os.Getuid())}
		var err error
		if err = os.MkdirAll(ownership.VIPs(n.dir, ownership.Egressd), 0o750); err == nil {
			e.root, err = statefile.NewWriter(ownership.Dir(n.dir, ownership.Egressd), statefile.Instance(testBoot))
		}
		if err == nil {
			e.vips, err = statefile.NewWriter(ownership.VIPs(n.dir, ownership.Egressd), statefile.Instance(testBoot))
		}
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				case <-time.After(2 * time.Millisecond):
					e.pass()
				}
			}
		})
	}
	return far
}

func (e *fakeEgressd) pass() {
	n := e.n
	grant, _ := statefile.Read[schema.Grant](ownership.Dir(n.dir, ownership.Elector)+"/grant.json", os.Getuid())
	node, err := statefile.Read[schema.Node](ownership.Dir(n.dir, ownership.Elector)+"/node.json", os.Getuid())
	if err != nil {
		return
	}
	n.write(e.root, "daemon", &schema.Daemon{
		Name: "egressd", Observed: node.Seen(), Conditions: readiness(false), Tunnels: []schema.Tunnel{{Name: "wg0", VIP: e.vip}},
	})
	list, _, err := e.docs.Load()
	if err != nil {
		return
	}
	wanted := false
	for _, doc := range list {
		wanted = wanted || doc.WireGuard != nil && doc.State == schema.StateActive
	}
	switch {
	case wanted:
		e.up, e.leaving = true, time.Time{}
	case e.up && e.leaving.IsZero():
		e.leaving = time.Now()
	case e.up && time.Since(e.leaving) > slow:
		e.up = false
	}
	claims := map[netip.Addr]time.Duration{}
	if e.up {
		claims[e.vip.Addr()] = time.Duration(grant.ValidUntil[schema.GrantNode])
	}
	e.far.set(n.name, claims)
	for key, doc := range list {
		c := schema.Condition{Type: schema.ConditionTunnelled, Status: schema.True, Reason: e.reason, Message: "tunnel wg0 is up"}
		switch {
		case !e.up:
			c.Status, c.Reason = schema.False, "NotActive"
		case doc.State != schema.StateActive:
			c.Status, c.Reason = schema.Unknown, "StillUp"
		}
		n.write(e.vips, key, &schema.Status{Key: key, Observed: doc.Seen(), Conditions: []schema.Condition{c}})
	}
}

var wireguard = map[string]string{"vip_wireguard": "true"}

func TestTunnelIsHandedOverOnlyAfterItIsDown(t *testing.T) {
	c := newTestCluster(t, 2, wireguard)
	far := burrow(t, c, "203.0.113.10/32", schema.TunnelConnected)
	c.loadBalancer("web", "203.0.113.10", "n1")
	node := c.served(t, "web", "203.0.113.10")
	if got := far.owner("203.0.113.10"); got != node {
		t.Errorf("%s serves, and %q has the tunnel", node, got)
	}
	eventually(t, patience, "the tunnel is told of", func() bool { _, ok := c.told("web", "TunnelUp"); return ok })
	c.nodes[node].stop()
	eventually(t, patience, "the other node has the tunnel", func() bool { o := far.owner("203.0.113.10"); return o != "" && o != node })
	if other := c.served(t, "web", "203.0.113.10"); other == node {
		t.Errorf("%s still serves", other)
	}
}

func TestVIPWithoutATunnelIsServedNowhereAndToldOf(t *testing.T) {
	c := newTestCluster(t, 1, wireguard)
	burrow(t, c, "203.0.113.99/32", schema.TunnelConnected)
	c.loadBalancer("web", "203.0.113.10", "n1")
	eventually(t, patience, "the missing tunnel is told of", func() bool {
		m, ok := c.told("web", "NoEligibleNode")
		return ok && strings.Contains(m, "no tunnel of egressd's on this node has the vip 203.0.113.10")
	})
}

func TestKeyInUseElsewhereIsToldOf(t *testing.T) {
	c := newTestCluster(t, 1, wireguard)
	burrow(t, c, "203.0.113.10/32", schema.TunnelContested)
	c.loadBalancer("web", "203.0.113.10", "n1")
	eventually(t, patience+tunnelPatience, "it is told", func() bool { _, ok := c.told("web", "TunnelKeyInUseElsewhere"); return ok })
}
