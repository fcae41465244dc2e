package plan

import (
	"cmp"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipod/vipod/elector/internal/config"
	"github.com/vipod/vipod/shared/schema"
)

// service is a Service on its way through the plan.
type service struct {
	*corev1.Service
	addresses []netip.Addr
	// lease is the name of the group that the Service asks for, "" for none.
	lease string
	// idle says why no node shall serve the Service now, "" if some shall.
	idle string
	// candidates are the nodes that could; sorted, nil for any.
	candidates []string
	// vlan is the VLAN that the Service's addresses are on, nil for none.
	vlan *schema.LinkSpec
	// dhcp is the macvlan that DHCP servers lend addresses for, nil for none;
	// its parent is known only on a node.
	dhcp *schema.LinkSpec
	// lent are the addresses that were lent to this node for it.
	lent map[netip.Addr]schema.Lease
	// readyNodes are those with a ready endpoint, where that is asked for;
	// readyElsewhere says that there is any.
	readyNodes     []string
	readyElsewhere bool
	// named are the addresses that names stand for.
	named map[netip.Addr]bool
}

// path returns namespace/name, for people.
func (s *service) path() string { return s.Namespace + "/" + s.Name }

// local says whether only nodes with an endpoint may serve the Service.
func (s *service) local() bool {
	return s.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
}

// byEndpoints says whether only nodes with an endpoint can serve the Service:
// by its policy, or since what its pods send has to leave where the VIP is.
func (s *service) byEndpoints() bool { return s.local() || s.wantsEgress() && !s.acrossNodes() }

// selected returns the Services that are ours, the oldest first: what two of
// them ask for belongs to the first.
func selected(c *config.Config, all []*corev1.Service) []*service {
	if !c.Services.Enabled {
		return nil
	}
	var ours []*service
	for _, s := range all {
		if isOurs(&c.Services, s) {
			ours = append(ours, &service{Service: s})
		}
	}
	slices.SortFunc(ours, func(a, b *service) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
			cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return ours
}

// isOurs says whether a Service is to get a VIP from us. One that is being
// deleted is gone already.
func isOurs(c *config.Services, s *corev1.Service) bool {
	return s.Spec.Type == corev1.ServiceTypeLoadBalancer &&
		s.DeletionTimestamp == nil &&
		(c.Namespace == "" || s.Namespace == c.Namespace) &&
		s.Annotations[annotationIgnore] != "true" &&
		hasOurClass(c, s.Spec.LoadBalancerClass) &&
		schema.ValidateKey(schema.Key(s.Namespace, s.Name)) == nil
}

// hasOurClass follows kube-vip. A class that is set must be ours. A Service
// without one is taken, by the legacy rule unless only the class counts, by
// the modern rule only if our class is the empty one.
func hasOurClass(c *config.Services, class *string) bool {
	switch {
	case class != nil:
		return *class == c.Class
	case c.ClassLegacy:
		return !c.ClassOnly
	default:
		return c.Class == ""
	}
}
