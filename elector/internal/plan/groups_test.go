package plan

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// without returns in without the endpoints of the given Services.
func without(in Input, gone ...*corev1.Service) Input {
	kept := in.Slices[:0]
	for i, s := range in.Services {
		keep := true
		for _, g := range gone {
			keep = keep && s != g
		}
		if keep {
			kept = append(kept, in.Slices[i])
		}
	}
	in.Slices = kept
	return in
}

func TestServicesThatShareAnAddressAreOneGroup(t *testing.T) {
	check(t, world(
		svc("shop/a", ips("198.51.100.80"), onPort(80)), svc("shop/b", ips("198.51.100.80,2001:db8::80"), onPort(81)),
		svc("pub/c", ips("2001:db8::80"), onPort(82)), svc("pub/d", ips("198.51.100.90")),
	), `
		pub.c 2001:db8::80/128@eth0 group=0 eligible
		pub.d 198.51.100.90/32@eth0 group=1 eligible
		shop.a 198.51.100.80/32@eth0 group=0 eligible
		shop.b 198.51.100.80/32@eth0,2001:db8::80/128@eth0 group=0 eligible
		group 0 [198.51.100.80 2001:db8::80] eligible=true candidates=any
		group 1 [198.51.100.90] eligible=true candidates=any`)
}

func TestServicesWithOneLeaseNameAreOneGroup(t *testing.T) {
	check(t, world(
		svc("shop/a", ips("198.51.100.80"), note(annotationLease, "common")),
		svc("shop/b", ips("198.51.100.81"), note(annotationLease, "shop/common")),
		svc("pub/c", ips("198.51.100.82"), note(annotationLease, "shop/common")),
		svc("pub/d", ips("198.51.100.83"), note(annotationLease, "common")),
	), `
		pub.c 198.51.100.82/32@eth0 group=0 eligible
		pub.d 198.51.100.83/32@eth0 group=1 eligible
		shop.a 198.51.100.80/32@eth0 group=0 eligible
		shop.b 198.51.100.81/32@eth0 group=0 eligible
		group 0 [198.51.100.80 198.51.100.81 198.51.100.82] eligible=true candidates=any
		group 1 [198.51.100.83] eligible=true candidates=any`)
}

func TestCandidatesOfAGroupAreWhatItsMembersHaveInCommon(t *testing.T) {
	a, b, c := svc("shop/a", ips("198.51.100.80"), local), svc("shop/b", ips("198.51.100.80"), onPort(81), local), svc("shop/c", ips("198.51.100.80"), onPort(82))
	in := world(a, b, c)
	in.Slices[0] = slice(a, "v4", at("n1"), at("n2"))
	in.Slices[1] = slice(b, "v4", at("n2"), at("n3"))
	check(t, in, `
		shop.a 198.51.100.80/32@eth0 group=0 not here: Service shop/b, with which it must live, cannot be served here: no endpoint of the Service serves on node n1
		shop.b 198.51.100.80/32@eth0 group=0 not here: no endpoint of the Service serves on node n1
		shop.c 198.51.100.80/32@eth0 group=0 not here: Service shop/b, with which it must live, cannot be served here: no endpoint of the Service serves on node n1
		group 0 [198.51.100.80] eligible=false candidates=n2`)
}

func TestAServiceWithoutEndpointsTakesNoAddressDown(t *testing.T) {
	a, b, c := svc("shop/a", ips("198.51.100.80"), local), svc("shop/b", ips("198.51.100.80,198.51.100.81"), onPort(81)), svc("shop/c", ips("198.51.100.81"), onPort(82))
	check(t, without(world(a, b, c), b), `
		shop.a 198.51.100.80/32@eth0 group=0 eligible
		shop.b 198.51.100.80/32@eth0,198.51.100.81/32@eth0 group=-1 not here: no endpoint of the Service serves on any node
		shop.c 198.51.100.81/32@eth0 group=1 eligible
		group 0 [198.51.100.80] eligible=true candidates=n1,n2,n3
		group 1 [198.51.100.81] eligible=true candidates=any`)
}

func TestAServiceThatSharesNoNodeWithOlderOnesIsLeftOut(t *testing.T) {
	a, b, c := svc("shop/a", ips("198.51.100.80"), local), svc("shop/b", ips("198.51.100.80,198.51.100.81"), onPort(81), local), svc("shop/c", ips("198.51.100.81"), onPort(82), local)
	in := world(a, b, c)
	in.Slices[0] = slice(a, "v4", at("n1"))
	in.Slices[1] = slice(b, "v4", at("n2"))
	in.Slices[2] = slice(c, "v4", at("n3"))
	check(t, in, `
		shop.a 198.51.100.80/32@eth0 group=0 eligible
		shop.b 198.51.100.80/32@eth0,198.51.100.81/32@eth0 group=-1 not here: no node could serve both it and the older Service shop/a, with which it must live
		shop.c 198.51.100.81/32@eth0 group=1 not here: no endpoint of the Service serves on node n1
		group 0 [198.51.100.80] eligible=true candidates=n1
		group 1 [198.51.100.81] eligible=false candidates=n3`)
}

func TestASharedAddressGoesWhereTheOldestWantsIt(t *testing.T) {
	check(t, world(
		svc("shop/a", ips("203.0.113.80"), note(annotationInterface, "eth1")),
		svc("shop/b", ips("203.0.113.80"), onPort(81), note(annotationInterface, "eth9")),
	), `
		shop.a 203.0.113.80/32@eth1 group=0 eligible
		shop.b 203.0.113.80/32@eth1 group=0 eligible
		group 0 [203.0.113.80] eligible=true candidates=any`)
}

func TestAnInterfaceThatIsDownMovesTheWholeGroup(t *testing.T) {
	check(t, world(
		svc("shop/a", ips("198.51.100.80"), note(annotationLease, "common")),
		svc("shop/b", ips("192.0.2.80"), note(annotationLease, "common"), note(annotationInterface, "eth2")),
	), `
		shop.a 198.51.100.80/32@eth0 group=0 not here: Service shop/b, with which it must live, cannot be served here: interface eth2 is down
		shop.b 192.0.2.80/32@eth2 group=0 not here: interface eth2 is down
		group 0 [192.0.2.80 198.51.100.80] eligible=false candidates=any`)
}

func TestAnotherNamespaceCannotTakeAGroupDownByItsInterface(t *testing.T) {
	for _, link := range []string{"eth2", "eth9"} {
		in := world(
			svc("shop/a", ips("198.51.100.80"), note(annotationLease, "common")),
			svc("evil/b", ips("192.0.2.80"), note(annotationLease, "shop/common"), note(annotationInterface, link)),
		)
		out := Plan(in)
		if g := out.Groups; len(g) != 1 || !g[0].Eligible || len(g[0].Addresses) != 1 {
			t.Errorf("%s: %s", link, out.text())
		}
		if v := out.VIPs[0]; v.Group != NoGroup || v.Eligible || v.Why == "" {
			t.Errorf("%s: %s", link, v.text())
		}
	}
}
