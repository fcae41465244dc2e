package netsafe_test

import (
	"net"
	"slices"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/vipod/vipod/shared/netsafe"
	"github.com/vipod/vipod/shared/netsafe/nstest"
)

func TestNetnsRulesAndDefaultRoutesOfATableAreFound(t *testing.T) {
	ns := nstest.New(t)
	nstest.Veth(t, ns, "v0", ns, "v1")
	for family, any := range map[uint8]*net.IPNet{
		unix.AF_INET:  {IP: make(net.IP, net.IPv4len), Mask: make(net.IPMask, net.IPv4len)},
		unix.AF_INET6: {IP: make(net.IP, net.IPv6len), Mask: make(net.IPMask, net.IPv6len)},
	} {
		want := netsafe.Rule{Priority: 100, Mark: 117356, Table: 51820}
		expect := func(there bool) {
			t.Helper()
			rules, err := netsafe.Rules(family)
			if err != nil {
				t.Fatal(err)
			}
			route, err := netsafe.HasDefaultRoute(family, 51820, ns.Index(t, "v0"))
			if err != nil {
				t.Fatal(err)
			}
			if found := slices.Contains(rules, want); found != there || route != there {
				t.Errorf("family %d: rule found: %t, route found: %t, want %t", family, found, route, there)
			}
			if other, err := netsafe.HasDefaultRoute(family, 51820, ns.Index(t, "v1")); err != nil || other {
				t.Errorf("family %d: a route by another link: %t, %v", family, other, err)
			}
		}
		expect(false)
		rule := netlink.NewRule()
		rule.Family, rule.Priority, rule.Mark, rule.Table = int(family), 100, 117356, 51820
		if err := netlink.RuleAdd(rule); err != nil {
			t.Fatal(err)
		}
		if err := netlink.RouteReplace(&netlink.Route{LinkIndex: ns.Index(t, "v0"), Dst: any, Table: 51820, Scope: netlink.SCOPE_LINK}); err != nil {
			t.Fatal(err)
		}
		expect(true)
	}
}
