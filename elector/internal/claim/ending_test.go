package claim

import (
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestGrantIsCountedFromWhenTheRenewalWasSent(t *testing.T) {
	b := &bench{m: New("n1", testTiming), now: boot}
	b.m.Relist(b.now, nil)
	if _, ok := b.m.Next(b.now); !ok {
		t.Fatal("no update is due")
	}
	b.now += 800 * ms
	b.m.Committed(b.now, 1)
	if got, want := b.m.Grant(), boot+5*second-120*ms; got != want {
		t.Errorf("grant until %v, want %v", got, want)
	}
}

func TestLapsedGrantForfeitsEverything(t *testing.T) {
	b := newBench(t)
	b.own(ip1)
	b.pass(4880 * ms)
	b.is(ip1, Idle)
	if u := b.write(); len(u.Claims) != 0 {
		t.Errorf("renewed with claims %v after the grant had ended", u.Claims)
	}
}

func TestRenewalAnsweredAfterTheLapseForfeits(t *testing.T) {
	b := newBench(t)
	b.own(ip1)
	b.pass(4800 * ms)
	if _, ok := b.m.Next(b.now); !ok {
		t.Fatal("no renewal is due")
	}
	b.now += 100 * ms
	b.m.Committed(b.now, 9)
	b.is(ip1, Claiming)
	b.m.Observe(b.now, Lease{Node: "n1", Version: 9, Duration: 5 * second, Claims: []netip.Addr{ip1}})
	b.is(ip1, Claiming) // that was the claim before
}

func TestDrainedAddressIsReleasedOnlyWhenSilent(t *testing.T) {
	b := newBench(t)
	b.own(ip1)
	b.want(false, ip1)
	b.is(ip1, Draining)
	b.pass(second)
	if u := b.write(); len(u.Claims) != 1 {
		t.Errorf("released before it was silent: %v", u.Claims)
	}
	b.m.Silent(b.now, ip1)
	b.m.Tick(b.now)
	b.is(ip1, Released)
	b.pass(spacing)
	if u := b.write(); len(u.Claims) != 0 {
		t.Errorf("still claims %v", u.Claims)
	}
	b.pass(linger)
	b.is(ip1, Idle)
}

func TestDrainingAddressIsTakenBackWhileStillClaimed(t *testing.T) {
	b := newBench(t)
	b.own(ip1)
	b.want(false, ip1)
	b.want(true, ip1)
	b.is(ip1, Owned)
}

func TestEditedLeaseMakesTheAddressSilentBeforeItIsClaimedAgain(t *testing.T) {
	b := newBench(t)
	b.own(ip1)
	b.version++
	b.m.Observe(b.now, Lease{Node: "n1", Version: b.version, Duration: 5 * second})
	b.is(ip1, Draining)
	b.want(true, ip1)
	b.is(ip1, Draining)
	b.m.Silent(b.now, ip1)
	b.m.Tick(b.now)
	b.is(ip1, Claiming)
}

// The Lease was deleted, made anew, and an address released from it. Of all
// that the watch tells late: the deletion must not make the claim of the Lease
// in between look like the one that is made now.
func TestLateEventsOfADeletedLeaseAreOfAnEarlierClaim(t *testing.T) {
	b := newBench(t)
	b.own(ip1)
	b.m.Rebase(b.now, 0) // deleted, as an update found out
	b.pass(spacing)
	u, _ := b.m.Next(b.now)
	if len(u.Claims) != 1 {
		t.Fatalf("claims %v", u.Claims)
	}
	again := b.version + 2
	b.m.Committed(b.now, again)
	b.m.Silent(b.now, ip1)
	b.want(false, ip1)
	b.pass(spacing)
	if _, ok := b.m.Next(b.now); !ok {
		t.Fatal("no update is due")
	}
	b.m.Committed(b.now, again+1)
	b.m.Forget(b.now, "n1")
	b.want(true, ip1)
	b.is(ip1, Claiming)
	b.m.Observe(b.now, Lease{Node: "n1", Version: again, Duration: 5 * second, Ready: true, Claims: u.Claims})
	b.is(ip1, Claiming)
}

func TestSuspendedNodeLetsItsGrantEnd(t *testing.T) {
	b := newBench(t)
	b.own(ip1)
	b.m.Suspend(b.now, true)
	b.pass(2 * second)
	if _, ok := b.m.Next(b.now); ok {
		t.Error("renewed while suspended")
	}
	b.pass(3 * second)
	b.is(ip1, Idle)
	if u := b.write(); len(u.Claims) != 0 {
		t.Errorf("claims %v after the grant had ended", u.Claims)
	}
	if b.m.Grant() > b.now {
		t.Error("has a grant while suspended")
	}
}

func TestUpdatesThatFailAreRepeatedLaterAndLater(t *testing.T) {
	b := newBench(t)
	b.pass(second)
	var waits []time.Duration
	for range 6 {
		if _, ok := b.m.Next(b.now); !ok {
			t.Fatal("no update is due")
		}
		b.m.Failed(b.now)
		next := b.m.Deadline(b.now)
		waits = append(waits, next-b.now)
		b.now = next
	}
	want := []time.Duration{100 * ms, 200 * ms, 400 * ms, 800 * ms, second, second}
	if diff := cmp.Diff(want, waits); diff != "" {
		t.Errorf("waits (-want +got):\n%s", diff)
	}
}

func TestResumeWithinTheGrantKeepsWhatWasOwned(t *testing.T) {
	m := New("n1", testTiming)
	m.Resume(boot, map[netip.Addr]Ownership{ip1: {Phase: Owned, Epoch: 3}, ip2: {Phase: Draining, Epoch: 3}}, boot+second)
	m.Want(boot, []Group{{Addresses: []netip.Addr{ip1}, Eligible: true}, {Addresses: []netip.Addr{ip2}, Eligible: true}}, true)
	m.Relist(boot, []Lease{{Node: "n1", Version: 4, Duration: 5 * second, Claims: []netip.Addr{ip1}}})
	if got := m.State(ip1); got != (Ownership{Phase: Owned, Epoch: 3}) {
		t.Errorf("%s: %+v", ip1, got)
	}
	if got := m.State(ip2).Phase; got != Released && got != Claiming {
		t.Errorf("%s, released before the restart, is %s", ip2, got)
	}
}

func TestResumeAfterTheGrantForfeits(t *testing.T) {
	m := New("n1", testTiming)
	m.Resume(boot, map[netip.Addr]Ownership{ip1: {Phase: Owned, Epoch: 3}}, boot)
	if got := m.State(ip1).Phase; got != Idle {
		t.Errorf("resumed as %s", got)
	}
}

func TestResumedGrantThatLapsesIsNotClaimedAnewWithoutAPlan(t *testing.T) {
	b := &bench{t: t, m: New("n1", testTiming), now: boot, version: 4}
	b.m.Resume(boot, map[netip.Addr]Ownership{ip1: {Phase: Owned, Epoch: 3}}, boot+second)
	b.m.Relist(boot, []Lease{{Node: "n1", Version: 4, Duration: 5 * second, Claims: []netip.Addr{ip1}}})
	if u := b.write(); len(u.Claims) != 1 || !u.Ready {
		t.Errorf("resumed with %+v", u)
	}
	b.pass(5 * second)
	b.is(ip1, Idle)
	if u := b.write(); len(u.Claims) != 0 {
		t.Errorf("claims %v without a plan", u.Claims)
	}
	b.pass(second)
	b.is(ip1, Idle)
}

func TestWaitingMachineLeavesItsLeaseAlone(t *testing.T) {
	b := &bench{t: t, m: New("n1", testTiming), now: boot, version: 4}
	b.m.Wait(boot, true)
	b.m.Relist(boot, []Lease{{Node: "n1", Version: 4, Duration: 5 * second, Claims: []netip.Addr{ip1}}})
	b.pass(second)
	if u, ok := b.m.Next(b.now); ok {
		t.Errorf("update %+v", u)
	}
	if d := b.m.Deadline(b.now); d <= b.now {
		t.Error("a deadline for what it may not do")
	}
	b.m.Wait(b.now, false)
	b.write()
}
