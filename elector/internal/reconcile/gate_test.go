package reconcile

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vipod/vipod/elector/internal/claim"
	"github.com/vipod/vipod/elector/internal/kube"
	"github.com/vipod/vipod/shared/ownership"
	"github.com/vipod/vipod/shared/schema"
)

func TestArpdDownDrainsTheNode(t *testing.T) {
	c := newTestCluster(t, 2, nil)
	c.loadBalancer("web", "203.0.113.10", "n1")
	node := c.served(t, "web", "203.0.113.10")
	c.nodes[node].arpdUp.Store(false)
	time.Sleep(testDuration / 2)
	if o := c.wire.owner("203.0.113.10"); o != node {
		t.Errorf("a short absence moved the address to %q", o)
	}
	eventually(t, patience, "moved", func() bool { o := c.wire.owner("203.0.113.10"); return o != "" && o != node })
}

func TestVipdDownLetsTheLeaseRunOut(t *testing.T) {
	c := newTestCluster(t, 2, nil)
	c.loadBalancer("web", "203.0.113.10", "n1")
	node := c.served(t, "web", "203.0.113.10")
	c.nodes[node].vipdUp.Store(false)
	eventually(t, patience, "moved", func() bool { o := c.wire.owner("203.0.113.10"); return o != "" && o != node })
	c.nodes[node].vipdUp.Store(true)
	time.Sleep(testDuration)
	if o := c.wire.owner("203.0.113.10"); o == node {
		t.Error("the address went back")
	}
}

func TestVipdWhosePassesFailLosesTheNodeItsVIPs(t *testing.T) {
	c := newTestCluster(t, 2, nil)
	c.loadBalancer("web", "203.0.113.10", "n1")
	node := c.served(t, "web", "203.0.113.10")
	n := c.nodes[node]
	n.vipdBad.Store(true)
	time.Sleep(testRenew)
	n.vipdBad.Store(false)
	time.Sleep(testDuration + testRenew)
	if o := c.wire.owners("203.0.113.10"); len(o) != 1 {
		t.Errorf("a short failure moved the address: %v", o)
	}
	n.vipdBad.Store(true)
	eventually(t, patience, "moved", func() bool { o := c.wire.owner("203.0.113.10"); return o != "" && o != node })
}

func TestArpdWhosePassesFailDrainsTheNode(t *testing.T) {
	c := newTestCluster(t, 2, nil)
	c.loadBalancer("web", "203.0.113.10", "n1")
	node := c.served(t, "web", "203.0.113.10")
	c.nodes[node].arpdBad.Store(true)
	eventually(t, patience, "moved", func() bool { o := c.wire.owner("203.0.113.10"); return o != "" && o != node })
}

func TestStateDirectoryThatCannotBeWrittenLetsTheLeaseRunOut(t *testing.T) {
	c := newTestCluster(t, 2, nil)
	c.loadBalancer("web", "203.0.113.10", "n1")
	node := c.served(t, "web", "203.0.113.10")
	// Nothing can be renamed over a directory.
	grant := filepath.Join(ownership.Dir(c.nodes[node].dir, ownership.Elector), "grant.json")
	eventually(t, patience, "the grant is in the way", func() bool { return os.Remove(grant) == nil && os.Mkdir(grant, 0o750) == nil })
	var other string
	eventually(t, patience, "moved", func() bool { other = c.wire.owner("203.0.113.10"); return other != "" && other != node })
	time.Sleep(testDuration)
	if o := c.wire.owner("203.0.113.10"); o != other {
		t.Errorf("the address went on to %q", o)
	}
	if err := os.Remove(grant); err != nil {
		t.Fatal(err)
	}
	c.nodes[other].arpdUp.Store(false)
	eventually(t, patience, "the node serves again", func() bool { return c.wire.owner("203.0.113.10") == node })
}

// A process that was stopped for a while finds no answer of that time and no
// failed one either.
func TestAnswerAfterAPauseIsNews(t *testing.T) {
	g := gate{daemon: "vipd", patience: time.Second}
	g.trust(time.Hour)
	node := schema.Observed{Generation: 1}
	report := schema.Daemon{Observed: node, Conditions: []schema.Condition{{Type: schema.ConditionReady, Status: schema.True}}}
	if g.answer.note(nil) {
		t.Error("an answer among others is news")
	}
	g.answer.last.Store(int64(time.Hour))
	if ok, _, _ := g.open(time.Hour+2*time.Second, true, report, node); ok {
		t.Error("relied on without an answer")
	}
	if !g.answer.note(nil) {
		t.Error("the answer that was missed is no news")
	}
	if g.answer.note(nil) {
		t.Error("the one after it is")
	}
}

func TestVipdRestartMovesNothing(t *testing.T) {
	c := newTestCluster(t, 2, nil)
	c.loadBalancer("web", "203.0.113.10", "n1")
	node := c.served(t, "web", "203.0.113.10")
	c.nodes[node].vipdUp.Store(false)
	time.Sleep(testDuration / 2)
	c.nodes[node].vipdUp.Store(true)
	time.Sleep(testDuration + testRenew)
	if o := c.wire.owners("203.0.113.10"); len(o) != 1 {
		t.Errorf("owners %v", o)
	}
}

func TestLinkLossMovesAtOnce(t *testing.T) {
	c := newTestCluster(t, 2, nil)
	c.loadBalancer("web", "203.0.113.10", "n1")
	node := c.served(t, "web", "203.0.113.10")
	begin := time.Now()
	c.nodes[node].linkUp.Store(false)
	eventually(t, patience, "moved", func() bool { o := c.wire.owner("203.0.113.10"); return o != "" && o != node })
	if d := time.Since(begin); d > testDuration-testRenew {
		t.Errorf("moved after %v", d)
	}
}

