package plan

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vipod/vipod/elector/internal/claim"
	"github.com/vipod/vipod/elector/internal/config"
	"github.com/vipod/vipod/elector/internal/names"
	"github.com/vipod/vipod/shared/schema"
)

// uid gives a Service a UID as the API server makes them.
func uid(text string) func(*corev1.Service) {
	return func(s *corev1.Service) { s.UID = types.UID(text) }
}

const (
	uidA = "aaaaaaaa-1111-4111-8111-111111111111"
	uidB = "bbbbbbbb-2222-4222-8222-222222222222"
)

// links returns what a plan wants of linkd for a VIP.
func linksOf(t *testing.T, out Output, key string) []schema.LinkSpec {
	t.Helper()
	for _, v := range out.VIPs {
		if v.Key == key {
			return v.Links
		}
	}
	t.Fatalf("no VIP %s in\n%s", key, out.text())
	return nil
}

func lease(ip string) schema.Lease {
	return schema.Lease{Source: schema.SourceDHCP4, Interface: "vip-aaaaaaaa", IP: netip.MustParseAddr(ip), PrefixLength: 24}
}

func TestDHCPServiceAsksForAMacvlan(t *testing.T) {
	in := world(svc("shop/web", uid(uidA), ips("0.0.0.0,::"), note(annotationHostname, "web"), note(annotationBroadcast, "true"),
		note(annotationRPFilter, "2"), note(annotationRequested, "198.51.100.7, 2001:db8::7")))
	in.Config.DHCPAttempts = 3
	out := Plan(in)
	want := []schema.LinkSpec{{
		Kind: schema.LinkMacvlan, Name: "vip-aaaaaaaa", Parent: "eth0", MAC: madeMAC(uidA), RPFilter: 2,
		DHCP: &schema.DHCPSpec{IPv4: true, IPv6: true, Hostname: "web", Broadcast: true, Requested: addrs("198.51.100.7", "2001:db8::7"), Attempts: 3},
	}}
	if diff := cmp.Diff(want, linksOf(t, out, "shop.web"), compareAddr); diff != "" {
		t.Errorf("links (-want +got):\n%s", diff)
	}
	v := out.VIPs[0]
	if !claim.IsToken(v.Token) || len(v.Addresses) != 0 || !v.Eligible || len(out.Groups) != 1 || out.Groups[0].Addresses[0] != v.Token {
		t.Errorf("plan:\n%s", out.text())
	}
	if schema.ValidateMAC(v.Links[0].MAC) != nil || !strings.Contains("26ae", v.Links[0].MAC[1:2]) {
		t.Errorf("hardware address %s is not a locally administered host's", v.Links[0].MAC)
	}
	in.Config.NodeName = "n2"
	if got := Plan(in).VIPs[0]; got.Token != v.Token || got.Links[0].MAC != v.Links[0].MAC {
		t.Error("another node makes another token or hardware address")
	}
}

func TestDHCPServiceOfOneFamilyAsksForIt(t *testing.T) {
	for family, text := range map[corev1.IPFamily]string{corev1.IPv4Protocol: "0.0.0.0", corev1.IPv6Protocol: "::"} {
		out := Plan(world(svc("shop/web", uid(uidA), ips(text), func(s *corev1.Service) { s.Spec.IPFamilies = []corev1.IPFamily{family} })))
		if len(out.Refusals) != 0 || len(out.VIPs) != 1 || !out.VIPs[0].Eligible || len(out.VIPs[0].Links) != 1 {
			t.Errorf("%s:\n%s", family, out.text())
		}
	}
}

