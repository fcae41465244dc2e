package plan

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vipod/vipod/elector/internal/config"
	"github.com/vipod/vipod/shared/ownership"
)

// anycastWorld is a node in BGP mode where pods may have addresses of two
// networks.
func anycastWorld() Input {
	in := world(svc("shop/web", ips("203.0.113.80")))
	in.Config.Mode, in.Config.Components = config.ModeBGP, []string{ownership.Vipd, ownership.Bgpd}
	in.Config.BGP.Anycast = prefixes("203.0.113.0/24", "2001:db8:9::/48")
	return in
}

func anycastPod(name, wants string, serves bool, own ...string) AnycastPod {
	return AnycastPod{Namespace: "shop", Name: name, UID: "uid-" + name, Wants: wants, Serves: serves, Addresses: addrs(own...)}
}

func TestPodsThatServeAreTheNextHopsOfTheirAnycastAddresses(t *testing.T) {
	pods := []AnycastPod{
		anycastPod("a", "203.0.113.9, 2001:db8:9::9", true, "192.0.2.20", "2001:db8::20"),
		anycastPod("b", "203.0.113.9", true, "192.0.2.3"),
		anycastPod("c", "203.0.113.9", false, "192.0.2.4"),
		anycastPod("d", "", true, "192.0.2.5"),
		anycastPod("e", "203.0.113.10", false, "192.0.2.6"),
		anycastPod("f", "203.0.113.11", true),
	}
	want := []Anycast{
		{addrs("203.0.113.9")[0], addrs("192.0.2.3", "192.0.2.20")},
		{addrs("2001:db8:9::9")[0], addrs("2001:db8::20")},
	}
	for range 20 {
		rand.Shuffle(len(pods), func(i, j int) { pods[i], pods[j] = pods[j], pods[i] })
		got, refused := Anycasts(anycastWorld(), pods, nil)
		if diff := cmp.Diff(want, got, compareAddr); diff != "" || len(refused) > 0 {
			t.Fatalf("refused %v (-want +got):\n%s", refused, diff)
		}
	}
}

func TestAnycastAddressesThatArePodsToHaveNot(t *testing.T) {
	host := anycastPod("p", "203.0.113.9", true, "198.51.100.1")
	host.HostNetwork = true
	for want, p := range map[string]AnycastPod{
		"is no IP address":     anycastPod("p", "203.0.113.0/24", true, "192.0.2.3"),
		"none of the networks": anycastPod("p", "192.0.2.99", true, "192.0.2.3"),
		"Service shop/web":     anycastPod("p", "203.0.113.80", true, "192.0.2.3"),
		"has no address":       anycastPod("p", "2001:db8:9::9", true, "192.0.2.3"),
		"own address already":  anycastPod("p", "203.0.113.9", true, "203.0.113.9"),
		"on its node's":        host,
	} {
		in := anycastWorld()
		got, refused := Anycasts(in, []AnycastPod{p}, Plan(in).VIPs)
		if len(got) > 0 || len(refused) != 1 || !strings.Contains(refused[0].Message, want) || refused[0].Name != "p" {
			t.Errorf("%s: %v, %v", want, got, refused)
		}
	}
	in := anycastWorld()
	in.APIServers = addrs("203.0.113.9")
	if _, refused := Anycasts(in, []AnycastPod{anycastPod("p", "203.0.113.9", true, "192.0.2.3")}, nil); len(refused) != 1 {
		t.Errorf("the API server's address: %v", refused)
	}
	in = anycastWorld()
	in.Config.Components = []string{ownership.Bgpd}
	if got, _ := Anycasts(in, []AnycastPod{anycastPod("p", "203.0.113.9", true, "192.0.2.3")}, nil); len(got) > 0 {
		t.Errorf("without vipd: %v", got)
	}
}

func FuzzAnycastAnnotation(f *testing.F) {
	f.Add("203.0.113.9,2001:db8:9::9")
	f.Add(",,%eth0,::ffff:203.0.113.9")
	f.Fuzz(func(t *testing.T, wants string) {
		in := anycastWorld()
		got, _ := Anycasts(in, []AnycastPod{anycastPod("p", wants, true, "192.0.2.3", "2001:db8::3")}, nil)
		for _, a := range got {
			if len(a.Via) != 1 || a.Via[0].Is4() != a.IP.Is4() || !slices.ContainsFunc(in.Config.BGP.Anycast, func(p netip.Prefix) bool { return p.Contains(a.IP) }) {
				t.Errorf("%q: %+v", wants, a)
			}
		}
	})
}
