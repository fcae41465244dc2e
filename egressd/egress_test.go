package main

import (
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vipod/vipod/shared/schema"
)

// ways are a pod's protocols and families.
func ways(pod4, pod6 string) [][4]string {
	return [][4]string{
		{pod4, "tcp", outside4, vip4}, {pod4, "udp", outside4, vip4},
		{pod6, "tcp", outside6, vip6}, {pod6, "udp", outside6, vip6},
	}
}

func (r *rig) expectAll(pod4, pod6 string, source func(vip string) string) {
	r.t.Helper()
	for _, w := range ways(pod4, pod6) {
		r.expect(w[0], w[1], w[2], source(w[3]))
	}
}

func asVIP(vip string) string { return vip }
func nobody(string) string    { return "nobody" }
func asNode(vip string) string {
	if strings.Contains(vip, ":") {
		return node6
	}
	return node4
}

func TestNetnsPodsLeaveWithTheVIP(t *testing.T) {
	r := newRig(t)
	a4, a6 := r.pod(2)
	b4, b6 := r.pod(3)
	c4, c6 := r.pod(4)
	r.active(a4, a6, b4, b6)
	r.expectAll(a4, a6, asVIP)
	r.expectAll(b4, b6, asVIP)
	r.expectAll(c4, c6, asNode) // none of the Service's
	r.expect(a4, "tcp", c4, a4) // inside of the cluster
	r.expect(a6, "udp", c6, a6)
}

func TestNetnsPodsAreHeldBackWhereTheVIPIsNot(t *testing.T) {
	r := newRig(t)
	a4, a6 := r.pod(2)
	b4, _ := r.pod(3)
	r.WriteNode(r.node)
	r.Grant(time.Hour)
	r.egress([]string{a4, a6})
	r.Start()
	r.becomes(schema.ConditionEgress, "NotOwner")
	r.expectAll(a4, a6, nobody)
	r.expect(a4, "tcp", b4, a4)
	r.vip(schema.StateStandby)
	r.becomes(schema.ConditionEgress, "NotActive")
	r.expectAll(a4, a6, nobody)
	r.vip(schema.StateActive)
	r.becomes(schema.ConditionEgress, "Translated")
	r.expectAll(a4, a6, asVIP)
	r.vip(schema.StateDraining)
	r.becomes(schema.ConditionEgress, "NotActive")
	r.expectAll(a4, a6, nobody)
	r.vip(schema.StateActive)
	r.becomes(schema.ConditionEgress, "Translated")
	r.Grant(0)
	r.becomes(schema.ConditionEgress, "NotActive")
	r.expectAll(a4, a6, nobody)
}

func TestNetnsTheGrantEndsByItself(t *testing.T) {
	r := newRig(t)
	a4, a6 := r.pod(2)
	r.active(a4, a6)
	r.Grant(300 * time.Millisecond)
	r.becomes(schema.ConditionEgress, "NotActive")
	r.expectAll(a4, a6, nobody)
}

func TestNetnsConnectionsFollowTheOwnerAndNobodyElsesAreForgotten(t *testing.T) {
	r := newRig(t)
	a4, a6 := r.pod(2)
	b4, _ := r.pod(3)
	r.active(a4, a6)
	var open []*conn
	for _, w := range append(ways(a4, a6), [4]string{b4, "tcp", outside4, node4}, [4]string{a4, "tcp", b4, a4}) {
		c, err := r.dial(w[0], w[1], w[2])
		r.check(err)
		if from, err := c.ask(); err != nil || from != netip.MustParseAddr(w[3]) {
			t.Fatalf("%v comes from %s, error %v", w, from, err)
		}
		open = append(open, c)
	}
	again := func(when string, outside bool) {
		t.Helper()
		for i, c := range open {
			_, err := c.ask()
			if want := outside || i >= 4; (err == nil) != want {
				t.Errorf("%s: connection %d: error %v, want an answer: %t", when, i, err, want)
			}
		}
	}
	r.egress([]string{a4, a6, b4}[:2], func(e *schema.Egress) { e.Denied = prefixes("192.0.2.0/24") })
	r.eventually("rules changed", func() bool { return strings.Contains(r.run("nft", "list", "ruleset"), "192.0.2.0/24") })
	again("after a change that is about other destinations", true)
	r.vip(schema.StateDraining)
	r.becomes(schema.ConditionEgress, "NotActive")
	again("while draining", true)
	r.vip(schema.StateWithdrawn)
	r.eventually("old connections end", func() bool { _, err := open[0].ask(); return err != nil })
	again("after the VIP has gone", false)
	if _, err := open[0].ask(); err == nil || strings.Contains(err.Error(), "timeout") {
		t.Errorf("a TCP connection that is lost ends with %v, want a reset", err)
	}
}

