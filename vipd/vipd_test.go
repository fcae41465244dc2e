package main

import (
	"syscall"
	"testing"
	"time"

	"github.com/vipod/vipod/shared/schema"
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
	r.grant(hold)
	r.vip("default.web", schema.StateActive, vip4, vip6)
	r.start()
	r.eventually("VIP present", func() bool { return r.is("default.web", schema.ConditionPresent) })
	if !a.answered(vip4, patience) || !a.answered(vip6, patience) {
		t.Fatal("an active VIP is not answered for")
	}
	return r, a
}

func TestActiveVIPIsTaggedDeprecatedFencedAndAnswered(t *testing.T) {
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

func TestFenceClosesByItselfWhileTheProcessIsFrozen(t *testing.T) {
	r, a := serving(t, 2*time.Second)
	r.signal(syscall.SIGSTOP)
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
	r.grant(time.Hour)
	r.signal(syscall.SIGCONT)
	for _, ip := range []string{vip4, vip6} {
		if !a.answered(ip, patience) {
			t.Errorf("%s is not answered for after a new grant", ip)
		}
	}
}

func TestRenewedGrantKeepsTheFenceOpen(t *testing.T) {
	r, a := serving(t, time.Second)
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end); {
		r.grant(time.Second)
		time.Sleep(300 * time.Millisecond)
	}
	if !a.answered(vip4, 300*time.Millisecond) {
		t.Error("silent although the grant was renewed")
	}
}

func TestDrainingMutesButServesWhoKnowsTheWay(t *testing.T) {
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
	r.drop("default.web")
	r.eventually("status gone", func() bool { _, err := r.status("default.web"); return err != nil })
}

func (r *rig) seenNode() schema.Observed {
	return schema.Observed{Instance: r.elector.Instance(), Generation: r.node.Generation}
}

func TestSIGKILLAndRestartAdoptsWithoutAFlap(t *testing.T) {
	r, a := serving(t, time.Hour)
	before, _ := r.address(vip4)
	r.kill()
	if !a.answered(vip4, patience) {
		t.Error("silent when only vipd died")
	}
	r.start()
	r.eventually("adopted", func() bool { return r.self().Instance != "" && r.is("default.web", schema.ConditionPresent) })
	after, ok := r.address(vip4)
	if !ok || after.Valid > before.Valid {
		t.Errorf("address was made anew: %+v, before %+v", after, before)
	}
}