func TestLentAddressesAreThoseOfTheVIP(t *testing.T) {
	in := world(svc("shop/web", uid(uidA), ips("0.0.0.0")))
	in.Leases = map[string][]schema.Lease{"shop.web": {lease("198.51.100.77")}}
	out := Plan(in)
	want := []schema.Address{{IP: netip.MustParseAddr("198.51.100.77"), PrefixLength: 32, Interface: "vip-aaaaaaaa", Source: schema.SourceDHCP4}}
	if diff := cmp.Diff(want, out.VIPs[0].Addresses, compareAddr); diff != "" {
		t.Errorf("addresses (-want +got):\n%s", diff)
	}
	if len(out.Groups) != 1 || len(out.Groups[0].Addresses) != 2 {
		t.Errorf("plan:\n%s", out.text())
	}

	in.Leases["shop.web"] = []schema.Lease{lease("198.51.100.2")}
	if out := Plan(in); len(out.VIPs[0].Addresses) != 0 || len(out.Refusals) != 1 || !out.Refusals[0].Here ||
		!strings.Contains(out.Refusals[0].Message, "is an address of node n2") {
		t.Errorf("a node's address was taken from the server:\n%s", out.text())
	}
	in.Leases["shop.web"] = []schema.Lease{{Source: schema.SourceDHCP6, Interface: "vip-aaaaaaaa", IP: netip.MustParseAddr("2001:db8::77"), PrefixLength: 128}}
	if out := Plan(in); len(out.VIPs[0].Addresses) != 0 {
		t.Errorf("an address that was not asked for:\n%s", out.text())
	}
}

func TestALentAddressThatAnotherHostHasIsDeclined(t *testing.T) {
	in := world(svc("shop/web", uid(uidA), ips("0.0.0.0")))
	in.Leases = map[string][]schema.Lease{"shop.web": {lease("198.51.100.77")}}
	in.Taken = map[netip.Addr]bool{netip.MustParseAddr("198.51.100.77"): true}
	out := Plan(in)
	d := linksOf(t, out, "shop.web")[0].DHCP
	if diff := cmp.Diff(addrs("198.51.100.77"), d.Declined, compareAddr); diff != "" || len(out.VIPs[0].Addresses) != 0 || len(out.Refusals) != 1 || !out.Refusals[0].Here {
		t.Errorf("declined (-want +got):\n%s\n%s", diff, out.text())
	}
}

func TestServicesShareAMacvlanThatTheyName(t *testing.T) {
	shared := note(annotationMacvlan, "lan0")
	a := svc("shop/a", uid(uidA), ips("0.0.0.0"), shared)
	b := svc("shop/b", uid(uidB), ips("0.0.0.0"), shared, onPort(81), note(annotationMAC, "00:00:6C:00:00:09"))
	out := Plan(world(a, b))
	la, lb := linksOf(t, out, "shop.a"), linksOf(t, out, "shop.b")
	if diff := cmp.Diff(la, lb, compareAddr); diff != "" || la[0].MAC != "00:00:6c:00:00:09" || len(out.Groups) != 1 {
		t.Errorf("links differ:\n%s\n%s", diff, out.text())
	}
}