func TestNobodyEligibleIsToldOnce(t *testing.T) {
	c := newTestCluster(t, 2, nil)
	c.loadBalancer("web", "203.0.113.10")
	eventually(t, patience, "told", func() bool { _, ok := c.told("web", "NoEligibleNode"); return ok })
	time.Sleep(testDuration)
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, e := range c.events {
		if e.Reason == "NoEligibleNode" {
			n++
		}
	}
	if n != 1 {
		t.Errorf("%d Events", n)
	}
}

func TestStrangerIsNotFought(t *testing.T) {
	c := newTestCluster(t, 2, nil)
	for _, n := range c.nodes {
		n.stranger("203.0.113.10", "02:00:00:00:00:99")
	}
	c.loadBalancer("web", "203.0.113.10", "n1")
	eventually(t, patience, "told", func() bool {
		m, ok := c.told("web", "ProbeConflict")
		return ok && strings.Contains(m, "02:00:00:00:00:99")
	})
	if o := c.wire.owners("203.0.113.10"); len(o) != 0 {
		t.Errorf("claimed by %v", o)
	}
}

func TestRivalOfAnActiveAddressIsTold(t *testing.T) {
	c := newTestCluster(t, 1, nil)
	c.loadBalancer("web", "203.0.113.10", "n1")
	c.served(t, "web", "203.0.113.10")
	c.nodes["n1"].stranger("203.0.113.10", "02:00:00:00:00:99")
	// The report is written when the document is looked at again.
	eventually(t, patience, "told", func() bool {
		m, ok := c.told("web", "AddressConflict")
		return ok && strings.Contains(m, "02:00:00:00:00:99")
	})
}

func TestHostileServicesAreRefusedAndOthersServed(t *testing.T) {
	c := newTestCluster(t, 2, nil)
	c.loadBalancer("web", "203.0.113.10", "n1")
	bad := map[string]string{
		"loopback": "127.0.0.1", "multicast": "224.0.0.1", "unspecified": "0.0.0.0", "garbage": "\x00\x1b[31m;rm -rf /",
		"huge": strings.Repeat("203.0.113.11,", 20_000), "node": "203.0.113.200",
	}
	for name, ips := range bad {
		c.loadBalancer(name, ips, "n1")
	}
	c.served(t, "web", "203.0.113.10")
	for name := range bad {
		eventually(t, patience, name+" is refused", func() bool {
			c.mu.Lock()
			defer c.mu.Unlock()
			return slices.ContainsFunc(c.events, func(e kube.Event) bool { return e.About.Name == name && e.Warning })
		})
	}
}

func TestControlPlaneFollowsTheLocalAPIServer(t *testing.T) {
	c := newTestCluster(t, 3, map[string]string{"cp_enable": "true", "address": "203.0.113.5"})
	var node string
	eventually(t, patience, "the control plane is served", func() bool { node = c.wire.owner("203.0.113.5"); return node != "" })
	c.nodes[node].apiDown.Store(true)
	eventually(t, patience, "moved", func() bool { o := c.wire.owner("203.0.113.5"); return o != "" && o != node })
	next := c.wire.owner("203.0.113.5")
	c.nodes[next].stop()
	eventually(t, patience, "moved again", func() bool { o := c.wire.owner("203.0.113.5"); return o != "" && o != next })
}

func TestRequestsDoNotGrowWithServices(t *testing.T) {
	c := newTestCluster(t, 3, nil)
	const services = 60
	for i := range services {
		c.loadBalancer(fmt.Sprintf("web%d", i), fmt.Sprintf("203.0.113.%d", 10+i), "n1")
	}
	for i := range services {
		c.served(t, fmt.Sprintf("web%d", i), fmt.Sprintf("203.0.113.%d", 10+i))
	}
	c.mu.Lock()
	before := c.writes["update leases"] + c.writes["get leases"]
	status := c.writes["patch services/status"]
	c.mu.Unlock()
	const renewals = 5
	time.Sleep(renewals * testRenew)
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := c.writes["update leases"] + c.writes["get leases"] - before; n > 3*(renewals+2) {
		t.Errorf("%d requests for Leases in %d periods of 3 nodes", n, renewals)
	}
	if status > 2*services {
		t.Errorf("%d status writes for %d Services", status, services)
	}
}

func TestFullLeaseTakesNoMoreGroups(t *testing.T) {
	r := &Reconciler{machine: claim.New("n1", claim.Timing{Duration: testDuration, Renew: testRenew})}
	base := netip.MustParseAddr("2001:db8::").As16()
	for i := range kube.MaxClaims + 5 {
		base[14], base[15] = byte(i>>8), byte(i)
		r.out.Groups = append(r.out.Groups, claim.Group{Addresses: []netip.Addr{netip.AddrFrom16(base)}, Eligible: true})
	}
	fit := 0
	for i, g := range r.groups() {
		if g.Eligible {
			fit++
		} else if !r.full[i] {
			t.Errorf("group %d is not eligible and not said to be too many", i)
		}
	}
	if fit != kube.MaxClaims || len(r.full) != 5 {
		t.Errorf("%d groups fit, %d do not", fit, len(r.full))
	}
	if !r.out.Groups[len(r.out.Groups)-1].Eligible {
		t.Error("the plan was changed")
	}
}

func TestSilentDaemonIsNotCalledOneThatNeverAnswered(t *testing.T) {
	var a asked
	never := a.why()
	a.note(nil)
	if silent := a.why(); silent == never {
		t.Errorf("a daemon that has answered once: %q", silent)
	}
	a.note(errors.New("refused"))
	if why := a.why(); why != "refused" {
		t.Errorf("after an error: %q", why)
	}
}
