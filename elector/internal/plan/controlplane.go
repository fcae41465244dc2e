package plan

import (
	"net/netip"
	"slices"

	"github.com/vipod/vipod/elector/internal/config"
	"github.com/vipod/vipod/shared/schema"
)

// controlPlane returns the control plane's VIP for this node, nil where it is
// switched off. Whether the API server of this node answers decides; the
// label of the Node counts only if some Node has it, since a control plane
// need not be registered as Nodes.
func (p *planner) controlPlane() *VIP {
	c := p.in.Config
	if !c.ControlPlane.Enabled {
		return nil
	}
	v := &VIP{
		Key: schema.ControlPlaneKey, Kind: schema.KindControlPlane, Group: NoGroup,
		Candidates: p.controlPlaneNodes(),
	}
	p.out.Names = append(p.out.Names, c.ControlPlane.Names...)
	if c.ControlPlane.DDNS {
		p.lendControlPlane(v)
	} else {
		p.placeControlPlane(v)
	}
	v.Spread = c.Mode == config.ModeTable || c.Mode == config.ModeBGP && !c.Elect.ControlPlane
	p.announce(v, nil)
	if why := p.lacksDaemon(); c.Mode.Routes() && v.Why == "" {
		v.Why = why
	}
	switch {
	case v.Candidates != nil && !slices.Contains(v.Candidates, c.NodeName):
		v.Why = "node " + c.NodeName + " is not labelled " + labelControlPlane + " as other nodes are"
	case !p.in.Healthy:
		v.Why = "the API server on this node does not answer"
	}
	v.Eligible = v.Why == ""
	v.Balance = p.balance()
	return v
}

// placeControlPlane gives the control plane's VIP the addresses that are
// configured and those of its names.
func (p *planner) placeControlPlane(v *VIP) {
	c := p.in.Config
	addresses := controlPlaneAddresses(p.in)
	if len(addresses) == 0 {
		v.Why = "the name of the control plane's VIP stands for no address yet"
	}
	for _, ip := range addresses {
		a, why := p.placeOne(ip)
		if !slices.Contains(c.ControlPlane.Addresses, ip) {
			a.Source = schema.SourceDNS
		}
		v.Addresses = append(v.Addresses, a)
		if v.Why == "" {
			v.Why = why
		}
	}
}

// balance returns where connections to the VIP go, nil where that is switched
// off: to the API servers of the labelled Nodes that are ready, as far as they
// are well. The VIP itself is none, although a Node may report it.
func (p *planner) balance() *schema.Balance {
	c := p.in.Config.ControlPlane
	if !c.Balance.Enabled {
		return nil
	}
	for _, n := range p.in.Nodes {
		if !n.ControlPlane || !n.Ready {
			continue
		}
		for _, ip := range n.Internal {
			if !slices.Contains(c.Addresses, ip) {
				p.out.Backends = append(p.out.Backends, netip.AddrPortFrom(ip, c.Port))
			}
		}
	}
	slices.SortFunc(p.out.Backends, netip.AddrPort.Compare)
	p.out.Backends = slices.Compact(p.out.Backends)
	b := &schema.Balance{Port: c.Balance.Port, Backends: []netip.AddrPort{}}
	for _, server := range p.out.Backends {
		if p.in.Up[server] {
			b.Backends = append(b.Backends, server)
		}
	}
	return b
}

const labelControlPlane = "node-role.kubernetes.io/control-plane"

// controlPlaneNodes returns the labelled nodes, nil if there are none.
func (p *planner) controlPlaneNodes() []string {
	var nodes []string
	for _, n := range p.in.Nodes {
		if n.ControlPlane {
			nodes = append(nodes, n.Name)
		}
	}
	slices.Sort(nodes)
	return nodes
}