func TestLinksThatAreRefused(t *testing.T) {
	web := func(changes ...func(*corev1.Service)) *corev1.Service {
		return svc("shop/web", append([]func(*corev1.Service){uid(uidB), ips("0.0.0.0,198.51.100.80")}, changes...)...)
	}
	old := func(changes ...func(*corev1.Service)) *corev1.Service {
		return svc("shop/old", append([]func(*corev1.Service){uid(uidA), ips("0.0.0.0"), onPort(81)}, changes...)...)
	}
	for _, test := range []struct {
		name     string
		services []*corev1.Service
		why      string
	}{
		{"a link that another Service made for itself", []*corev1.Service{old(), web(note(annotationMacvlan, "vip-aaaaaaaa"))}, "link vip-aaaaaaaa belongs to Service shop/old"},
		{"a name that is none", []*corev1.Service{web(note(annotationMacvlan, "a/b"))}, "is not the name of a link"},
		{"a group's hardware address", []*corev1.Service{web(note(annotationMAC, "01:00:5e:00:00:01"))}, "is not a host's Ethernet address"},
		{"the hardware address of another link", []*corev1.Service{old(note(annotationMAC, "02:00:00:00:00:09")), web(note(annotationMAC, "02:00:00:00:00:09"))}, "belongs to link vip-aaaaaaaa"},
		{"the node's own hardware address", []*corev1.Service{web(note(annotationMAC, "02:00:00:00:00:02"))}, "is that of link eth0"},
		{"a shared port", []*corev1.Service{old(note(annotationMacvlan, "lan0"), onPort(80)), web(note(annotationMacvlan, "lan0"))}, "port 80/TCP"},
		{"another interface", []*corev1.Service{old(note(annotationMacvlan, "lan0")), web(note(annotationMacvlan, "lan0"), note(annotationInterface, "eth1"))}, "is on another interface"},
	} {
		t.Run(test.name, func(t *testing.T) {
			in := world(test.services...)
			in.Links[1].MAC = "02:00:00:00:00:02"
			out := Plan(in)
			if len(out.Refusals) != 1 || out.Refusals[0].Name != "web" || out.Refusals[0].Reason != ReasonLinkRefused || !strings.Contains(out.Refusals[0].Message, test.why) {
				t.Fatalf("plan:\n%s", out.text())
			}
			for _, v := range out.VIPs {
				if v.Key == "shop.web" && (len(v.Addresses) != 1 || len(v.Links) != 0 || v.Token.IsValid()) {
					t.Errorf("the fixed address is not served:\n%s", out.text())
				}
			}
		})
	}
}

func TestVLANServiceIsOnItsVLAN(t *testing.T) {
	in := world(svc("shop/web", uid(uidA), ips("198.51.100.80"), note(annotationVLAN, "eth1.200")))
	out := Plan(in)
	want := []schema.LinkSpec{{Kind: schema.LinkVLAN, Name: "eth1.200", Parent: "eth1", VLAN: 200}}
	if diff := cmp.Diff(want, linksOf(t, out, "shop.web"), compareAddr); diff != "" || !out.VIPs[0].Eligible || out.VIPs[0].Addresses[0].Interface != "eth1.200" {
		t.Errorf("links (-want +got):\n%s\n%s", diff, out.text())
	}
	for vlan, why := range map[string]string{"eth2.200": "interface eth2 is down", "eth9.200": "interface eth9 is not on this node"} {
		in.Services[0].Annotations[annotationVLAN] = vlan
		if v := Plan(in).VIPs[0]; v.Eligible || v.Why != why {
			t.Errorf("%s: %s", vlan, v.text())
		}
	}
	in.Services[0].Annotations[annotationVLAN] = "eth1.200"
	in.Linkd = "linkd does not answer"
	if v := Plan(in).VIPs[0]; v.Eligible || v.Why != in.Linkd {
		t.Errorf("without linkd: %s", v.text())
	}
	in.Linked = map[string]bool{"shop.web": true}
	if v := Plan(in).VIPs[0]; !v.Eligible {
		t.Errorf("with its links already there: %s", v.text())
	}
}

func TestDHCPOnAVLAN(t *testing.T) {
	in := world(svc("shop/web", uid(uidA), ips("0.0.0.0"), note(annotationVLAN, "eth1.200")))
	l := linksOf(t, Plan(in), "shop.web")
	if len(l) != 2 || l[0].Name != "eth1.200" || l[1].Parent != "eth1.200" || l[1].DHCP == nil {
		t.Errorf("links %+v", l)
	}
}

func TestVLANsThatMakeNoSense(t *testing.T) {
	for _, vlan := range []string{"eth0", "eth0.", ".200", "eth0.0", "eth0.4095", "eth0.0200", "eth0.+2", "eth0.x", "a/b.2", "averyverylongname.2", "eth0.99999999999999999999"} {
		out := Plan(world(svc("shop/web", ips("198.51.100.80"), note(annotationVLAN, vlan))))
		if len(out.VIPs) != 0 || len(out.Refusals) != 1 || out.Refusals[0].Reason != ReasonInterfaceRefused {
			t.Errorf("%q:\n%s", vlan, out.text())
		}
	}
}

