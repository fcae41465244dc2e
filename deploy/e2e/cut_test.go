package e2e

import (
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vipod/vipod/deploy/lab"
	"github.com/vipod/vipod/deploy/probe"
	"github.com/vipod/vipod/deploy/trial"
	"github.com/vipod/vipod/shared/ownership"
)

// far is what somebody sees who is still connected with a node that was cut
// off, and asks it for addresses.
type far struct {
	capture *probe.Capture
	asker   *trial.Asker
	stop    func()
}

// farSide looks at a node from the far end of its cable.
func (e *env) farSide(node string, addrs ...netip.Addr) *far {
	e.t.Helper()
	f := &far{}
	e.must(e.InNS("lan", func() (err error) {
		if f.capture, err = probe.Listen(node); err != nil {
			return err
		}
		if f.asker, err = trial.Ask(node, addrs...); err != nil {
			f.capture.Close()
		}
		return err
	}))
	f.stop = sync.OnceFunc(func() {
		f.asker.Stop()
		f.capture.Close()
	})
	e.t.Cleanup(f.stop)
	return f
}

func TestE2ECutOffOwnerIsSilentBeforeItsSuccessorClaims(t *testing.T) {
	e := begin(t)
	vip, name := e.vip(), "cut"
	owner := e.servedByOthers(name, vip)
	far := e.farSide(owner, vip.Slice()...)
	var successor string
	var cut, healed time.Time
	s := e.watch(withUDP(vip), func() {
		e.must(e.Cut(e.ctx, owner))
		cut = time.Now()
		successor = e.moved(name, owner)
		e.answers(vip.V4, 80)
		e.answers(vip.V6, 80)
		took := time.Since(cut)
		t.Logf("both families answer again after %v", took)
		if took > takeover {
			t.Errorf("both families answer again after %v, want %v", took, takeover)
		}
		healed = time.Now()
		e.must(e.Heal(e.ctx, owner))
		e.within(soon, "the old owner gives up the addresses", func() error {
			return firstError(e.only(successor, vip.V4), e.only(successor, vip.V6))
		})
		e.holds(calm, "the address does not come back", func() error { return e.only(successor, vip.V4) })
	}).changedHands(1).silent(owner, healed)
	far.stop()
	e.stays(name, successor)
	for _, seen := range s.seen {
		last, first := cut, s.firstClaim(seen, successor)
		for _, f := range far.capture.Claims(seen.IP) {
			last = f.Time
		}
		t.Logf("%s: cut off at 0, last claim of %s at %v, first of %s at %v", seen.IP,
			owner, last.Sub(cut).Round(time.Millisecond), successor, first.Sub(cut).Round(time.Millisecond))
		if !last.After(cut) {
			t.Errorf("%s did not claim %s any more when it was cut off: this shows nothing", owner, seen.IP)
		}
		if !last.Before(first) {
			t.Errorf("%s still claimed %s when %s did", owner, seen.IP, successor)
		}
	}
}

// separate gives a node a way to the API server besides the LAN, so that
// what happens to its link is all that happens.
func (e *env) separate(node string) {
	e.t.Helper()
	addrs, err := lab.NodeAddrs(node)
	e.must(err)
	api := lab.APIAddrs()
	e.run(node, "ip link add mgmt0 type veth peer name mgmt-"+node+" netns "+e.NS("cp"))
	e.t.Cleanup(func() { e.run(node, "ip link del mgmt0") })
	e.run(node, "ip link set mgmt0 up")
	e.run("cp", "ip link set mgmt-"+node+" up")
	e.run(node, fmt.Sprintf("ip route add %s dev mgmt0 src %s", api.V4, addrs.V4))
	e.run("cp", fmt.Sprintf("ip route add %s dev mgmt-%s src %s", addrs.V4, node, api.V4))
}

// forgetFlaps lets vipd begin anew, which remembers for a minute how often
// its links were down.
func (e *env) forgetFlaps(node string) {
	e.stop(node, unix.SIGKILL, ownership.Vipd)
	e.start(node, ownership.Vipd)
}

// linkTakeover is how long a move may take that its old owner knows of: 100
// ms until vipd has told, a claim, and what a busy machine adds.
const linkTakeover = 3 * time.Second

func TestE2ELinkThatFailsMakesItsNodeIneligible(t *testing.T) {
	for _, c := range []struct {
		name string
		fail func(*env, string)
	}{
		{"carrier", func(e *env, node string) { e.must(e.CutCarrier(e.ctx, node)) }},
		{"down", func(e *env, node string) { e.must(e.LinkDown(e.ctx, node)) }},
		{"default-route", func(e *env, node string) {
			e.run(node, "ip route del default")
			e.run(node, "ip -6 route del default")
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := begin(t)
			vip, name := e.vip(), "link-"+c.name
			owner := e.servedByOthers(name, vip)
			e.separate(owner)
			t.Cleanup(func() { e.forgetFlaps(owner) })
			var successor string
			var failed time.Time
			s := e.during(vip, func() {
				failed = time.Now()
				c.fail(e, owner)
				successor = e.moved(name, owner)
				e.answers(vip.V4, 80)
				e.answers(vip.V6, 80)
				e.must(e.Heal(e.ctx, owner))
				e.within(soon, "the old owner gives up the addresses", func() error {
					return firstError(e.only(successor, vip.V4), e.only(successor, vip.V6))
				})
				e.holds(calm, "the address does not come back", func() error { return e.only(successor, vip.V4) })
			}).changedHands(1)
			for _, seen := range s.seen {
				took := s.firstClaim(seen, successor).Sub(failed)
				t.Logf("%s: claimed by %s after %v", seen.IP, successor, took)
				if took > linkTakeover {
					t.Errorf("%s: claimed by %s after %v, want %v", seen.IP, successor, took, linkTakeover)
				}
			}
		})
	}
}

func TestE2EControlPlaneLeavesALinkThatFails(t *testing.T) {
	e := begin(t)
	node := e.holder("")
	e.separate(node)
	t.Cleanup(func() { e.forgetFlaps(node) })
	e.during(lab.ControlPlaneVIP(), func() {
		e.must(e.CutCarrier(e.ctx, node))
		took := time.Now()
		e.holder(node)
		e.askAPI()
		t.Logf("the API server answers again after %v", time.Since(took))
	}).changedHands(1)
}

func TestE2EFlappingLinkMovesItsAddressesOnce(t *testing.T) {
	e := begin(t)
	vip, name := e.vip(), "flap"
	owner := e.servedByOthers(name, vip)
	e.separate(owner)
	t.Cleanup(func() { e.forgetFlaps(owner) })
	e.during(vip, func() {
		for range 30 { // ten times a second
			e.must(e.CutCarrier(e.ctx, owner))
			time.Sleep(50 * time.Millisecond)
			e.must(e.Heal(e.ctx, owner))
			time.Sleep(50 * time.Millisecond)
		}
		e.moved(name, owner)
		e.answers(vip.V4, 80)
		time.Sleep(calm)
	}).changedHands(1)
}