func prefixes(list ...string) (out []netip.Prefix) {
	for _, p := range list {
		out = append(out, netip.MustParsePrefix(p))
	}
	return out
}

func TestNetnsFiltersOfDestinations(t *testing.T) {
	for _, c := range []struct {
		name       string
		change     func(*schema.Egress)
		tcp4, udp6 string // source seen outside
		inside     string // source seen by another pod, over TCP and IPv4
	}{
		{"none", func(*schema.Egress) {}, vip4, vip6, "pod"},
		{"denied network", func(e *schema.Egress) { e.Denied = prefixes("198.51.100.0/25") }, node4, vip6, "pod"},
		{"denied address among denied networks", func(e *schema.Egress) {
			e.Denied = prefixes("2001:db8:0:1::2/128", "2001:db8:0:1::/64", "192.0.2.0/24")
		}, vip4, node6, "pod"},
		{"allowed network of one family", func(e *schema.Egress) { e.Allowed = prefixes("198.51.100.0/24") }, vip4, node6, "pod"},
		{"several allowed networks", func(e *schema.Egress) {
			e.Allowed = prefixes("192.0.2.0/24", "198.51.100.2/32", "2001:db8::/32")
		}, vip4, vip6, "pod"},
		{"allowed and denied", func(e *schema.Egress) {
			e.Allowed, e.Denied = prefixes("0.0.0.0/0"), prefixes("198.51.100.0/30")
		}, node4, node6, "pod"},
		{"port", func(e *schema.Egress) { e.Ports = []schema.Port{{Protocol: schema.TCP, Port: port}} }, vip4, node6, "pod"},
		{"other port", func(e *schema.Egress) {
			e.Ports = []schema.Port{{Protocol: schema.TCP, Port: port + 1}, {Protocol: schema.UDP, Port: port}}
		}, node4, vip6, "pod"},
		{"IPv6 only", func(e *schema.Egress) { e.IPv6Only = true }, node4, vip6, "pod"},
		{"inside too", func(e *schema.Egress) { e.Internal = true }, vip4, vip6, vip4},
		{"held", func(e *schema.Egress) { e.Hold = "a test" }, "nobody", "nobody", "pod"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			a4, a6 := r.pod(2)
			b4, _ := r.pod(3)
			r.WriteNode(r.node)
			r.Grant(time.Hour)
			r.vip(schema.StateActive)
			r.egress([]string{a4, a6}, c.change)
			r.Start()
			r.eventually("a report", func() bool { return r.condition(schema.ConditionEgress).Reason != "" })
			r.expect(a4, "tcp", outside4, c.tcp4)
			r.expect(a6, "udp", outside6, c.udp6)
			if c.inside == "pod" {
				c.inside = a4
			}
			r.expect(a4, "tcp", b4, c.inside)
		})
	}
}

func TestNetnsReplacedPodTakesOverAndNothingIsLeftOfTheOld(t *testing.T) {
	r := newRig(t)
	a4, a6 := r.pod(2)
	b4, b6 := r.pod(3)
	r.active(a4, a6)
	c, err := r.dial(a4, "udp", outside4)
	r.check(err)
	if _, err := c.ask(); err != nil {
		t.Fatal(err)
	}
	r.egress([]string{b4, b6})
	r.eventually("the new pod leaves with the VIP", func() bool { return r.sees(b4, "udp", outside4) == vip4 })
	r.expectAll(b4, b6, asVIP)
	r.expectAll(a4, a6, asNode)
	if rules := r.run("nft", "list", "table", "inet", "vipod_egress"); strings.Contains(rules, a4) || strings.Contains(rules, a6) {
		t.Errorf("the old pod is left:\n%s", rules)
	}
	if flows := r.run("conntrack", "-L", "-s", a4, "-q", vip4); strings.TrimSpace(flows) != "" && strings.Contains(flows, "src="+a4) {
		t.Errorf("connections of the old pod are left:\n%s", flows)
	}
}

