package plan

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/vipod/vipod/elector/internal/claim"
	"github.com/vipod/vipod/elector/internal/config"
	"github.com/vipod/vipod/shared/schema"
)

// acceptVLAN reads the annotation that puts a Service on a VLAN, such as
// eth0.200. Where it makes no sense the Service gets no VIP: on the wrong
// network it would be of no use.
func (p *planner) acceptVLAN(s *service) bool {
	v := s.Annotations[annotationVLAN]
	if v == "" {
		return true
	}
	parent, number := "", v
	if i := strings.LastIndexByte(v, '.'); i >= 0 {
		parent, number = v[:i], v[i+1:]
	}
	id, err := strconv.Atoi(number)
	switch {
	case schema.ValidateInterface(v) != nil || schema.ValidateInterface(parent) != nil || err != nil || strconv.Itoa(id) != number:
		p.refuse(s, ReasonInterfaceRefused, "annotation %s %s is not an interface and the number of a VLAN with a dot between; the Service gets no VIP", annotationVLAN, config.Quote(v))
		return false
	case id < 1 || id > 4094:
		p.refuse(s, ReasonInterfaceRefused, "annotation %s %s names VLAN %d, which is not 1 to 4094; the Service gets no VIP", annotationVLAN, config.Quote(v), id)
		return false
	}
	s.vlan = &schema.LinkSpec{Kind: schema.LinkVLAN, Name: v, Parent: parent, VLAN: id}
	return true
}

// place returns where on this node an address of the Service goes, or what its
// token stands for, and why this node cannot serve it there.
func (p *planner) place(s *service, ip netip.Addr, want string) (schema.Address, string) {
	if s.vlan == nil && s.dhcp == nil && !claim.IsToken(ip) {
		return p.links.place(ip, want)
	}
	if lent, ok := s.lent[ip]; ok {
		return p.placeLent(s.dhcp.Name, lent), ""
	}
	if ip == s.pin() {
		return schema.Address{IP: ip}, "" // where its addresses are decides
	}
	if s.vlan == nil && !claim.IsToken(ip) {
		return p.links.place(ip, want)
	}
	a := schema.Address{IP: ip, PrefixLength: p.links.length(ip), Source: schema.SourceStatic}
	parent, why := p.parent(s, want)
	if a.Interface = parent; s.vlan != nil {
		a.Interface = s.vlan.Name
	}
	if why == "" && p.in.Linkd != "" && !p.in.Linked[schema.Key(s.Namespace, s.Name)] {
		why = p.in.Linkd
	}
	if why == "" && p.links.subnet.Auto && !claim.IsToken(ip) {
		own, ok := covering(p.links.byName[s.vlan.Name], ip)
		if !ok {
			return a, fmt.Sprintf("no subnet of interface %s holds %s, so that vip_subnet auto has no length for it", s.vlan.Name, ip)
		}
		a.PrefixLength = own.Bits()
	}
	return a, why
}

// placeLent puts a lent address on its macvlan.
func (p *planner) placeLent(macvlan string, l schema.Lease) schema.Address {
	a := schema.Address{IP: l.IP, PrefixLength: p.links.length(l.IP), Interface: macvlan, Source: l.Source}
	if p.links.subnet.Auto {
		a.PrefixLength = l.PrefixLength
	}
	return a
}

// parent returns the link of this node that the Service's links are on, and why
// it cannot be used.
func (p *planner) parent(s *service, want string) (name, why string) {
	link, why := schema.Link{}, ""
	if s.vlan != nil {
		link, why = p.links.choose(netip.Addr{}, s.vlan.Parent)
	} else {
		ip := netip.IPv6Unspecified()
		if s.dhcp.DHCP.IPv4 {
			ip = netip.IPv4Unspecified()
		}
		link, why = p.links.choose(ip, want)
	}
	if why == "" && !link.Up && !p.links.allowDown {
		why = fmt.Sprintf("interface %s is down", link.Name)
	}
	return link.Name, why
}

// linkSpecs returns the links that linkd is to make for the Service on this
// node, a parent first; none where they cannot be made.
func (s *service) linkSpecs(placed map[netip.Addr]placement) []schema.LinkSpec {
	var list []schema.LinkSpec
	if s.vlan != nil {
		list = append(list, *s.vlan)
	}
	if s.dhcp != nil {
		l := *s.dhcp
		if l.Parent = placed[s.token()].Interface; l.Parent == "" || l.Parent == l.Name {
			return nil
		}
		list = append(list, l)
	}
	return list
}
