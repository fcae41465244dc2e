package wg_test

import (
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/vipod/vipod/egressd/internal/tunnel"
	"github.com/vipod/vipod/egressd/internal/wg"
	"github.com/vipod/vipod/egressd/internal/wg/wgtest"
	"github.com/vipod/vipod/shared/netsafe/nstest"
)

func TestFakeKernelMatchesTheModel(t *testing.T) {
	wgtest.Run(t, func(*testing.T) wg.Kernel { return &wgtest.Fake{} })
}

func TestNetnsTunnelsMatchTheModel(t *testing.T) {
	wgtest.Need(t)
	wgtest.Run(t, func(t *testing.T) wg.Kernel {
		nstest.New(t)
		return wg.Linux{Protocol: 248}
	})
}

func TestNetnsLinkOfSomebodyElseStays(t *testing.T) {
	wgtest.Need(t)
	nstest.New(t)
	k := wg.Linux{Protocol: 248}
	if err := netlink.LinkAdd(&netlink.Wireguard{LinkAttrs: netlink.LinkAttrs{Name: wgtest.Tunnel4.Name}}); err != nil {
		t.Fatal(err)
	}
	alias := tunnel.Alias("")
	seen, err := k.Observe(alias, []string{wgtest.Tunnel4.Name})
	if err != nil {
		t.Fatal(err)
	}
	if !seen.Foreign(wgtest.Tunnel4, alias) {
		t.Errorf("%v is taken for ours", seen.Links)
	}
	for _, d := range []tunnel.Desired{
		{Tunnels: []tunnel.Tunnel{wgtest.Tunnel4}, Alias: alias, Sweep: true}, {Alias: alias, Sweep: true},
	} {
		if ops := tunnel.Plan(d, seen); len(ops) > 0 {
			t.Errorf("%v on a link of somebody else", ops)
		}
	}
}
