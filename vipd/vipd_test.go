package main

import (
	"encoding/json"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vipod/vipod/shared/bootclock"
	"github.com/vipod/vipod/shared/netsafe"
	"github.com/vipod/vipod/shared/netsafe/nstest"
	"github.com/vipod/vipod/shared/ownership"
	"github.com/vipod/vipod/shared/schema"
	"github.com/vipod/vipod/vipd/internal/reconcile"
)

const (
	vip4 = "198.51.100.7"
	vip6 = "2001:db8::7"
)

// serving is a rig on which one VIP of both families is claimed.
func serving(t *testing.T, hold time.Duration) (*rig, *asker) {
	t.Helper()
	r := newRig(t)
	a := newAsker(r)
	r.synced()
	r.Grant(time.Hour)
	r.vip("default.web", schema.StateActive, vip4, vip6)
	r.Start()
	r.eventually("VIP present", func() bool { return r.is("default.web", schema.ConditionPresent) })
	if !a.answered(vip4, patience) || !a.answered(vip6, patience) {
		t.Fatal("an active VIP is not answered for")
	}
	r.Grant(hold)
	r.eventually("the kernel has the grant", func() bool {
		var answer reconcile.Report
		body, err := r.Ask("/status")
		return err == nil && json.Unmarshal([]byte(body), &answer) == nil && len(answer.VIPs) == 1 &&
			answer.VIPs[0].GrantLeft <= hold.Seconds()
	})
	return r, a
}

func TestNetnsActiveVIPIsTaggedDeprecatedFencedAndAnswered(t *testing.T) {
	r, _ := serving(t, time.Hour)
	for _, ip := range []string{vip4, vip6} {
		a, ok := r.address(ip)
		if !ok || a.Protocol != protocol || a.Preferred != 0 || a.Valid > 120 || a.Valid < 60 || a.Prefix.Bits() != a.Prefix.Addr().BitLen() {
			t.Errorf("%s = %+v", ip, a)
		}
	}
	if !r.is("default.web", schema.ConditionFenced) || r.is("default.web", schema.ConditionMuted) {
		s, _ := r.status("default.web")
		t.Errorf("conditions: %+v", s.Conditions)
	}
	r.eventually("daemon reports the node document", func() bool {
		d := r.self()
		return schema.IsTrue(d.Conditions, schema.ConditionReady) && d.Observed == r.seenNode()
	})
	if l := r.link("v0"); !l.Up || len(l.Addresses) != 2 || l.MAC == "" {
		t.Errorf("link v0 = %+v", l)
	}
}

func TestNetnsFenceClosesByItselfWhileTheProcessIsFrozen(t *testing.T) {
	r, a := serving(t, 2*time.Second)
	r.Signal(syscall.SIGSTOP)
	end := time.Now().Add(2 * time.Second)
	for time.Now().Before(end) {
		time.Sleep(10 * time.Millisecond)
	}
	for _, ip := range []string{vip4, vip6} {
		if !r.has(ip) {
			t.Errorf("%s left the kernel: the test shows nothing", ip)
		}
		if a.answered(ip, 500*time.Millisecond) {
			t.Errorf("%s is answered for after the grant", ip)
		}
	}
	for _, own := range []string{"198.51.100.1", "2001:db8::1"} {
		if !a.answered(own, patience) {
			t.Errorf("the node's own %s is not answered for", own)
		}
	}
	r.Grant(time.Hour)
	r.Signal(syscall.SIGCONT)
	for _, ip := range []string{vip4, vip6} {
		if !a.answered(ip, patience) {
			t.Errorf("%s is not answered for after a new grant", ip)
		}
	}
}

func TestNetnsRenewedGrantKeepsTheFenceOpen(t *testing.T) {
	r, a := serving(t, time.Second)
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end); {
		r.Grant(time.Second)
		time.Sleep(300 * time.Millisecond)
	}
	if !a.answered(vip4, 300*time.Millisecond) {
		t.Error("silent although the grant was renewed")
	}
}

