package plan

import (
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipod/vipod/elector/internal/claim"
	"github.com/vipod/vipod/elector/internal/config"
	"github.com/vipod/vipod/elector/internal/names"
)

// giveName gives the Service the addresses that a host name stands for, of each
// family that it has. With the annotation for dynamic DNS it asks DHCP by that
// name instead, whose server keeps the name.
func (p *planner) giveName(s *service, text string) {
	switch v := s.Annotations[annotationDDNS]; strings.ToLower(v) {
	case "true":
		p.askByName(s, text)
		return
	case "", "false":
	default:
		p.refuse(s, ReasonLinkRefused, "annotation %s %s is not true or false, and name %s is not served", annotationDDNS, config.Quote(v), text)
		return
	}
	name := strings.ToLower(strings.TrimSuffix(text, "."))
	p.out.Names = append(p.out.Names, name)
	answer := p.in.Names[name]
	if answer.Empty() {
		if answer.Problem != "" {
			p.refuse(s, ReasonNameUnresolved, "name %s stands for no address: %s", name, answer.Problem)
		}
		return
	}
	for _, ip := range slices.Concat(answer.IPv4, answer.IPv6) {
		if !hasFamily(s.Service, ip) || slices.Contains(s.addresses, ip) {
			continue
		}
		a, err := parse(ip.String())
		if err == nil {
			err = p.allowed(s, a)
		}
		if err != nil {
			p.refuse(s, ReasonAddressRefused, "address %s of name %s is refused: it %v", ip, name, err)
			continue
		}
		if s.named == nil {
			s.named = map[netip.Addr]bool{}
			s.addresses = append(s.addresses, s.pin())
		}
		s.named[a] = true
		s.addresses = append(s.addresses, a)
	}
}

// askByName asks DHCP for an address of each family that the Service has.
func (p *planner) askByName(s *service, name string) {
	for _, f := range s.Spec.IPFamilies {
		if f == corev1.IPv4Protocol {
			p.askDHCP(s, "0.0.0.0")
		} else {
			p.askDHCP(s, "::")
		}
	}
	if s.dhcp != nil {
		s.dhcp.DHCP.Hostname, _, _ = strings.Cut(name, ".")
	}
}

// pin is what is claimed for the Service besides the addresses of its names.
func (s *service) pin() netip.Addr { return claim.Token("name " + s.path()) }

// controlPlaneAddresses are the configured ones, and those of its names, sorted.
func controlPlaneAddresses(in Input) []netip.Addr {
	c := in.Config
	list := slices.Clone(c.ControlPlane.Addresses)
	for _, name := range c.ControlPlane.Names {
		list = append(list, ofMode(in.Names[name], c.NameMode)...)
	}
	slices.SortFunc(list, netip.Addr.Compare)
	return slices.DeleteFunc(slices.Compact(list), func(ip netip.Addr) bool {
		return !ip.IsGlobalUnicast()
	})
}

// ofMode returns the addresses of a name that count.
func ofMode(a names.Answer, mode config.NameMode) []netip.Addr {
	switch {
	case mode == config.NameIPv4, mode != config.NameIPv6 && mode != config.NameDual && len(a.IPv4) > 0:
		return a.IPv4
	case mode == config.NameDual:
		return slices.Concat(a.IPv4, a.IPv6)
	}
	return a.IPv6
}
