package plan

import (
	"net/netip"
	"slices"

	"github.com/vipod/vipod/elector/internal/claim"
	"github.com/vipod/vipod/shared/schema"
)

// bundle is Services that must live on one node, the oldest first.
type bundle struct {
	members []*service
	// candidates are the nodes that all members have; nil for any.
	candidates []string
	// group is what becomes of it on this node.
	group claim.Group
}

// group makes groups of the Services, which come the oldest first.
//
// Nobody takes another one's VIP down by joining it: a Service that no node
// shall serve is in no group; one that has no node in common with the older
// members is left out; and one of another namespace than the oldest member's
// is left out on a node where its own interface cannot be used.
func (p *planner) group(services []*service) {
	p.out.VIPs = make([]VIP, 0, len(services))
	bundles := join(services)
	vips := make(map[*bundle][]VIP, len(bundles))
	for _, b := range bundles {
		vips[b] = p.serve(b)
	}
	slices.SortFunc(bundles, func(a, b *bundle) int {
		return a.group.Addresses[0].Compare(b.group.Addresses[0])
	})
	for i, b := range bundles {
		for _, v := range vips[b] {
			if v.Group != NoGroup {
				v.Group = i
			}
			p.out.VIPs = append(p.out.VIPs, v)
		}
		p.out.Groups = append(p.out.Groups, b.group)
	}
	for _, s := range services {
		if s.idle != "" {
			v := s.vip(p.placeAll([]*service{s}))
			v.Group, v.Why = NoGroup, s.idle
			p.out.VIPs = append(p.out.VIPs, v)
		}
	}
}

// joiner is a union-find over Services by their index. A root is the oldest
// of its bundle.
type joiner struct {
	services []*service
	parent   []int
	// common are, for a root, the nodes that all of its bundle have.
	common [][]string
	// byAddress and byLease are the first that came with an address or with
	// the name of a lease.
	byAddress map[netip.Addr]int
	byLease   map[string]int
}

// join returns the Services that some node shall serve in bundles: two that
// share an address or the name of a lease are in one. A Service that would
// leave a bundle, or several that it would join, without a node is kept out
// and told so in its idle.
func join(services []*service) []*bundle {
	j := &joiner{
		services: services, parent: make([]int, len(services)), common: make([][]string, len(services)),
		byAddress: make(map[netip.Addr]int, len(services)), byLease: map[string]int{},
	}
	for i, s := range services {
		if s.idle == "" {
			j.add(i, s)
		}
	}
	at := make(map[int]*bundle, len(services))
	var bundles []*bundle
	for i, s := range services {
		if s.idle != "" {
			continue
		}
		root := j.root(i)
		if at[root] == nil {
			at[root] = &bundle{candidates: j.common[root]}
			bundles = append(bundles, at[root])
		}
		at[root].members = append(at[root].members, s)
	}
	return bundles
}

// add joins one Service to all that it has something in common with, which
// are older.
func (j *joiner) add(i int, s *service) {
	roots := j.meets(s)
	common := s.candidates
	for _, r := range roots {
		common = intersect(common, j.common[r])
	}
	if common != nil && len(common) == 0 {
		s.idle = "no node could serve both it and the older Service " + j.services[roots[0]].path() + ", with which it must live"
		return
	}
	oldest := i
	if len(roots) > 0 {
		oldest = roots[0]
	}
	j.parent[i] = oldest
	for _, r := range roots {
		j.parent[r] = oldest
	}
	j.common[oldest] = common
	for _, ip := range s.addresses {
		j.byAddress[ip] = oldest
	}
	if s.lease != "" {
		j.byLease[s.lease] = oldest
	}
}

// meets returns the roots of the bundles that the Service belongs to, the
// oldest first.
func (j *joiner) meets(s *service) []int {
	var roots []int
	for _, ip := range s.addresses {
		if first, ok := j.byAddress[ip]; ok {
			roots = append(roots, j.root(first))
		}
	}
	if first, ok := j.byLease[s.lease]; ok && s.lease != "" {
		roots = append(roots, j.root(first))
	}
	slices.Sort(roots)
	return slices.Compact(roots)
}

func (j *joiner) root(i int) int {
	for j.parent[i] != i {
		j.parent[i] = j.parent[j.parent[i]]
		i = j.parent[i]
	}
	return i
}