func TestNetnsFlushedRulesetIsRepaired(t *testing.T) {
	r := newRig(t)
	a4, a6 := r.pod(2)
	r.active(a4, a6)
	before := r.run("nft", "list", "table", "inet", "vipod_egress")
	for _, damage := range []string{
		"flush ruleset", "delete table inet vipod_egress", "flush chain inet vipod_egress guard",
		"add rule inet vipod_egress source counter", "delete element inet vipod_egress pods4 { " + a4 + " }",
		"add element inet vipod_egress held4 { 203.0.113.99 }",
	} {
		r.run("nft", damage)
		took := r.eventually("repaired after "+damage, func() bool {
			return counters.Replace(r.run("sh", "-c", "nft list table inet vipod_egress || true")) == counters.Replace(before)
		})
		t.Logf("%s: repaired after %s", damage, took)
		r.expectAll(a4, a6, asVIP)
	}
}

func TestNetnsRestartAdoptsWhatIsThere(t *testing.T) {
	r := newRig(t)
	a4, a6 := r.pod(2)
	r.active(a4, a6)
	c, err := r.dial(a4, "tcp", outside4)
	r.check(err)
	if _, err := c.ask(); err != nil {
		t.Fatal(err)
	}
	handles := func() string { return counters.Replace(r.run("nft", "-a", "list", "ruleset")) }
	before := handles()
	for _, end := range []func(){r.Kill, func() {
		r.Signal(syscall.SIGTERM)
		answering := r.electorAnswers()
		defer answering()
		r.Exited()
	}} {
		end()
		if now := handles(); now != before {
			t.Errorf("after the end:\n%s\nwant\n%s", now, before)
		}
		r.expectAll(a4, a6, asVIP)
		r.Start()
		r.eventually("the new process is ready", func() bool { _, err := r.Ask("/readyz"); return err == nil })
		if now := handles(); now != before {
			t.Errorf("the new process changed the rules:\n%s\nwant\n%s", now, before)
		}
		if _, err := c.ask(); err != nil {
			t.Errorf("a connection from before: %v", err)
		}
	}
}

func TestNetnsEverythingGoesWithThePodAndOthersStay(t *testing.T) {
	r := newRig(t)
	a4, a6 := r.pod(2)
	foreign := r.run("nft", "list", "ruleset")
	r.active(a4, a6)
	r.Signal(syscall.SIGTERM)
	r.node.Phase = schema.PhaseStopped
	r.WriteNode(r.node)
	r.Exited()
	if left := r.run("nft", "list", "ruleset"); left != foreign {
		t.Errorf("left:\n%s\nwant\n%s", left, foreign)
	}
	r.expectAll(a4, a6, asNode)
}

func TestNetnsWithoutTheLastServiceThereIsNoTable(t *testing.T) {
	r := newRig(t)
	a4, a6 := r.pod(2)
	foreign := r.run("nft", "list", "ruleset")
	r.active(a4, a6)
	r.dropEgress()
	r.eventually("the table is gone", func() bool { return r.run("nft", "list", "ruleset") == foreign })
	r.expectAll(a4, a6, asNode)
}

func TestNetnsNothingGoesOnAnIncompletePicture(t *testing.T) {
	r := newRig(t)
	a4, a6 := r.pod(2)
	r.active(a4, a6)
	r.node.Synced = false
	r.WriteNode(r.node)
	r.dropEgress()
	time.Sleep(300 * time.Millisecond)
	r.expectAll(a4, a6, asVIP)
	r.WriteRaw("elector", "egress/default.bad", []byte("{"))
	r.node.Synced = true
	r.WriteNode(r.node)
	r.eventually("the problem is reported", func() bool {
		c, _ := schema.FindCondition(r.Self("egressd").Conditions, schema.ConditionDocuments)
		return c.Status == schema.False && strings.Contains(c.Message, "egress/default.bad.json")
	})
	r.expectAll(a4, a6, asVIP)
	r.Remove("elector", "egress/default.bad")
	r.eventually("all goes once the picture is complete", func() bool { return r.sees(a4, "udp", outside4) == node4 })
}

func TestNetnsTwoInstancesLeaveEachOtherAlone(t *testing.T) {
	r := newRig(t)
	a4, a6 := r.pod(2)
	r.node.Settings.InstanceName = "blue"
	r.active(a4, a6)
	r.run("nft", "add table inet vipod_egress; add table inet vipod_egress_green")
	r.expectAll(a4, a6, asVIP)
	r.dropEgress()
	r.eventually("the instance's own is gone", func() bool { return r.sees(a4, "udp", outside4) == node4 })
	tables := r.run("nft", "list", "tables")
	for _, name := range []string{"vipod_egress\n", "vipod_egress_green\n"} {
		if !strings.Contains(tables, name) {
			t.Errorf("no table %s in\n%s", name, tables)
		}
	}
	if strings.Contains(tables, "blue") {
		t.Errorf("left:\n%s", tables)
	}
}