func TestNetnsDrainingMutesButServesWhoKnowsTheWay(t *testing.T) {
	r, a := serving(t, time.Hour)
	for _, ip := range []string{vip4, vip6} {
		if !reaches(r, r.peer, ip) {
			t.Fatalf("peer does not reach %s", ip)
		}
	}
	r.vip("default.web", schema.StateDraining, vip4, vip6)
	took := r.eventually("muted", func() bool { return r.is("default.web", schema.ConditionMuted) })
	t.Logf("muted after %s", took)
	for _, ip := range []string{vip4, vip6} {
		if a.answered(ip, 300*time.Millisecond) {
			t.Errorf("%s is claimed while draining", ip)
		}
		if !reaches(r, r.peer, ip) {
			t.Errorf("peer does not reach draining %s any more", ip)
		}
	}
	r.vip("default.web", schema.StateWithdrawn, vip4, vip6)
	r.eventually("addresses gone", func() bool { return !r.has(vip4) && !r.has(vip6) })
	r.DropVIP("default.web")
	r.eventually("status gone", func() bool { _, err := r.status("default.web"); return err != nil })
}

func TestNetnsMuteAlsoStopsQuestionsFromTheVIP(t *testing.T) {
	r, a := serving(t, time.Hour)
	// To a neighbor that nobody has seen, the kernel asks with the packet's
	// own source.
	asks := func(vip, stranger string) bool {
		a.forget()
		c, err := net.DialUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(vip), 0)),
			net.UDPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(stranger), 9)))
		r.check(err)
		defer func() { _ = c.Close() }()
		_, err = c.Write([]byte("hello"))
		r.check(err)
		for range 15 {
			if a.claim(netip.MustParseAddr(vip)) {
				return true
			}
		}
		return false
	}
	if !asks(vip4, "198.51.100.40") || !asks(vip6, "2001:db8::40") {
		t.Fatal("an active VIP does not ask: the test shows nothing")
	}
	r.vip("default.web", schema.StateDraining, vip4, vip6)
	r.eventually("muted", func() bool { return r.is("default.web", schema.ConditionMuted) })
	if asks(vip4, "198.51.100.41") || asks(vip6, "2001:db8::41") {
		t.Error("a muted VIP is claimed by a question")
	}
}

func (r *rig) seenNode() schema.Observed {
	return r.node.Seen()
}

func TestNetnsSIGKILLAndRestartAdoptsWithoutAFlap(t *testing.T) {
	r, a := serving(t, time.Hour)
	before, _ := r.address(vip4)
	r.Kill()
	if !a.answered(vip4, patience) {
		t.Error("silent when only vipd died")
	}
	r.Start()
	r.eventually("adopted", func() bool { return r.self().Instance != "" && r.is("default.web", schema.ConditionPresent) })
	after, ok := r.address(vip4)
	if !ok || after.Valid > before.Valid {
		t.Errorf("address was made anew: %+v, before %+v", after, before)
	}
}

func TestNetnsSweepWaitsUntilTheDocumentsAreComplete(t *testing.T) {
	r := newRig(t)
	leftover := netsafe.Address{LinkIndex: r.ns.Index(t, "v0"), Prefix: netip.MustParsePrefix("203.0.113.9/32"), Protocol: protocol, Valid: netsafe.Forever}
	r.check(netsafe.AddAddress(leftover))
	r.Start()
	r.eventually("started", func() bool { return len(r.self().Conditions) > 0 })
	if c, _ := schema.FindCondition(r.self().Conditions, schema.ConditionReady); c.Status != schema.Unknown {
		t.Errorf("without a node document: %+v", c)
	}
	r.writeNode(func(n *schema.Node) { n.Synced = false })
	r.eventually("node seen", func() bool { return r.self().Observed == r.seenNode() })
	r.writeNode(func(n *schema.Node) { n.Synced, n.Boot = true, "another-boot" })
	r.eventually("node of another boot seen", func() bool { return r.self().Observed == r.seenNode() })
	if !r.has("203.0.113.9") {
		t.Fatal("swept before elector said that it knows everything")
	}
	boot, err := bootclock.ID()
	r.check(err)
	r.writeNode(func(n *schema.Node) { n.Boot = boot })
	r.eventually("swept", func() bool { return !r.has("203.0.113.9") })
}

