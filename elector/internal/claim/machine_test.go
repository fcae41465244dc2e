package claim

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestNothingIsClaimedWithoutAGrant(t *testing.T) {
	b := &bench{t: t, m: New("n1", testTiming), now: boot}
	b.want(true, ip1)
	if _, ok := b.m.Next(b.now); ok {
		t.Fatal("an update before the first list")
	}
	b.m.Relist(b.now, nil)
	b.is(ip1, Idle)
	u := b.write()
	if diff := cmp.Diff(Update{Ready: true}, u, cmpopts.EquateComparable(netip.Addr{}), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("first update (-want +got):\n%s", diff)
	}
	b.is(ip1, Probing)
}

func TestAddressIsOwnedOnlyWhenTheClaimCameBackOnTheWatch(t *testing.T) {
	b := newBench(t)
	b.want(true, ip1)
	b.m.Probed(b.now, ip1, true)
	b.m.Tick(b.now)
	b.is(ip1, Claiming)
	if _, ok := b.m.Next(b.now); !ok {
		t.Fatal("no update is due")
	}
	b.m.Committed(b.now, 7)
	b.is(ip1, Claiming)
	b.m.Observe(b.now, Lease{Node: "n1", Version: 7, Duration: 5 * second, Claims: []netip.Addr{ip1}})
	b.is(ip1, Owned)
	if got := b.m.State(ip1).Epoch; got != 7 {
		t.Errorf("epoch %d, want 7", got)
	}
}

func TestEarlierClaimOfALiveLeaseWins(t *testing.T) {
	b := newBench(t)
	b.want(true, ip1)
	b.m.Probed(b.now, ip1, true)
	b.m.Tick(b.now)
	b.other("n2", ip1)
	b.write()
	b.is(ip1, Idle)
	b.pass(spacing)
	if u := b.write(); len(u.Claims) != 0 {
		t.Errorf("still claims %v", u.Claims)
	}
}

// A node decides to claim, is frozen, and finds its claim on the watch behind
// another that came first. The other's Lease looks dead by then, because the
// renewals that it made meanwhile come behind the claim.
func TestEarlierClaimCountsThoughItsLeaseLooksDeadAfterAFreeze(t *testing.T) {
	b := newBench(t)
	b.want(true, ip1)
	b.m.Probed(b.now, ip1, true)
	b.m.Tick(b.now)
	b.other("n2", ip1)
	b.now += 4600 * ms
	if _, ok := b.m.Next(b.now); !ok {
		t.Fatal("no update is due")
	}
	b.m.Committed(b.now, 8)
	b.now += 4600 * ms
	b.m.Observe(b.now, Lease{Node: "n1", Version: 8, Duration: 5 * second, Claims: []netip.Addr{ip1}})
	b.is(ip1, Claiming) // anew, since n2 looks dead
	b.version = 8
	b.other("n2", ip1)
	b.write()
	b.is(ip1, Idle)
}

func TestLaterClaimOfAnotherNodeChangesNothing(t *testing.T) {
	b := newBench(t)
	b.own(ip1)
	b.other("n2", ip1)
	b.is(ip1, Owned)
}

func TestClaimOfADeadLeaseIsFree(t *testing.T) {
	b := newBench(t)
	b.other("n2", ip1)
	b.want(true, ip1)
	for range 4 {
		b.pass(second)
		b.write()
	}
	b.pass(999 * ms)
	b.is(ip1, Idle)
	b.pass(ms)
	b.is(ip1, Claiming) // without a probe: it had an owner until now
}

func TestDeletedLeaseHoldsForAsLongAsItsGrantMay(t *testing.T) {
	b := newBench(t)
	b.other("n2", ip1)
	b.want(true, ip1)
	b.m.Forget(b.now, "n2")
	b.pass(4 * second)
	b.write()
	b.is(ip1, Idle)
	b.pass(second)
	b.is(ip1, Claiming)
}

func TestLeaseMissingFromANewListHoldsEverything(t *testing.T) {
	b := newBench(t)
	b.other("n2")
	b.want(true, ip1)
	b.pass(probeStagger)
	b.write()
	b.is(ip1, Probing)
	b.m.Relist(b.now, []Lease{{Node: "n1", Version: 1, Duration: 5 * second, Ready: true}})
	b.m.Probed(b.now, ip1, true)
	b.m.Tick(b.now)
	b.is(ip1, Probing)
	for range 4 {
		b.pass(second)
		b.write()
	}
	b.is(ip1, Probing)
	b.pass(second)
	b.is(ip1, Claiming)
}

func TestTheNextNodeWaitsForTheProbeOfTheOneBefore(t *testing.T) {
	m := &Machine{}
	for _, node := range []string{"n1", "n2"} {
		if Prefer(ip1, []string{"n1", "n2"})[1] == node {
			m = New(node, testTiming)
		}
	}
	b := &bench{t: t, m: m, now: boot}
	b.m.Relist(b.now, nil)
	u, _ := b.m.Next(b.now)
	b.m.Committed(b.now, 1)
	b.m.Observe(b.now, Lease{Node: m.node, Version: 1, Duration: 5 * second, Ready: u.Ready})
	other := map[string]string{"n1": "n2", "n2": "n1"}[m.node]
	b.version = 1
	b.other(other)
	b.want(true, ip1)
	b.pass(probeStagger - ms)
	b.is(ip1, Idle)
	b.pass(ms)
	b.is(ip1, Probing)
}

func TestStrangersAddressIsNotClaimed(t *testing.T) {
	b := newBench(t)
	b.want(true, ip1)
	b.is(ip1, Probing)
	b.m.Probed(b.now, ip1, false)
	b.m.Tick(b.now)
	b.is(ip1, Probing)
	b.m.Probed(b.now, ip1, true)
	b.m.Tick(b.now)
	b.is(ip1, Claiming)
}

func TestGroupGoesToOneNode(t *testing.T) {
	b := newBench(t)
	b.other("n2", ip2)
	b.want(true, ip1, ip2)
	b.pass(second)
	b.is(ip1, Idle)
}

func TestOwnerOfTheLowestAddressWinsWhenGroupsJoin(t *testing.T) {
	for _, tc := range []struct {
		name    string
		ours    netip.Addr
		theirs  netip.Addr
		becomes Phase
	}{
		{"ours is lower", ip1, ip2, Owned},
		{"theirs is lower", ip2, ip1, Draining},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t)
			b.own(tc.ours)
			b.other("n2", tc.theirs)
			b.want(true, ip1, ip2)
			b.is(tc.ours, tc.becomes)
		})
	}
}

func TestPreferSpreadsEvenlyAndMovesOnlyWhatALostNodeOwned(t *testing.T) {
	nodes, counts, moved := []string{"n1", "n2", "n3"}, map[string]int{}, 0
	for i := range 3000 {
		ip := netip.AddrFrom4([4]byte{198, 51, byte(i >> 8), byte(i)})
		before, after := Prefer(ip, nodes)[0], Prefer(ip, nodes[:2])[0]
		counts[before]++
		if before != after && before != "n3" {
			moved++
		}
	}
	for n, c := range counts {
		if c < 900 || c > 1100 {
			t.Errorf("%s is preferred for %d of 3000", n, c)
		}
	}
	if moved > 0 {
		t.Errorf("%d moved that n3 did not own", moved)
	}
}
