package plan

import (
	"net/netip"
	"slices"

	"github.com/vipod/vipod/elector/internal/config"
	"github.com/vipod/vipod/shared/ownership"
	"github.com/vipod/vipod/shared/schema"
)

// Modes for networks that route. There an address needs no link of this node:
// routers send what is for it here, and kube-proxy passes it on.
//
// Without an election a VIP is spread: every node that can serve it announces
// it, and nobody owns it.

// annotationElect asks for one owner, where per_service_election_on_demand
// says that it may.
const annotationElect = "kube-vip.io/forcePerServiceElection"

// spread says whether the Service has no owner.
func (p *planner) spread(s *service) bool {
	c := p.in.Config
	return c.Mode.Routes() && !p.tunnels() && !c.Elect.Services && (!c.Elect.OnDemand || !isTrue(s.Service, annotationElect))
}

// placeRouted is place in the mode of this node.
func (p *planner) placeRouted(s *service, ip netip.Addr, want string) (schema.Address, string) {
	c := p.in.Config
	if p.tunnels() {
		return p.placeTunnel(ip)
	}
	if c.Mode == config.ModeBGP && !c.BGP.Attach || c.Mode == config.ModeTable {
		return unplaced(ip), p.lacksDaemon()
	}
	a, why := p.place(s, ip, want)
	if why == "" {
		why = p.links.ownAddress(ip)
	}
	if c.Mode == config.ModeBGP && why == "" {
		why = p.lacksDaemon()
	}
	return a, why
}

// unplaced is an address that no link gets.
func unplaced(ip netip.Addr) schema.Address {
	return schema.Address{IP: ip, PrefixLength: ip.BitLen(), Source: schema.SourceStatic}
}

// lacksDaemon says which daemon that announces VIPs is switched off here.
func (p *planner) lacksDaemon() string {
	need := map[config.Mode]string{config.ModeBGP: ownership.Bgpd, config.ModeTable: ownership.Vipd, config.ModeWireGuard: ownership.Egressd}[p.in.Config.Mode]
	if slices.Contains(p.in.Config.Components, need) {
		return ""
	}
	return need + " is switched off on this node"
}

// announce fills in how the VIP is made known; with ARP and NDP its document
// says so by its addresses.
func (p *planner) announce(v *VIP, s *service) {
	c := p.in.Config
	switch c.Mode {
	case config.ModeBGP:
		v.Announce = []schema.Announce{schema.AnnounceBGP}
		if s != nil {
			v.BGP = p.attributes(s)
		}
	case config.ModeWireGuard:
		v.Announce = []schema.Announce{schema.AnnounceWireGuard}
		v.WireGuard = p.forwards(s)
	case config.ModeTable:
		v.Announce = []schema.Announce{schema.AnnounceRoute}
		want := c.Interface
		if s != nil {
			want = wantedLink(c, s)
		}
		for _, a := range v.Addresses {
			link, why := p.links.place(a.IP, want)
			if why != "" {
				v.Why = why
				return
			}
			v.Route = &schema.Route{Type: c.Table.Type, Interface: link.Interface}
		}
	}
}

// spreadAll returns the VIPs of Services that nobody owns.
func (p *planner) spreadAll(services []*service) {
	for _, s := range services {
		v := s.vip(p.placeAll([]*service{s}))
		v.Group, v.Spread, v.Firewall = NoGroup, true, p.firewall(s)
		v.Why = s.idle
		v.Candidates = s.candidates
		if s.idle != "" {
			v.Candidates = []string{}
		}
		p.announce(&v, s)
		if v.Why == "" {
			v.Why = p.whyNot(s)
		}
		for _, a := range v.Addresses {
			if _, why := p.placeRouted(s, a.IP, wantedLink(p.in.Config, s)); v.Why == "" {
				v.Why = why
			}
		}
		v.Eligible = v.Why == ""
		v.Leaving = v.Eligible && s.leaves(p.in.Config.NodeName)
		p.out.VIPs = append(p.out.VIPs, v)
	}
}

// leaves says whether the node serves only by endpoints that terminate, while
// another node has a ready one: it goes on, but others are better.
func (s *service) leaves(node string) bool {
	return s.local() && s.readyElsewhere && !slices.Contains(s.readyNodes, node)
}

// spreadCandidates are the nodes that can serve a Service which nobody owns,
// sorted: every one with an endpoint that serves, ready or not, so that a
// rolling update never takes the VIP from a node that still serves.
func (e *endpoints) spreadCandidates() []string {
	nodes := slices.Concat(e.ready, e.leaving)
	slices.Sort(nodes)
	return slices.Compact(nodes)
}