func TestNetnsForeignAddressIsNeverTouched(t *testing.T) {
	r := newRig(t)
	r.ns.Add(t, "v0", vip4+"/24")
	r.ns.Add(t, "v0", vip6+"/64")
	before4, _ := r.address(vip4)
	r.synced()
	r.Grant(time.Hour)
	r.vip("default.web", schema.StateActive, vip4, vip6)
	r.Start()
	r.eventually("refused", func() bool { return r.absentBecause("ForeignAddress") })
	a := newAsker(r)
	if !a.answered(vip4, patience) || !a.answered(vip6, patience) {
		t.Error("the kernel does not answer for a foreign address")
	}
	r.vip("default.web", schema.StateDraining, vip4, vip6)
	r.eventually("muted", func() bool { return r.is("default.web", schema.ConditionMuted) })
	if a.answered(vip4, 300*time.Millisecond) || a.answered(vip6, 300*time.Millisecond) {
		t.Error("a foreign address is claimed although its VIP leaves")
	}
	r.DropVIP("default.web")
	r.eventually("status gone", func() bool { _, err := r.status("default.web"); return err != nil })
	if after, _ := r.address(vip4); after != before4 {
		t.Errorf("foreign address is now %+v, was %+v", after, before4)
	}
	if _, ok := r.address(vip6); !ok {
		t.Error("foreign IPv6 address is gone")
	}
	if r.has("198.51.100.1") {
		t.Error("the node's own address became ours")
	}
}

func TestNetnsOutsideDamageIsRepaired(t *testing.T) {
	r, a := serving(t, time.Hour)
	for name, damage := range map[string]func(){
		"ip address flush": func() {
			r.run("ip", "address", "flush", "dev", "v0")
			r.ns.Add(t, "v0", "198.51.100.1/24")
			r.ns.Add(t, "v0", "2001:db8::1/64")
		},
		"nft flush ruleset": func() {
			r.run("nft", "flush", "ruleset")
			r.eventually("fence back", func() bool { return strings.Contains(r.run("nft", "list", "tables"), "vipod_fence") })
		},
		"nft flush chain": func() { r.run("nft", "flush", "chain", "netdev", "vipod_fence", "egress_v0") },
		"link down and up": func() {
			r.ns.SetUp(t, "v0", false)
			r.eventually("seen down", func() bool { return r.absentBecause("LinkDown") })
			r.ns.SetUp(t, "v0", true)
			r.ns.Add(t, "v0", "2001:db8::1/64")
		},
	} {
		damage()
		took := r.eventually(name+" repaired", func() bool {
			return r.has(vip4) && r.has(vip6) && r.is("default.web", schema.ConditionPresent) && r.is("default.web", schema.ConditionFenced)
		})
		t.Logf("%s: repaired after %s", name, took)
		if !a.answered(vip4, patience) || !a.answered(vip6, patience) {
			t.Errorf("%s: silent after the repair", name)
		}
	}
	// A repaired fence is a fence.
	r.vip("default.web", schema.StateDraining, vip4, vip6)
	r.eventually("muted", func() bool { return r.is("default.web", schema.ConditionMuted) })
	if a.answered(vip4, 300*time.Millisecond) {
		t.Error("claimed while draining, after repairs")
	}
}

func TestNetnsLinkMadeAnewGetsAddressesAndFence(t *testing.T) {
	r, _ := serving(t, time.Hour)
	r.ns.Delete(t, "v0")
	r.eventually("seen gone", func() bool { return r.absentBecause("LinkMissing") })
	nstest.Veth(t, r.ns, "v0", r.peer, "v1")
	r.ns.Add(t, "v0", "198.51.100.1/24")
	r.ns.Add(t, "v0", "2001:db8::1/64")
	r.peer.Add(t, "v1", "198.51.100.2/24")
	r.eventually("present again", func() bool { return r.is("default.web", schema.ConditionPresent) })
	a := newAsker(r)
	if !a.answered(vip4, patience) {
		t.Error("not answered for on the new link")
	}
	r.Grant(-time.Second)
	if r.eventually("closed", func() bool { return !a.answered(vip4, 100*time.Millisecond) }); !r.has(vip4) {
		t.Error("the address left the kernel: the test shows nothing")
	}
}