// intersect returns what two sorted lists have in common; nil is everything.
func intersect(a, b []string) []string {
	switch {
	case a == nil || len(a) > 0 && len(b) > 0 && &a[0] == &b[0]:
		return b
	case b == nil:
		return a
	}
	common := []string{}
	for _, s := range a {
		if _, ok := slices.BinarySearch(b, s); ok {
			common = append(common, s)
		}
	}
	return common
}

// serve decides what this node can do for a bundle: it fills in the group and
// returns the VIPs.
func (p *planner) serve(b *bundle) []VIP {
	placed := p.placeAll(b.members)
	var vips []VIP
	blocked := ""
	for _, s := range b.members {
		v := s.vip(placed)
		v.Candidates, v.Firewall = b.candidates, p.firewall(s)
		p.announce(&v, s)
		if v.Why == "" {
			v.Why = p.whyNot(s)
		}
		blocks := v.Why != ""
		if v.Why == "" {
			v.Why = whyNotThere(s, placed)
			blocks = v.Why != "" && s.Namespace == b.members[0].Namespace
		}
		if blocks && blocked == "" {
			blocked = "Service " + s.path() + ", with which it must live, cannot be served here: " + v.Why
		}
		vips = append(vips, v)
	}
	b.group.Eligible, b.group.Candidates = blocked == "", b.candidates
	for i := range vips {
		v := &vips[i]
		switch {
		case blocked != "" && v.Why == "":
			v.Why = blocked
		case blocked == "" && v.Why != "":
			v.Group = NoGroup
		}
		v.Eligible = v.Why == ""
		if v.Group != NoGroup {
			b.group.Addresses = append(b.group.Addresses, b.members[i].addresses...)
		}
	}
	slices.SortFunc(b.group.Addresses, netip.Addr.Compare)
	b.group.Addresses = slices.Compact(b.group.Addresses)
	return vips
}

// whyNot says why this node is none of the Service's candidates, "" if it is
// one.
func (p *planner) whyNot(s *service) string {
	node := p.in.Config.NodeName
	if why := p.whyNoEgressd(s); why != "" {
		return why
	}
	if s.candidates == nil {
		return ""
	}
	if _, ok := slices.BinarySearch(s.candidates, node); ok {
		return ""
	}
	switch {
	case p.excluded[node]:
		return "node " + node + " is excluded from external load balancers by its label"
	case s.byEndpoints():
		return "no endpoint of the Service serves on node " + node
	default:
		return "node " + node + " is not among the Nodes of the API server"
	}
}

// placement is where an address goes on this node, or why it cannot.
type placement struct {
	schema.Address
	why string
}

// placeAll places the addresses of Services that live together. An address
// that several of them have goes where the oldest wants it.
func (p *planner) placeAll(members []*service) map[netip.Addr]placement {
	placed := make(map[netip.Addr]placement, 2)
	for _, s := range members {
		want := wantedLink(p.in.Config, s)
		for _, ip := range s.addresses {
			if _, ok := placed[ip]; !ok {
				a, why := p.placeRouted(s, ip, want)
				placed[ip] = placement{a, why}
			}
		}
	}
	return placed
}

// whyNotThere says why one of the Service's addresses cannot be where it was
// placed, "" if all can.
func whyNotThere(s *service, placed map[netip.Addr]placement) string {
	for _, ip := range s.addresses {
		if why := placed[ip].why; why != "" {
			return why
		}
	}
	return ""
}

// vip returns the Service's VIP with its addresses where they were placed.
func (s *service) vip(placed map[netip.Addr]placement) VIP {
	v := VIP{
		Key: schema.Key(s.Namespace, s.Name), Namespace: s.Namespace, Name: s.Name, UID: string(s.UID),
		Kind: schema.KindService, Ports: s.ports(),
	}
	for _, ip := range s.addresses {
		if !claim.IsToken(ip) {
			v.Addresses = append(v.Addresses, placed[ip].Address)
		}
	}
	for i := range v.Addresses {
		if s.named[v.Addresses[i].IP] {
			v.Addresses[i].Source = schema.SourceDNS
		}
	}
	v.Links, v.Token = s.linkSpecs(placed), s.token()
	if len(s.named) > 0 {
		v.Pin = s.pin()
	}
	return v
}
