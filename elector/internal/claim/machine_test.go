package claim

import (
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

const (
	ms     = time.Millisecond
	second = time.Second
)

var testTiming = Timing{Duration: 5 * time.Second, Renew: time.Second}

// boot is when the tests begin: a machine that is up for a while.
const boot = 1000 * second

var (
	ip1 = netip.MustParseAddr("198.51.100.200")
	ip2 = netip.MustParseAddr("2001:db8::200")
)

// bench is one machine with the API server's part played by hand.
type bench struct {
	t       *testing.T
	m       *Machine
	now     time.Duration
	version uint64
}

// newBench returns a machine that has its first Lease and a grant.
func newBench(t *testing.T) *bench {
	b := &bench{t: t, m: New("n1", testTiming), now: boot}
	b.m.Relist(b.now, nil)
	b.write()
	return b
}

// write lets the update that is due be committed and come back on the watch.
func (b *bench) write() Update {
	b.t.Helper()
	u, ok := b.m.Next(b.now)
	if !ok {
		b.t.Fatal("no update is due")
	}
	b.version++
	b.m.Committed(b.now, b.version)
	b.m.Observe(b.now, Lease{Node: "n1", Version: b.version, Duration: 5 * second, Ready: u.Ready, Claims: u.Claims})
	return u
}

// other is an event of another node's Lease.
func (b *bench) other(node string, claims ...netip.Addr) {
	b.version++
	b.m.Observe(b.now, Lease{Node: node, Version: b.version, Duration: 5 * second, Ready: true, Claims: claims})
}

func (b *bench) pass(d time.Duration) {
	b.now += d
	b.m.Tick(b.now)
}

func (b *bench) want(eligible bool, ips ...netip.Addr) {
	b.m.Want(b.now, []Group{{Addresses: ips, Eligible: eligible}}, true)
}

// own brings the addresses to Owned.
func (b *bench) own(ips ...netip.Addr) {
	b.t.Helper()
	b.want(true, ips...)
	for _, ip := range ips {
		b.m.Probed(b.now, ip, true)
		b.m.Tick(b.now)
	}
	b.write()
	for _, ip := range ips {
		b.is(ip, Owned)
	}
}

func (b *bench) is(ip netip.Addr, want Phase) {
	b.t.Helper()
	if got := b.m.State(ip).Phase; got != want {
		b.t.Fatalf("%s is %s, want %s", ip, got, want)
	}
}

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
