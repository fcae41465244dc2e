package plan

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/vipod/vipod/elector/internal/config"
	"github.com/vipod/vipod/shared/schema"
)

// tunnelled is a world in WireGuard mode.
func tunnelled(services ...*corev1.Service) Input {
	in := world(services...)
	in.Config.Mode = config.ModeWireGuard
	in.Config.Components = []string{"egressd", "vipd"}
	in.Tunnels = []schema.Tunnel{
		{Name: "wg4", VIP: netip.MustParsePrefix("192.0.2.100/28")}, {Name: "wg6", VIP: netip.MustParsePrefix("2001:db8:9::100/128")},
	}
	return in
}

func TestVIPsAreOnTheirTunnels(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Input)
		want   string
	}{
		{"served", func(*Input) {}, `
			default.web 192.0.2.100/28@wg4,2001:db8:9::100/128@wg6 group=0 eligible
			group 0 [192.0.2.100 2001:db8:9::100] eligible=true candidates=any`},
		{"no election is asked for and there is one", func(in *Input) { in.Config.Elect.Services = false }, `
			default.web 192.0.2.100/28@wg4,2001:db8:9::100/128@wg6 group=0 eligible
			group 0 [192.0.2.100 2001:db8:9::100] eligible=true candidates=any`},
		{"one tunnel is missing", func(in *Input) { in.Tunnels = in.Tunnels[:1] }, `
			default.web 192.0.2.100/28@wg4,2001:db8:9::100/128@ group=0 not here: no tunnel of egressd's on this node has the vip 2001:db8:9::100
			group 0 [192.0.2.100 2001:db8:9::100] eligible=false candidates=any`},
		{"the file is bad", func(in *Input) { in.Tunnels, in.TunnelProblem = nil, "tunnels: it is not YAML" }, `
			default.web 192.0.2.100/32@,2001:db8:9::100/128@ group=0 not here: no tunnel of egressd's on this node has the vip 192.0.2.100: tunnels: it is not YAML
			group 0 [192.0.2.100 2001:db8:9::100] eligible=false candidates=any`},
		{"egressd is away", func(in *Input) { in.NoEgressd = "egressd does not answer" }, `
			default.web 192.0.2.100/28@wg4,2001:db8:9::100/128@wg6 group=0 not here: egressd does not answer
			group 0 [192.0.2.100 2001:db8:9::100] eligible=false candidates=any`},
		{"egressd is switched off", func(in *Input) { in.Config.Components = []string{"vipd"} }, `
			default.web 192.0.2.100/32@,2001:db8:9::100/128@ group=0 not here: egressd is switched off on this node
			group 0 [192.0.2.100 2001:db8:9::100] eligible=false candidates=any`},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := tunnelled(svc("default/web", ips("192.0.2.100,2001:db8:9::100")))
			c.change(&in)
			check(t, in, c.want)
			for _, v := range Plan(in).VIPs {
				if diff := cmp.Diff([]schema.Announce{schema.AnnounceWireGuard}, v.Announce); diff != "" || v.Spread {
					t.Errorf("spread: %t, announced (-want +got):\n%s", v.Spread, diff)
				}
			}
		})
	}
}

// endpointSlice is a slice of "default/web" with its ports by name.
func endpointSlice(suffix string, ports map[string]int32, points ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
	s := slice(svc("default/web"), suffix, points...)
	tcp := corev1.ProtocolTCP
	for name, number := range ports {
		s.Ports = append(s.Ports, discoveryv1.EndpointPort{Name: &name, Port: &number, Protocol: &tcp})
	}
	return s
}

// with gives an endpoint its addresses.
func with(e discoveryv1.Endpoint, addresses ...string) discoveryv1.Endpoint {
	e.Addresses = addresses
	return e
}

func TestPortsGoToTheirEndpoints(t *testing.T) {
	slices := []*discoveryv1.EndpointSlice{
		endpointSlice("a", map[string]int32{"http": 8080, "other": 9}, with(at("n1"), "203.0.113.2"), with(point("n2", false, true, true), "203.0.113.4")),
		endpointSlice("b", map[string]int32{"http": 8081}, with(at("n2"), "2001:db8:0:2::3"), with(point("n3", false, false, false), "203.0.113.5")),
	}
	leaving := []*discoveryv1.EndpointSlice{
		endpointSlice("a", map[string]int32{"http": 8080}, with(point("n1", false, true, true), "203.0.113.2"), with(point("n1", false, false, true), "203.0.113.3")),
	}
	sockets := func(list ...string) (out []netip.AddrPort) {
		for _, s := range list {
			out = append(out, netip.MustParseAddrPort(s))
		}
		return out
	}
	for _, c := range []struct {
		name   string
		change func(*corev1.Service)
		slices []*discoveryv1.EndpointSlice
		keep   bool
		want   []netip.AddrPort
	}{
		{"those that are ready, of both families, by the port's name", func(*corev1.Service) {}, slices, false, sockets("203.0.113.2:8080", "[2001:db8:0:2::3]:8081")},
		{"policy Local: those of this node", local, slices, true, sockets("203.0.113.2:8080")},
		{"those that terminate and serve, if none is ready", func(*corev1.Service) {}, leaving, false, sockets("203.0.113.2:8080")},
		{"none", func(*corev1.Service) {}, nil, false, nil},
		{"another protocol", func(s *corev1.Service) { s.Spec.Ports[0].Protocol = corev1.ProtocolUDP }, slices, false, nil},
		{"a port that no slice has", func(s *corev1.Service) { s.Spec.Ports[0].Name = "metrics" }, slices, false, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := svc("default/web", ips("192.0.2.100"), func(s *corev1.Service) { s.Spec.Ports[0].Name = "http" }, c.change)
			in := tunnelled(s)
			in.Slices = c.slices
			if c.want == nil {
				s.Annotations[annotationEndpointless] = "true"
			}
			want := &schema.WireGuard{Forwards: []schema.Forward{{
				Port: schema.Port{Protocol: schema.Protocol(s.Spec.Ports[0].Protocol), Port: 80}, KeepSource: c.keep, Backends: c.want,
			}}}
			if diff := cmp.Diff(want, Plan(in).VIPs[0].WireGuard, cmpopts.EquateComparable(netip.AddrPort{}), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestControlPlaneIsReachedThroughItsTunnel(t *testing.T) {
	in := tunnelled()
	in.Config.ControlPlane.Enabled, in.Config.ControlPlane.Port = true, 6443
	in.Config.ControlPlane.Addresses = addrs("192.0.2.100")
	v := Plan(in).ControlPlane
	if got := v.text(); got != "_control-plane 192.0.2.100/28@wg4 group=-1 eligible" {
		t.Error(got)
	}
	if f := v.WireGuard.Forwards; len(f) != 1 || f[0].Port != (schema.Port{Protocol: schema.TCP, Port: 6443}) || len(f[0].Backends) > 0 {
		t.Errorf("reached are %v", f)
	}
	in.Config.ControlPlane.Balance.Enabled, in.Config.ControlPlane.Balance.Port = true, 443
	if f := Plan(in).ControlPlane.WireGuard.Forwards; len(f) != 1 || f[0].Port.Port != 443 {
		t.Errorf("with load balancing reached are %v", f)
	}
	in.Tunnels = nil
	if v := Plan(in).ControlPlane; v.Eligible {
		t.Error("served without a tunnel")
	}
}
