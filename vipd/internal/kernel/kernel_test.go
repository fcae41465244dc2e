package kernel_test

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/vipod/vipod/shared/netsafe/nstest"
	"github.com/vipod/vipod/shared/schema"
	"github.com/vipod/vipod/vipd/internal/kernel"
	"github.com/vipod/vipod/vipd/internal/kernel/kerneltest"
	"github.com/vipod/vipod/vipd/internal/plan"
)

func TestFakeKeepsTheContract(t *testing.T) {
	kerneltest.Run(t, func(*testing.T) kerneltest.Env {
		return kerneltest.Env{Kernel: &kerneltest.Fake{State: plan.Actual{
			Links: []plan.Link{{Name: "v0", Index: 2, Admin: true, Up: true}},
			Addresses: []plan.Address{
				{Link: "v0", Prefix: netip.MustParsePrefix("198.51.100.1/24")},
				{Link: "v0", Prefix: netip.MustParsePrefix("2001:db8::1/64")},
			},
		}}}
	})
}

func linux(t *testing.T) (*kernel.Linux, *nstest.NS) {
	t.Helper()
	ns, peer := nstest.New(t), nstest.Peer(t)
	nstest.Veth(t, ns, "v0", peer, "v1")
	ns.Add(t, "v0", "198.51.100.1/24")
	ns.Add(t, "v0", "2001:db8::1/64")
	return kernel.NewLinux(kernel.TableName("")), ns
}

func TestNetnsLinuxKeepsTheContract(t *testing.T) {
	kerneltest.Run(t, func(t *testing.T) kerneltest.Env {
		k, _ := linux(t)
		return kerneltest.Env{Kernel: k}
	})
}

func TestNetnsGrantEndsByItself(t *testing.T) {
	k, _ := linux(t)
	if err := k.Do([]plan.Op{plan.AddTable{}, plan.AddChain{Link: "v0"}})[0]; err != nil {
		t.Fatal(err)
	}
	if err := k.SetGrant(schema.GrantNode, []string{"v0"}, 300*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	for {
		a, err := k.Observe()
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(a.Fence.Open[schema.GrantNode], "v0") {
			break
		}
		if time.Since(start) > 5*time.Second {
			t.Fatal("still open")
		}
	}
	// An expired element must not be in the way of the next grant.
	if err := k.SetGrant(schema.GrantNode, []string{"v0"}, time.Minute); err != nil {
		t.Errorf("granting after expiry: %v", err)
	}
}

func TestNetnsProbeFindsTheFenceAndLeavesNothing(t *testing.T) {
	k, _ := linux(t)
	if err := kernel.ProbeFence(kernel.TableName("")); err != nil {
		t.Fatal(err)
	}
	a, err := k.Observe()
	if err != nil || a.Fence.Exists {
		t.Errorf("after the probe: %+v, %v", a.Fence, err)
	}
}

func TestNetnsChainSurvivesOrFollowsItsLink(t *testing.T) {
	k, ns := linux(t)
	up := []plan.Op{plan.AddTable{}, plan.AddChain{Link: "v0"}}
	for i, err := range k.Do(up) {
		if err != nil {
			t.Fatalf("%s: %v", up[i], err)
		}
	}
	ns.Delete(t, "v0")
	if _, err := k.Observe(); err != nil {
		t.Fatal(err)
	}
	nstest.Veth(t, ns, "v0", nstest.Peer(t), "v1")
	// Whether the kernel kept the chain (Linux 6.16) or dropped it, putting
	// the link behind the fence again works.
	if err := k.Do([]plan.Op{plan.AddChain{Link: "v0"}})[0]; err != nil {
		t.Error(err)
	}
}
