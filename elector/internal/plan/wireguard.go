package plan

import (
	"net/netip"
	"slices"

	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/vipod/vipod/elector/internal/config"
	"github.com/vipod/vipod/shared/schema"
)

// WireGuard mode: a VIP is on the link of a tunnel, whose far end sends here
// what is for it. One node owns it, as with ARP and NDP, since the far end has
// one session. Which VIPs have a tunnel is in egressd's file, of which egressd
// reports all but the keys.

// tunnels says whether VIPs are reached through tunnels.
func (p *planner) tunnels() bool { return p.in.Config.Mode == config.ModeWireGuard }

// placeTunnel returns the link of the address's tunnel.
func (p *planner) placeTunnel(ip netip.Addr) (schema.Address, string) {
	if why := p.lacksDaemon(); why != "" {
		return unplaced(ip), why
	}
	for _, t := range p.in.Tunnels {
		if t.VIP.Addr() == ip {
			return schema.Address{IP: ip, PrefixLength: t.VIP.Bits(), Interface: t.Name, Source: schema.SourceStatic}, ""
		}
	}
	why := "no tunnel of egressd's on this node has the vip " + ip.String()
	if p.in.TunnelProblem != "" {
		why += ": " + p.in.TunnelProblem
	}
	return unplaced(ip), why
}

// placeOne returns where one address of the control plane's goes.
func (p *planner) placeOne(ip netip.Addr) (schema.Address, string) {
	if p.tunnels() {
		return p.placeTunnel(ip)
	}
	return p.links.place(ip, p.in.Config.Interface)
}

// forwards returns what is reached through the tunnel of a Service's VIP, or of
// the control plane's for nil: there the API server of this node answers, or
// egressd spreads the connections.
func (p *planner) forwards(s *service) *schema.WireGuard {
	w := &schema.WireGuard{Forwards: []schema.Forward{}}
	if s == nil {
		port := p.in.Config.ControlPlane.Port
		if b := p.in.Config.ControlPlane.Balance; b.Enabled {
			port = b.Port
		}
		w.Forwards = append(w.Forwards, schema.Forward{Port: schema.Port{Protocol: schema.TCP, Port: port}})
		return w
	}
	for _, port := range s.Spec.Ports {
		f := schema.Forward{
			Port:       schema.Port{Protocol: schema.Protocol(protocol(port)), Port: uint16(port.Port)},
			KeepSource: s.local(),
		}
		f.Backends = p.backends(s, port.Name, f.Protocol)
		w.Forwards = append(w.Forwards, f)
	}
	return w
}

// backends returns the endpoints of a port: those that are ready, or those that
// serve while they terminate if none is. With policy Local they are this
// node's.
func (p *planner) backends(s *service, port string, proto schema.Protocol) []netip.AddrPort {
	var ready, leaving []netip.AddrPort
	for _, slice := range p.slicesOf(s) {
		n := portOf(slice, port, proto)
		if n == 0 {
			continue
		}
		for i := range slice.Endpoints {
			e := &slice.Endpoints[i]
			if s.local() && (e.NodeName == nil || *e.NodeName != p.in.Config.NodeName) {
				continue
			}
			isReady, isLeaving := serving(e)
			for _, text := range e.Addresses {
				ip, err := netip.ParseAddr(text)
				switch {
				case err != nil || ip.Zone() != "" || ip.Is4In6():
				case isReady:
					ready = append(ready, netip.AddrPortFrom(ip, n))
				case isLeaving:
					leaving = append(leaving, netip.AddrPortFrom(ip, n))
				}
			}
		}
	}
	if len(ready) == 0 {
		ready = leaving
	}
	slices.SortFunc(ready, netip.AddrPort.Compare)
	ready = slices.Compact(ready)
	return ready[:min(len(ready), schema.MaxBackends)]
}

// portOf is the number that a Service's port has in a slice, 0 for none.
func portOf(slice *discoveryv1.EndpointSlice, name string, proto schema.Protocol) uint16 {
	for _, p := range slice.Ports {
		switch {
		case p.Port == nil || *p.Port < 1 || *p.Port > 65535:
		case name != "" && (p.Name == nil || *p.Name != name), name == "" && p.Name != nil && *p.Name != "":
		case p.Protocol == nil && proto == schema.TCP, p.Protocol != nil && schema.Protocol(*p.Protocol) == proto:
			return uint16(*p.Port)
		}
	}
	return 0
}

// slicesOf returns the slices of a Service.
func (p *planner) slicesOf(s *service) []*discoveryv1.EndpointSlice {
	if p.slices == nil {
		p.slices = map[name][]*discoveryv1.EndpointSlice{}
		for _, slice := range p.in.Slices {
			if slice.AddressType != discoveryv1.AddressTypeFQDN {
				key := name{slice.Namespace, slice.Labels[discoveryv1.LabelServiceName]}
				p.slices[key] = append(p.slices[key], slice)
			}
		}
	}
	return p.slices[name{s.Namespace, s.Name}]
}
