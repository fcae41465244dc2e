package plan

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vipod/vipod/elector/internal/claim"
	"github.com/vipod/vipod/elector/internal/config"
	"github.com/vipod/vipod/elector/internal/names"
	"github.com/vipod/vipod/shared/schema"
)

// byDHCP is a world whose control plane's VIP DHCP lends.
func byDHCP(mode config.NameMode) Input {
	in := world()
	cp := &in.Config.ControlPlane
	cp.Enabled, cp.DDNS, cp.Names = true, true, []string{"api.example.com"}
	in.Config.NameMode, in.Config.DHCPAttempts = mode, 3
	return in
}

func TestControlPlaneAsksDHCPByItsName(t *testing.T) {
	in := byDHCP(config.NameDual)
	in.Names = map[string]names.Answer{"api.example.com": {IPv4: addrs("198.51.100.77"), IPv6: addrs("2001:db8::77")}}
	v := Plan(in).ControlPlane
	want := []schema.LinkSpec{{
		Kind: schema.LinkMacvlan, Name: "vip-control", Parent: "eth0", MAC: madeMAC("control plane api.example.com"),
		DHCP: &schema.DHCPSpec{IPv4: true, IPv6: true, Hostname: "api", Attempts: 3, Requested: addrs("198.51.100.77", "2001:db8::77")},
	}}
	if diff := cmp.Diff(want, v.Links, compareAddr); diff != "" {
		t.Errorf("links (-want +got):\n%s", diff)
	}
	if !v.Eligible || len(v.Addresses) != 0 || !claim.IsToken(v.Token) {
		t.Errorf("before anything is lent: %s", v.text())
	}
	in.Config.NodeName = "n2"
	if other := Plan(in).ControlPlane; other.Links[0].MAC != v.Links[0].MAC {
		t.Error("another node asks as another host")
	}
}

func TestControlPlaneHasWhatDHCPLent(t *testing.T) {
	lent := []schema.Lease{
		{Source: schema.SourceDHCP6, Interface: "vip-control", IP: netip.MustParseAddr("2001:db8::77"), PrefixLength: 128},
		{Source: schema.SourceDHCP4, Interface: "vip-control", IP: netip.MustParseAddr("198.51.100.77"), PrefixLength: 24},
		{Source: schema.SourceDHCP4, Interface: "vip-other", IP: netip.MustParseAddr("198.51.100.78"), PrefixLength: 24},
	}
	for mode, want := range map[config.NameMode]string{
		config.NameFirst: "198.51.100.77/32@vip-control",
		config.NameIPv4:  "198.51.100.77/32@vip-control",
		config.NameIPv6:  "2001:db8::77/128@vip-control",
		config.NameDual:  "198.51.100.77/32@vip-control,2001:db8::77/128@vip-control",
	} {
		in := byDHCP(mode)
		in.Leases = map[string][]schema.Lease{schema.ControlPlaneKey: lent}
		want = "_control-plane " + want + " group=-1 eligible"
		if got := Plan(in).ControlPlane.text(); got != want {
			t.Errorf("%s: %s, want %s", mode, got, want)
		}
	}
}

func TestControlPlaneByDHCPNeedsItsLinkAndLinkd(t *testing.T) {
	for what, change := range map[string]func(*Input){
		"interface eth0 is down":   func(in *Input) { in.Links[1].Up = false },
		"no default route":         func(in *Input) { in.Links = in.Links[:1] },
		"linkd does not answer":    func(in *Input) { in.Linkd = "linkd does not answer" },
		"API server on this node ": func(in *Input) { in.Healthy = false },
	} {
		in := byDHCP(config.NameFirst)
		change(&in)
		if v := Plan(in).ControlPlane; v.Eligible || !strings.Contains(v.Why, what) {
			t.Errorf("eligible: %t, %q, want %q", v.Eligible, v.Why, what)
		}
	}
	in := byDHCP(config.NameFirst)
	in.Linkd, in.Linked = "linkd does not answer", map[string]bool{schema.ControlPlaneKey: true}
	if v := Plan(in).ControlPlane; !v.Eligible {
		t.Errorf("it has its link, but: %s", v.Why)
	}
}

func TestTheControlPlanesLinkIsNoServices(t *testing.T) {
	in := byDHCP(config.NameFirst)
	in.Services = append(in.Services, svc("shop/web", uid(uidA), ips("0.0.0.0"), note(annotationMacvlan, controlPlaneLink)))
	out := Plan(in)
	if len(out.VIPs) != 0 || len(out.Refusals) != 1 || !strings.Contains(out.Refusals[0].Message, "belongs to the control plane's VIP") {
		t.Errorf("plan:\n%s", out.text())
	}
}
