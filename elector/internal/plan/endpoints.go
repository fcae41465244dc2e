package plan

import (
	"slices"

	discoveryv1 "k8s.io/api/discovery/v1"
)

// endpoints is what all EndpointSlices of one Service say together.
type endpoints struct {
	// any: an endpoint serves somewhere, ready or while it terminates.
	any bool
	// local: nodes are asked for.
	local bool
	// ready and leaving are the nodes of ready endpoints, and of those that
	// serve while they terminate; unsorted.
	ready, leaving []string
}

// name is a namespaced name.
type name struct{ namespace, name string }

// endpointsOf reads the slices of the given Services, of both address
// families. kube-proxy does not serve endpoints that are host names, so they
// do not count.
func endpointsOf(services []*service, slices []*discoveryv1.EndpointSlice) map[name]*endpoints {
	all := make(map[name]*endpoints, len(services))
	for _, s := range services {
		all[name{s.Namespace, s.Name}] = &endpoints{local: s.byEndpoints()}
	}
	for _, slice := range slices {
		e := all[name{slice.Namespace, slice.Labels[discoveryv1.LabelServiceName]}]
		if e == nil || slice.AddressType == discoveryv1.AddressTypeFQDN {
			continue
		}
		for i := range slice.Endpoints {
			e.add(&slice.Endpoints[i])
		}
	}
	return all
}

// serving says whether an endpoint is ready, or serves while it terminates. By
// the API an unknown ready means ready, an unknown serving is the same as
// ready, and an unknown terminating is false. As in kube-proxy, an endpoint
// that is not ready serves only while it terminates.
func serving(point *discoveryv1.Endpoint) (ready, leaving bool) {
	c := &point.Conditions
	ready = c.Ready == nil || *c.Ready
	return ready, c.Terminating != nil && *c.Terminating && c.Serving != nil && *c.Serving
}

// add sorts one endpoint in.
func (e *endpoints) add(point *discoveryv1.Endpoint) {
	ready, leaving := serving(point)
	if !ready && !leaving {
		return
	}
	e.any = true
	switch {
	case !e.local || point.NodeName == nil:
	case ready:
		e.ready = append(e.ready, *point.NodeName)
	default:
		e.leaving = append(e.leaving, *point.NodeName)
	}
}

// nodes returns the nodes with an endpoint that serves, sorted: those of
// ready ones if there is a ready one anywhere, so that a node is left while
// its last endpoint still serves.
func (e *endpoints) nodes() []string {
	nodes := e.ready
	if len(nodes) == 0 {
		nodes = e.leaving
	}
	slices.Sort(nodes)
	return slices.Compact(nodes)
}

// findCandidates says which nodes could serve the Service by what the API
// says, or why none could.
func (p *planner) findCandidates(s *service, e *endpoints) {
	s.candidates = p.included
	switch {
	case !e.any && (s.byEndpoints() || !isTrue(s.Service, annotationEndpointless)):
		s.idle = "no endpoint of the Service serves on any node"
	case s.byEndpoints():
		nodes := e.nodes()
		if p.spread(s) {
			nodes = e.spreadCandidates()
		}
		s.readyNodes, s.readyElsewhere = e.ready, len(e.ready) > 0
		s.candidates = slices.DeleteFunc(slices.Clone(nodes), func(n string) bool { return p.excluded[n] })
		if len(nodes) == 0 {
			s.idle = "no endpoint that serves names its node, as externalTrafficPolicy Local and egress need"
		} else if len(s.candidates) == 0 {
			s.idle = "every node with an endpoint that serves is excluded from external load balancers by its label"
		}
	case p.included != nil && len(p.included) == 0:
		s.idle = "every node is excluded from external load balancers by its label"
	}
}
