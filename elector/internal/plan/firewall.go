package plan

import "github.com/vipod/vipod/shared/schema"

// annotationNoFirewall lets every port of a Service's VIP be reached.
const annotationNoFirewall = "kube-vip.io/ignore-service-security"

// firewall returns which ports of the Service's VIP are reached, nil where the
// firewall is switched off.
func (p *planner) firewall(s *service) *schema.Firewall {
	if !p.in.Config.Services.Firewall {
		return nil
	}
	f := &schema.Firewall{Ports: []schema.Port{}, Open: isTrue(s.Service, annotationNoFirewall)}
	for _, port := range s.Spec.Ports {
		f.Ports = append(f.Ports, schema.Port{Protocol: schema.Protocol(protocol(port)), Port: uint16(port.Port)})
	}
	return f
}

// whyNoEgressd says why this node cannot serve the Service for want of egressd,
// "" if it can or need not. A VIP whose firewall or tunnel nobody keeps is not
// served.
func (p *planner) whyNoEgressd(s *service) string {
	if p.in.NoEgressd == "" || !s.wantsEgress() && !p.in.Config.Services.Firewall && !p.tunnels() {
		return ""
	}
	return p.in.NoEgressd
}
