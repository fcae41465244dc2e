package plan

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vipod/vipod/shared/schema"
)

func TestConnectionsAreSpreadOverReadyNodesThatAnswer(t *testing.T) {
	in := world()
	in.Config.ControlPlane.Enabled, in.Config.ControlPlane.Port = true, 6443
	in.Config.ControlPlane.Addresses = addrs("198.51.100.9")
	for i := range in.Nodes {
		in.Nodes[i].ControlPlane, in.Nodes[i].Ready = true, i != 1
		in.Nodes[i].Internal = append(in.Nodes[i].Addresses, addrs("198.51.100.9")...)
	}
	if v := Plan(in).ControlPlane; v.Balance != nil {
		t.Errorf("switched off, but %v", v.Balance)
	}
	in.Config.ControlPlane.Balance.Enabled, in.Config.ControlPlane.Balance.Port = true, 443
	server := netip.MustParseAddrPort
	in.Up = map[netip.AddrPort]bool{server("198.51.100.3:6443"): true, server("[2001:db8::1]:6443"): true, server("198.51.100.2:6443"): true}
	out := Plan(in)
	want := []netip.AddrPort{server("198.51.100.1:6443"), server("198.51.100.3:6443"), server("[2001:db8::1]:6443"), server("[2001:db8::3]:6443")}
	if !slices.Equal(want, out.Backends) {
		t.Errorf("asked are %v, want %v", out.Backends, want)
	}
	if b := out.ControlPlane.Balance; b.Port != 443 || !slices.Equal(b.Backends, []netip.AddrPort{server("198.51.100.3:6443"), server("[2001:db8::1]:6443")}) {
		t.Errorf("spread over %v", b)
	}
}

func TestControlPlane(t *testing.T) {
	for _, test := range []struct {
		name       string
		change     func(*Input)
		candidates string
		want       string
	}{
		{"served", func(*Input) {}, "any", "_control-plane 198.51.100.9/32@eth0,2001:db8::9/128@eth0 group=-1 eligible"},
		{"the API server does not answer", func(in *Input) { in.Healthy = false }, "any",
			"_control-plane 198.51.100.9/32@eth0,2001:db8::9/128@eth0 group=-1 not here: the API server on this node does not answer"},
		{"the link is down", func(in *Input) { in.Links[1].Up = false }, "any",
			"_control-plane 198.51.100.9/32@eth0,2001:db8::9/128@eth0 group=-1 not here: interface eth0 is down"},
		{"no default route", func(in *Input) { in.Links = in.Links[:1] }, "any",
			"_control-plane 198.51.100.9/32@,2001:db8::9/128@ group=-1 not here: this node has no default route that would tell the interface"},
		{"vip_interface, not that of Services", func(in *Input) { in.Config.Interface, in.Config.ServicesInterface = "eth1", "eth0" }, "any",
			"_control-plane 198.51.100.9/32@eth1,2001:db8::9/128@eth1 group=-1 eligible"},
		{"labelled", func(in *Input) { in.Nodes[0].ControlPlane, in.Nodes[2].ControlPlane = true, true }, "n1,n3",
			"_control-plane 198.51.100.9/32@eth0,2001:db8::9/128@eth0 group=-1 eligible"},
		{"others are labelled", func(in *Input) { in.Nodes[1].ControlPlane = true }, "n2",
			"_control-plane 198.51.100.9/32@eth0,2001:db8::9/128@eth0 group=-1 not here: node n1 is not labelled node-role.kubernetes.io/control-plane as other nodes are"},
		{"excluded from load balancers, as kubeadm does", func(in *Input) { in.Nodes[0].Excluded = true }, "any",
			"_control-plane 198.51.100.9/32@eth0,2001:db8::9/128@eth0 group=-1 eligible"},
		{"Services are off", func(in *Input) { in.Config.Services.Enabled = false }, "any",
			"_control-plane 198.51.100.9/32@eth0,2001:db8::9/128@eth0 group=-1 eligible"},
	} {
		t.Run(test.name, func(t *testing.T) {
			in := world()
			in.Config.ControlPlane.Enabled = true
			in.Config.ControlPlane.Addresses = addrs("2001:db8::9", "198.51.100.9")
			test.change(&in)
			v := Plan(in).ControlPlane
			if diff := cmp.Diff([2]string{test.want, test.candidates}, [2]string{v.text(), list(v.Candidates)}); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if v.Kind != schema.KindControlPlane {
				t.Errorf("kind %s", v.Kind)
			}
		})
	}
	if v := Plan(world()).ControlPlane; v != nil {
		t.Errorf("switched off, but %s", v.text())
	}
}
