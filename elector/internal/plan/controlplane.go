package plan

import (
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
	addresses := controlPlaneAddresses(p.in)
	if len(addresses) == 0 {
		v.Why = "the name of the control plane's VIP stands for no address yet"
	}
	for _, ip := range addresses {
		a, why := p.links.place(ip, c.Interface)
		if !slices.Contains(c.ControlPlane.Addresses, ip) {
			a.Source = schema.SourceDNS
		}
		v.Addresses = append(v.Addresses, a)
		if v.Why == "" {
			v.Why = why
		}
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
	return v
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
