package e2e

import (
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vipod/vipod/deploy/lab"
	"github.com/vipod/vipod/deploy/trial"
)

func TestE2EKilledDaemonThatIsRestartedMovesNothing(t *testing.T) {
	e := begin(t)
	vip, name := e.vip(), "killed"
	owner := e.served(name, vip)
	removed := e.watchRemovals(owner)
	kills := [][]string{}
	for _, daemon := range lab.DaemonNames() {
		kills = append(kills, []string{daemon})
	}
	kills = append(kills, nil) // all at once
	e.during(vip, func() {
		for _, names := range kills {
			e.stop(owner, unix.SIGKILL, names...)
			e.start(owner, names...)
			e.must(e.AwaitReady(e.ctx, owner))
			e.holds(time.Second, "the address stays", func() error { return e.only(owner, vip.V4) })
		}
		// Longer than a grant that nobody prolongs.
		e.holds(leaseDuration, "the address stays", func() error { return e.only(owner, vip.V4) })
	}).changedHands(0).lost(0)
	e.untouched(removed, vip.Slice()...)
	e.stays(name, owner)
}

func TestE2EDeadNodeIsSilentAndCleansItself(t *testing.T) {
	e := begin(t)
	vip, name := e.vip(), "dead"
	owner := e.served(name, vip)
	var successor string
	e.during(vip, func() {
		killed := time.Now()
		e.stop(owner, unix.SIGKILL)
		successor = e.moved(name, owner)
		e.answers(vip.V4, 80)
		e.answers(vip.V6, 80)
		took := time.Since(killed)
		t.Logf("both families answer again after %v", took)
		if took > takeover {
			t.Errorf("both families answer again after %v, want %v", took, takeover)
		}
		// What vipod left there is mute, and the kernel takes it away.
		for _, ip := range vip.Slice() {
			a, ok := e.address(owner, ip)
			if !ok {
				t.Fatalf("%s left %s by itself after %v", ip, owner, took)
			}
			if left := maxLife - uint32(took/time.Second); a.Valid > left {
				t.Errorf("%s on %s lives for %d s, want it to have counted down to %d", ip, owner, a.Valid, left)
			}
		}
		time.Sleep(calm)
		e.start(owner)
		e.within(soon, "the node that came back gives up the addresses", func() error {
			return firstError(e.only(successor, vip.V4), e.only(successor, vip.V6))
		})
		e.must(e.AwaitReady(e.ctx, owner))
		time.Sleep(calm)
	}).changedHands(1)
	e.stays(name, successor)
}

func TestE2EFrozenOwnerNeverClaimsBesideItsSuccessor(t *testing.T) {
	e := begin(t)
	vip, name := e.vip(), "frozen"
	owner := e.served(name, vip)
	var successor string
	s := e.during(vip, func() {
		e.must(e.Pause(owner))
		successor = e.moved(name, owner)
		e.answers(vip.V4, 80)
		e.answers(vip.V6, 80)
		time.Sleep(calm)
		e.must(e.Resume(owner))
		e.within(soon, "the node that goes on gives up the addresses", func() error {
			return firstError(e.only(successor, vip.V4), e.only(successor, vip.V6))
		})
		e.must(e.AwaitReady(e.ctx, owner))
		time.Sleep(calm)
	}).changedHands(1)
	for _, seen := range s.seen {
		if n := len(seen.Claimants()); n != 2 {
			t.Errorf("%s was claimed by %d machines, want the owner and its successor: this shows nothing", seen.IP, n)
		}
	}
	e.stays(name, successor)
}

// TestE2EWithoutItsFenceAFrozenOwnerIsFound shows that the tests here would
// find two owners.
func TestE2EWithoutItsFenceAFrozenOwnerIsFound(t *testing.T) {
	e := begin(t)
	vip, name := e.vip(), "unfenced"
	owner := e.served(name, vip)
	s := e.during(vip, func() {
		e.must(e.Pause(owner))
		e.run(owner, "nft delete table netdev vipod_fence")
		e.moved(name, owner)
		time.Sleep(calm)
		e.must(e.Resume(owner))
	})
	for _, seen := range s.seen {
		if err := seen.Exclusive(1); !errors.Is(err, trial.ErrTwoOwners) {
			t.Errorf("two owners of %s were not found: %v", seen.IP, err)
		}
	}
}

func TestE2EShortFreezeMovesNothing(t *testing.T) {
	e := begin(t)
	vip, name := e.vip(), "short-freeze"
	owner := e.served(name, vip)
	e.during(vip, func() {
		e.must(e.Pause(owner))
		time.Sleep(2 * time.Second)
		e.must(e.Resume(owner))
		e.holds(leaseDuration, "the address stays", func() error { return e.only(owner, vip.V4) })
	}).changedHands(0).lost(0)
	e.stays(name, owner)
}

func TestE2EShortOutageOfTheAPIServerMovesNothing(t *testing.T) {
	e := begin(t)
	vip, name := e.vip(), "api-short"
	owner := e.served(name, vip)
	e.during(vip, func() {
		e.must(e.PauseAPI())
		time.Sleep(leaseDuration - 2500*time.Millisecond)
		e.must(e.ResumeAPI())
		e.holds(leaseDuration, "the address stays", func() error { return e.only(owner, vip.V4) })
	}).changedHands(0).lost(0)
	e.stays(name, owner)
	e.unharmed()
}

func TestE2ELongOutageOfTheAPIServerSilencesUntilItIsBack(t *testing.T) {
	for _, c := range []struct {
		name       string
		begin, end func(*env) error
	}{
		{"gone", func(e *env) error { return e.StopAPI(e.ctx) }, func(e *env) error { return e.StartAPI(e.ctx) }},
		{"hangs", func(e *env) error { return e.PauseAPI() }, func(e *env) error { return e.ResumeAPI() }},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := begin(t)
			vip, name := e.vip(), "api-"+c.name
			e.served(name, vip)
			var quiet, back time.Time
			s := e.during(vip, func() {
				e.must(c.begin(e))
				quiet = time.Now().Add(leaseDuration)
				time.Sleep(leaseDuration + calm)
				back = time.Now()
				e.must(c.end(e))
				e.within(soon, "the Service has an owner again", func() error {
					for _, ip := range vip.Slice() {
						if n := len(e.holders(ip)); n != 1 {
							return errors.New("it is not on one node")
						}
					}
					return nil
				})
				e.answers(vip.V4, 80)
				e.answers(vip.V6, 80)
				t.Logf("both families answer %v after the API server is back", time.Since(back))
				time.Sleep(calm)
			}).changedHands(1)
			for _, seen := range s.seen {
				for _, f := range seen.Claims {
					if f.Time.After(quiet) && f.Time.Before(back) {
						t.Fatalf("claimed without a Lease: %s", f)
					}
				}
			}
			e.unharmed()
		})
	}
}