func TestNamesStandForAddresses(t *testing.T) {
	in := world(svc("shop/web", uid(uidA), ips("Web.example.com")))
	out := Plan(in)
	if diff := cmp.Diff([]string{"web.example.com"}, out.Names); diff != "" || len(out.VIPs)+len(out.Refusals) != 0 {
		t.Errorf("before an answer: names %s\n%s", diff, out.text())
	}
	in.Names = map[string]names.Answer{"web.example.com": {Problem: "no such host"}}
	if out := Plan(in); len(out.Refusals) != 1 || out.Refusals[0].Reason != ReasonNameUnresolved {
		t.Errorf("without an answer:\n%s", out.text())
	}
	in.Names["web.example.com"] = names.Answer{IPv4: addrs("198.51.100.80", "198.51.100.2"), IPv6: addrs("2001:db8::80"), Problem: "timeout"}
	out = Plan(in)
	want := []schema.Address{
		{IP: netip.MustParseAddr("198.51.100.80"), PrefixLength: 32, Interface: "eth0", Source: schema.SourceDNS},
		{IP: netip.MustParseAddr("2001:db8::80"), PrefixLength: 128, Interface: "eth0", Source: schema.SourceDNS},
	}
	if diff := cmp.Diff(want, out.VIPs[0].Addresses, compareAddr); diff != "" || !claim.IsToken(out.VIPs[0].Pin) || !out.VIPs[0].Eligible {
		t.Errorf("addresses (-want +got):\n%s\n%s", diff, out.text())
	}
	if len(out.Refusals) != 1 || !strings.Contains(out.Refusals[0].Message, "is an address of node n2") {
		t.Errorf("a node's address by name:\n%s", out.text())
	}
}

func TestNameOfTheControlPlane(t *testing.T) {
	for mode, want := range map[config.NameMode][]netip.Addr{
		config.NameFirst: addrs("198.51.100.80"), config.NameIPv4: addrs("198.51.100.80"), config.NameIPv6: addrs("2001:db8::80"),
		config.NameDual: addrs("198.51.100.80", "2001:db8::80"),
	} {
		in := world(svc("shop/web", ips("198.51.100.80")))
		in.Config.ControlPlane, in.Config.NameMode = config.ControlPlane{Enabled: true, Names: []string{"api.example.com"}}, mode
		if out := Plan(in); out.ControlPlane.Eligible || len(out.Names) != 1 {
			t.Errorf("%s: eligible without an address", mode)
		}
		in.Names = map[string]names.Answer{"api.example.com": {IPv4: addrs("198.51.100.80"), IPv6: addrs("2001:db8::80")}}
		out := Plan(in)
		var got []netip.Addr
		for _, a := range out.ControlPlane.Addresses {
			got = append(got, a.IP)
		}
		if diff := cmp.Diff(want, got, compareAddr, cmpopts.EquateEmpty()); diff != "" || !out.ControlPlane.Eligible {
			t.Errorf("%s (-want +got):\n%s", mode, diff)
		}
		if taken := len(out.VIPs) > 0; taken == (mode != config.NameIPv6) {
			t.Errorf("%s: a Service has the control plane's address: %t", mode, taken)
		}
	}
}

func TestDynamicDNSAsksDHCPByName(t *testing.T) {
	out := Plan(world(svc("shop/web", uid(uidA), ips("web.example.com"), note(annotationDDNS, "true"))))
	l := linksOf(t, out, "shop.web")
	if len(l) != 1 || !l[0].DHCP.IPv4 || !l[0].DHCP.IPv6 || l[0].DHCP.Hostname != "web" || len(out.Names) != 0 {
		t.Errorf("links %+v", l)
	}
	if out := Plan(world(svc("shop/web", ips("web.example.com"), note(annotationDDNS, "perhaps")))); len(out.VIPs) != 0 || len(out.Refusals) != 1 {
		t.Errorf("plan:\n%s", out.text())
	}
}