func TestNetnsVIPIsNeverTheSourceOfTheNodesOwnConnections(t *testing.T) {
	r, _ := serving(t, time.Hour)
	r.ns.AddDefault(t, "v0", netip.MustParseAddr("198.51.100.2"))
	r.ns.AddDefault(t, "v0", netip.MustParseAddr("2001:db8::2"))
	for target, own := range map[string]string{
		"198.51.100.2": "198.51.100.1", "203.0.113.50": "198.51.100.1",
		"2001:db8::2": "2001:db8::1", "2001:db8:ffff::50": "2001:db8::1",
	} {
		c, err := net.Dial("udp", net.JoinHostPort(target, "9"))
		r.check(err)
		if got := c.LocalAddr().(*net.UDPAddr).AddrPort().Addr().String(); got != own {
			t.Errorf("to %s from %s, want %s", target, got, own)
		}
		r.check(c.Close())
	}
}

func TestNetnsSharedAddressStaysUntilTheLastDocumentLeaves(t *testing.T) {
	r, _ := serving(t, time.Hour)
	r.vip("default.other", schema.StateActive, vip4)
	r.eventually("second present", func() bool { return r.is("default.other", schema.ConditionPresent) })
	r.DropVIP("default.web")
	r.eventually("first status gone", func() bool { _, err := r.status("default.web"); return err != nil })
	if !r.has(vip4) || r.has(vip6) {
		t.Errorf("shared there: %t, other there: %t", r.has(vip4), r.has(vip6))
	}
	r.DropVIP("default.other")
	r.eventually("gone", func() bool { return !r.has(vip4) })
}

func TestNetnsAddressWithoutAGrantIsNotAdded(t *testing.T) {
	r := newRig(t)
	r.synced()
	r.vip("default.web", schema.StateActive, vip4)
	r.Start()
	r.eventually("refused", func() bool { return r.absentBecause("NotGranted") })
	r.Grant(time.Hour)
	r.eventually("present", func() bool { return r.is("default.web", schema.ConditionPresent) })
}

func TestNetnsBadDocumentKeepsTheLastGoodOneInForce(t *testing.T) {
	r, _ := serving(t, time.Hour)
	path := filepath.Join(ownership.VIPs(r.Dir, ownership.Elector), "default.web.json")
	r.check(os.WriteFile(path, []byte(`{"schema":"vipod.vip/1","insta`), 0o640)) // in place
	r.eventually("reported", func() bool {
		c, _ := schema.FindCondition(r.self().Conditions, "DocumentsReadable")
		return c.Status == schema.False && strings.Contains(c.Message, "default.web")
	})
	if !r.has(vip4) || !r.has(vip6) {
		t.Error("a truncated document removed a VIP")
	}
	r.vip("default.web", schema.StateWithdrawn, vip4, vip6)
	r.eventually("withdrawn", func() bool { return !r.has(vip4) })
}

func TestNetnsFullStateDirectoryDoesNotStopTheKernelWork(t *testing.T) {
	r, _ := serving(t, time.Hour)
	for _, dir := range []string{ownership.Dir(r.Dir, ownership.Vipd), ownership.VIPs(r.Dir, ownership.Vipd)} {
		r.check(os.Chown(dir, 0, 0)) // vipd may not write there any more
	}
	r.vip("default.web", schema.StateActive, vip4, vip6, "198.51.100.8")
	r.eventually("address added", func() bool { return r.has("198.51.100.8") })
	for _, dir := range []string{ownership.Dir(r.Dir, ownership.Vipd), ownership.VIPs(r.Dir, ownership.Vipd)} {
		r.check(os.Chown(dir, ownership.UID(ownership.Vipd), ownership.Group))
	}
	r.vip("default.web", schema.StateActive, vip4)
	r.eventually("status written again", func() bool { s, err := r.status("default.web"); return err == nil && len(s.Addresses) == 1 })
}
