package plan

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipod/vipod/elector/internal/claim"
)

// Reasons of refusals.
const (
	ReasonAddressRefused   = "AddressRefused"
	ReasonAddressInUse     = "AddressInUse"
	ReasonTooManyAddresses = "TooManyAddresses"
	ReasonInterfaceRefused = "InterfaceRefused"
	ReasonLeaseNameRefused = "LeaseNameRefused"
	ReasonLinkRefused      = "LinkRefused"
	ReasonAttributeRefused = "AttributeRefused"
	ReasonNameUnresolved   = "NameUnresolved"
	ReasonNotSupported     = "NotSupported"
	ReasonEgressRefused    = "EgressRefused"
	ReasonEgressConflict   = "EgressConflict"
)

// refuse tells the Service's owner what is not done.
func (p *planner) refuse(s *service, reason, format string, args ...any) {
	p.out.Refusals = append(p.out.Refusals, Refusal{
		Namespace: s.Namespace, Name: s.Name, UID: string(s.UID),
		Reason: reason, Message: fmt.Sprintf(format, args...),
	})
}

// refuseHere is refuse for what this node alone knows.
func (p *planner) refuseHere(s *service, reason, format string, args ...any) {
	p.refuse(s, reason, format, args...)
	p.out.Refusals[len(p.out.Refusals)-1].Here = true
}

// errInUse is the clash of two Services over one port of one address.
type errInUse string

func (e errInUse) Error() string { return string(e) }

// socket is what only one Service can have.
type socket struct {
	ip       netip.Addr
	port     int32
	protocol corev1.Protocol
}

// forbidden are the addresses that no Service may take, because somebody else
// answers for them.
type forbidden struct {
	// whose completes the sentence "it ...".
	whose map[netip.Addr]string
	// cidrs are ranges of cluster IPs.
	cidrs []netip.Prefix
	// subnets are this node's IPv4 subnets, of which the first and the last
	// address are no host's.
	subnets []netip.Prefix
}

// newForbidden collects them. The Service CIDR itself is known only if it is
// configured; without that, every cluster IP in use is forbidden, so that no
// Service can take over another one's inside of the cluster.
func newForbidden(in Input) forbidden {
	f := forbidden{whose: make(map[netip.Addr]string, len(in.Services)), cidrs: in.Config.Services.CIDRs}
	for _, a := range controlPlaneAddresses(in) {
		f.add(a, "is the VIP of the control plane")
	}
	for _, a := range in.APIServers {
		f.add(a, "is an address of the API server")
	}
	nodes := slices.SortedFunc(slices.Values(in.Nodes), func(a, b Node) int { return cmp.Compare(a.Name, b.Name) })
	for _, n := range nodes {
		for _, a := range n.Addresses {
			f.add(a, "is an address of node "+n.Name)
		}
	}
	for _, l := range in.Links {
		for _, own := range l.Addresses {
			if own.Addr().Is4() && own.Bits() < 31 {
				f.subnets = append(f.subnets, own.Masked())
			}
		}
	}
	for _, s := range in.Services {
		for _, text := range s.Spec.ClusterIPs {
			f.addClusterIP(text)
		}
		f.addClusterIP(s.Spec.ClusterIP)
	}
	return f
}

// add keeps what was said first about an address.
func (f *forbidden) add(a netip.Addr, whose string) {
	a = a.WithZone("").Unmap()
	if _, ok := f.whose[a]; !ok {
		f.whose[a] = whose
	}
}

func (f *forbidden) addClusterIP(text string) {
	if text == "" || text == corev1.ClusterIPNone {
		return
	}
	if a, err := netip.ParseAddr(text); err == nil {
		f.add(a, "is the cluster IP of a Service")
	}
}

// check returns why the address is refused, or nil.
func (f *forbidden) check(a netip.Addr) error {
	if whose, ok := f.whose[a]; ok {
		return errAddress(whose)
	}
	for _, c := range f.cidrs {
		if c.Contains(a) {
			return errAddress("is in the Service CIDR " + c.String())
		}
	}
	for _, n := range f.subnets {
		if n.Contains(a) && (a == n.Addr() || a == lastOf(n)) {
			return errAddress("is the first or last address of " + n.String() + ", which no host has")
		}
	}
	return nil
}

// lastOf returns the last address of an IPv4 range.
func lastOf(p netip.Prefix) netip.Addr {
	b := p.Masked().Addr().As4()
	for bit := p.Bits(); bit < 32; bit++ {
		b[bit/8] |= 0x80 >> (bit % 8)
	}
	return netip.AddrFrom4(b)
}

// allowed returns why the Service may not have the address, or nil. Of two
// Services that want the same port of it, the older has it.
func (p *planner) allowed(s *service, a netip.Addr) error {
	if !claim.IsToken(a) && !hasFamily(s.Service, a) {
		return errAddress(fmt.Sprintf("is of family %s, which the Service does not have", family(a)))
	}
	if err := p.forbidden.check(a); err != nil {
		return err
	}
	for _, port := range s.Spec.Ports {
		if owner, ok := p.sockets[socketOf(a, port)]; ok {
			return errInUse(fmt.Sprintf("port %d/%s on it belongs to Service %s, which is older", port.Port, protocol(port), owner.path()))
		}
	}
	return nil
}

// takePorts keeps the ports of the Service's addresses for it.
func (p *planner) takePorts(s *service) {
	for _, a := range s.addresses {
		for _, port := range s.Spec.Ports {
			p.sockets[socketOf(a, port)] = s
		}
	}
}

func socketOf(a netip.Addr, port corev1.ServicePort) socket {
	return socket{a, port.Port, protocol(port)}
}

func protocol(port corev1.ServicePort) corev1.Protocol {
	return cmp.Or(port.Protocol, corev1.ProtocolTCP)
}
