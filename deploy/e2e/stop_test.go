package e2e

import (
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vipod/vipod/deploy/lab"
	"github.com/vipod/vipod/deploy/trial"
	"github.com/vipod/vipod/shared/ownership"
)

// withUDP asks every address by ICMP and through kube-proxy.
func withUDP(vip lab.Addrs) []trial.Target {
	list := targets(vip.Slice()...)
	for i := range list {
		list[i].UDPPort = lab.UDPPort
	}
	return list
}

func TestE2EStoppedNodeHandsOverWithoutLoss(t *testing.T) {
	e := begin(t)
	vip, name := e.vip(), "stopped"
	owner := e.served(name, vip)
	// One that must live where the first does.
	e.annotate(name, annotationGroup, "stopped")
	e.create(lab.ServiceSpec{Name: "companion", VIPs: e.vip().Slice(), Pods: e.allPods(),
		Annotations: map[string]string{annotationGroup: "stopped"}})
	e.must(want("the companion's owner", e.owned("companion"), owner))
	removed := e.watchRemovals(owner)
	var successor string
	s := e.watch(withUDP(vip), func() {
		took := e.stop(owner, unix.SIGTERM)
		t.Logf("all daemons ended after %v", took)
		successor = e.moved(name, owner)
	}).changedHands(1).lost(5)
	e.told(soon, name, "OwnerChanged", successor, owner)
	e.must(want("the companion's owner", e.moved("companion", owner), successor))
	for _, seen := range s.seen {
		gone := removed.of(seen.IP)
		if len(gone) != 1 {
			t.Fatalf("%s was removed %d times", seen.IP, len(gone))
		}
		// 2 s after its release, for clients that have not heard yet.
		if linger := gone[0].Sub(s.firstClaim(seen, successor)); linger < time.Second || linger > 5*time.Second {
			t.Errorf("%s left %s %v after %s claimed it, want about 2s", seen.IP, owner, linger, successor)
		}
	}
	if left := e.tagged(owner); len(left) > 0 {
		t.Errorf("addresses left on %s: %v", owner, left)
	}
	if e.fenced(owner) {
		t.Errorf("nftables tables left on %s: %q", owner, e.tables(owner))
	}
	if claims := e.lease("vipod-" + owner).Annotations[annotationClaims]; strings.Contains(claims, vip.V4.String()) {
		t.Errorf("the Lease of %s still claims: %s", owner, claims)
	}
	e.start(owner)
	e.must(e.AwaitReady(e.ctx, owner))
	e.holds(calm, "the address does not come back", func() error { return e.only(successor, vip.V4) })
}

func TestE2EStoppedEverywhereLeavesNothing(t *testing.T) {
	e := begin(t)
	vip, name := e.vip(), "uninstalled"
	e.served(name, vip)
	for _, node := range e.Nodes() { // all at once
		e.must(e.SignalDaemons(node, unix.SIGTERM))
	}
	for _, node := range e.Nodes() {
		e.stop(node, unix.SIGTERM)
		if left := e.tagged(node); len(left) > 0 || e.fenced(node) {
			t.Errorf("left on %s: addresses %v, tables %q", node, left, e.tables(node))
		}
		if claims := e.lease("vipod-" + node).Annotations[annotationClaims]; strings.Contains(claims, vip.V4.String()) {
			t.Errorf("the Lease of %s still claims: %s", node, claims)
		}
	}
	if holder := e.lease(controlPlane).Spec.HolderIdentity; holder != nil && *holder != "" {
		t.Errorf("%s still holds the control plane's Lease", *holder)
	}
	if err := e.unserved(name); err != nil {
		t.Errorf("nobody serves the Service any more: %v", err)
	}
	for _, node := range e.Nodes() {
		e.start(node)
	}
	e.must(e.AwaitReady(e.ctx, e.Nodes()...))
	e.owned(name)
	e.answers(vip.V4, 80)
	e.answers(vip.V6, 80)
}

func TestE2EReplacedContainerMovesNothing(t *testing.T) {
	e := begin(t)
	vip, name := e.vip(), "replaced"
	owner := e.served(name, vip)
	removed, fence := e.watchRemovals(owner), e.fenceOf(owner)
	e.watch(withUDP(vip), func() {
		for _, daemon := range []string{ownership.Vipd, ownership.Arpd, ownership.Metricsd} {
			took := e.stop(owner, unix.SIGTERM, daemon)
			t.Logf("%s ended after %v", daemon, took)
			if took > 4*time.Second { // 2 s, and what a busy machine adds
				t.Errorf("%s took %v to end", daemon, took)
			}
			e.start(owner, daemon)
			e.must(e.AwaitReady(e.ctx, owner))
		}
		time.Sleep(calm)
	}).changedHands(0).lost(0)
	e.untouched(removed, vip.Slice()...)
	e.stays(name, owner)
	if now := e.fenceOf(owner); now != fence {
		t.Errorf("the fence was %q, now %q: it was made anew", fence, now)
	}
}

// fenceOf returns vipod's table of a node with its handle, which another
// table of that name would not have.
func (e *env) fenceOf(node string) string {
	e.t.Helper()
	lines := strings.Split(e.run(node, "nft -a list tables"), "\n")
	i := slices.IndexFunc(lines, func(line string) bool { return strings.Contains(line, "vipod") })
	if i < 0 {
		e.t.Fatalf("%s has no fence: %q", node, lines)
	}
	return lines[i]
}

func TestE2EReplacedElectorHandsOverWithoutLoss(t *testing.T) {
	e := begin(t)
	vip, name := e.vip(), "new-elector"
	owner := e.served(name, vip)
	e.watch(withUDP(vip), func() {
		t.Logf("elector ended after %v", e.stop(owner, unix.SIGTERM, ownership.Elector))
		e.moved(name, owner)
	}).changedHands(1).lost(5)
	e.start(owner, ownership.Elector)
	e.must(e.AwaitReady(e.ctx, owner))
	for _, daemon := range []string{ownership.Vipd, ownership.Arpd, ownership.Metricsd} {
		if p, _ := e.Daemon(owner, daemon); p.PID != e.pids[daemonOn{owner, daemon}] {
			t.Errorf("%s is another process", daemon)
		}
	}
}
