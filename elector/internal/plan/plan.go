package plan

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/vipod/vipod/elector/internal/config"
	"github.com/vipod/vipod/shared/schema"
)

// planner is one plan in the making.
type planner struct {
	in        Input
	out       Output
	forbidden forbidden
	links     *links
	// sockets says which Service has which port of which address.
	sockets map[socket]*service
	// excluded are the nodes that must not serve Services; included are the
	// others, nil if none is excluded.
	excluded map[string]bool
	included []string
	// slices are those of each Service, nil until somebody asks.
	slices map[name][]*discoveryv1.EndpointSlice
	// names are the macvlans that Services want.
	names map[string]*nameUse
}

// Plan returns what the cluster asks of this node.
func Plan(in Input) Output {
	p := &planner{
		in: in, links: newLinks(in), forbidden: newForbidden(in),
		sockets: make(map[socket]*service, len(in.Services)),
	}
	p.excludeNodes()
	services := selected(in.Config, in.Services)
	p.names = linkNames(services)
	points := endpointsOf(services, in.Slices)
	var served, spread []*service
	for _, s := range services {
		if !p.accept(s) {
			continue
		}
		p.giveAddresses(s)
		if len(s.addresses) == 0 {
			continue
		}
		p.findCandidates(s, points[name{s.Namespace, s.Name}])
		if p.spread(s) {
			spread = append(spread, s)
		} else {
			served = append(served, s)
		}
	}
	p.group(served)
	p.spreadAll(spread)
	p.egress(services)
	p.out.ControlPlane = p.controlPlane()
	p.sort()
	return p.out
}

// excludeNodes reads the label of the Nodes.
func (p *planner) excludeNodes() {
	if p.in.Config.Services.IgnoreExcludeLabel {
		return
	}
	p.excluded = map[string]bool{}
	included := []string{}
	for _, n := range p.in.Nodes {
		if n.Excluded {
			p.excluded[n.Name] = true
		} else {
			included = append(included, n.Name)
		}
	}
	if len(p.excluded) > 0 {
		slices.Sort(included)
		p.included = included
	}
}

// accept refuses a Service whose place cannot be what it asks for, and tells
// what else it does not get.
func (p *planner) accept(s *service) bool {
	for _, a := range withoutEffect {
		if isTrue(s.Service, a) {
			p.refuse(s, ReasonNotSupported, "annotation %s has no effect in this build; the Service is served without it", a)
		}
	}
	if mode := p.in.Config.Mode; mode.Routes() && s.Annotations[annotationVLAN] != "" {
		p.refuse(s, ReasonNotSupported, "annotation %s has no effect with %s; the Service is served without it", annotationVLAN, mode)
	} else if !p.acceptVLAN(s) {
		return false
	}
	if v := s.Annotations[annotationInterface]; v != "" && schema.ValidateInterface(v) != nil {
		p.refuse(s, ReasonInterfaceRefused, "annotation %s %s is not the name of an interface; the Service gets no VIP", annotationInterface, config.Quote(v))
		return false
	}
	return p.acceptLease(s)
}

// acceptLease reads the name of the group that the Service asks for. It is a
// name and nothing else: no Lease is made or held by it, so that one in
// another namespace gives no power there.
func (p *planner) acceptLease(s *service) bool {
	v := s.Annotations[annotationLease]
	switch {
	case v == "":
		return true
	case len(v) > maxLeaseName || strings.ContainsFunc(v, func(r rune) bool { return r <= ' ' || r > '~' }):
		p.refuse(s, ReasonLeaseNameRefused, "annotation %s %s is not a name; the Service gets no VIP", annotationLease, config.Quote(v))
		return false
	case s.local():
		p.refuse(s, ReasonLeaseNameRefused, "annotation %s needs externalTrafficPolicy Cluster; the Service gets no VIP", annotationLease)
		return false
	}
	s.lease = v
	if !strings.Contains(v, "/") {
		s.lease = s.Namespace + "/" + v
	}
	return true
}

// maxLeaseName is a namespace, a slash and a name.
const maxLeaseName = 63 + 1 + 253

// ports returns the Service's ports as its status has them.
func (s *service) ports() []corev1.PortStatus {
	ports := make([]corev1.PortStatus, 0, len(s.Spec.Ports))
	for _, port := range s.Spec.Ports {
		ports = append(ports, corev1.PortStatus{Port: port.Port, Protocol: protocol(port)})
	}
	return ports
}

// sort brings VIPs and refusals in an order that has nothing to do with that
// of the input.
func (p *planner) sort() {
	slices.SortFunc(p.out.VIPs, func(a, b VIP) int { return cmp.Compare(a.Key, b.Key) })
	slices.SortFunc(p.out.Egress, func(a, b *schema.Egress) int { return cmp.Compare(a.Key, b.Key) })
	slices.SortStableFunc(p.out.Refusals, func(a, b Refusal) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	slices.Sort(p.out.Names)
	p.out.Names = slices.Compact(p.out.Names)
}
