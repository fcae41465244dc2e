package plan

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vipod/vipod/elector/internal/config"
	"github.com/vipod/vipod/shared/schema"
)

func TestWhereAnAddressGoes(t *testing.T) {
	links := func(change func(*Input)) Input {
		in := world()
		change(&in)
		return in
	}
	same := func(*Input) {}
	noDefault := func(in *Input) { in.Links[1].DefaultIPv4, in.Links[1].DefaultIPv6 = false, false }
	auto := func(in *Input) { in.Config.Subnet = config.Subnet{Auto: true, IPv4: 32, IPv6: 128} }
	for _, test := range []struct {
		name   string
		ip     string
		want   string
		change func(*Input)
		// where is address/length@interface, why not "" says why not here.
		where, why string
	}{
		{"the default route's link", "198.51.100.80", "", same, "198.51.100.80/32@eth0", ""},
		{"a named link", "198.51.100.80", "eth1", same, "198.51.100.80/32@eth1", ""},
		{"a link that is not there", "198.51.100.80", "eth9", same, "198.51.100.80/32@", "interface eth9 is not on this node"},
		{"a link that is down", "192.0.2.80", "eth2", same, "192.0.2.80/32@eth2", "interface eth2 is down"},
		{"a link that may be down", "192.0.2.80", "eth2", func(in *Input) { in.Config.AllowInterfaceDown = true }, "192.0.2.80/32@eth2", ""},
		{"no default route", "198.51.100.80", "", noDefault, "198.51.100.80/32@", "this node has no default route that would tell the interface"},
		{"no default route and a named link", "198.51.100.80", "eth0", noDefault, "198.51.100.80/32@eth0", ""},
		{"no links at all", "198.51.100.80", "auto", func(in *Input) { in.Links = nil }, "198.51.100.80/32@", "this node has no default route that would tell the interface"},
		{"the default route's link is down", "198.51.100.80", "", func(in *Input) { in.Links[1].Up = false }, "198.51.100.80/32@eth0", "interface eth0 is down"},
		{"each family its default route", "2001:db8::80", "", func(in *Input) { in.Links[1].DefaultIPv6, in.Links[2].DefaultIPv6 = false, true }, "2001:db8::80/128@eth1", ""},
		{"the other family's default route", "2001:db8::80", "", func(in *Input) { in.Links[1].DefaultIPv6 = false }, "2001:db8::80/128@eth0", ""},
		{"of two default routes the one that is up", "198.51.100.80", "", func(in *Input) { in.Links[1].Up, in.Links[2].DefaultIPv4 = false, true }, "198.51.100.80/32@eth1", ""},
		{"of two default routes the first link", "198.51.100.80", "", func(in *Input) { in.Links[2].DefaultIPv4 = true }, "198.51.100.80/32@eth0", ""},
		{"auto finds the subnet", "203.0.113.80", "auto", same, "203.0.113.80/32@eth1", ""},
		{"auto takes the narrowest subnet", "203.0.113.80", "auto", func(in *Input) { in.Links[1].Addresses = prefixes("203.0.0.1/16") }, "203.0.113.80/32@eth1", ""},
		{"auto finds a link that is down", "192.0.2.80", "auto", same, "192.0.2.80/32@eth2", "interface eth2 is down"},
		{"auto falls back to the default route", "10.1.1.1", "auto", same, "10.1.1.1/32@eth0", ""},
		{"configured lengths", "198.51.100.80", "", func(in *Input) { in.Config.Subnet = config.Subnet{IPv4: 24, IPv6: 64} }, "198.51.100.80/24@eth0", ""},
		{"configured length of IPv6", "2001:db8::80", "", func(in *Input) { in.Config.Subnet = config.Subnet{IPv4: 24, IPv6: 64} }, "2001:db8::80/64@eth0", ""},
		{"the subnet's length", "198.51.100.80", "", auto, "198.51.100.80/24@eth0", ""},
		{"the subnet's length of IPv6", "2001:db8::80", "", auto, "2001:db8::80/64@eth0", ""},
		{"no subnet to take the length of", "203.0.113.80", "eth0", auto, "203.0.113.80/32@eth0",
			"no subnet of interface eth0 holds 203.0.113.80, so that vip_subnet auto has no length for it"},
	} {
		t.Run(test.name, func(t *testing.T) {
			a, why := newLinks(links(test.change)).place(addrs(test.ip)[0], test.want)
			got := [2]string{a.Prefix().String() + "@" + a.Interface, why}
			if diff := cmp.Diff([2]string{test.where, test.why}, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if a.Source != schema.SourceStatic {
				t.Errorf("source %q", a.Source)
			}
		})
	}
}

func TestWhichInterfaceAServiceWants(t *testing.T) {
	for _, test := range []struct{ name, annotation, services, all, want string }{
		{"nothing is said", "", "", "", "eth0"},
		{"vip_interface", "", "", "eth1", "eth1"},
		{"vip_servicesinterface", "", "eth0", "eth1", "eth0"},
		{"vip_servicesinterface auto", "", "auto", "eth0", "eth1"},
		{"the annotation", "eth1", "eth0", "eth0", "eth1"},
		{"the annotation auto", "auto", "eth0", "eth0", "eth1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			in := world(svc("shop/web", ips("203.0.113.80"), note(annotationInterface, test.annotation)))
			in.Config.ServicesInterface, in.Config.Interface = test.services, test.all
			if got := Plan(in).VIPs[0].Addresses[0].Interface; got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
}
