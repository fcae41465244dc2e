package plan

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/vipod/vipod/elector/internal/claim"
	"github.com/vipod/vipod/elector/internal/config"
	"github.com/vipod/vipod/shared/schema"
)

// asksDHCP says whether text, in the place of an address, asks a DHCP server
// for one.
func asksDHCP(text string) bool { return text == "0.0.0.0" || text == "::" }

// askDHCP notes that the Service wants an address of the family.
func (p *planner) askDHCP(s *service, text string) {
	ip := netip.MustParseAddr(text)
	if !hasFamily(s.Service, ip) {
		p.refuse(s, ReasonAddressRefused, "address %s is refused: it is of family %s, which the Service does not have", text, family(ip))
		return
	}
	if mode := p.in.Config.Mode; mode.Routes() {
		p.refuse(s, ReasonNotSupported, "address %s is refused: an address from DHCP is of one link, and with %s routers bring what is for a VIP", text, mode)
		return
	}
	if s.dhcp == nil {
		s.dhcp = &schema.LinkSpec{Kind: schema.LinkMacvlan, DHCP: &schema.DHCPSpec{Attempts: p.in.Config.DHCPAttempts}}
	}
	s.dhcp.DHCP.IPv4 = s.dhcp.DHCP.IPv4 || ip.Is4()
	s.dhcp.DHCP.IPv6 = s.dhcp.DHCP.IPv6 || ip.Is6()
}

// giveLink fills in the link of a Service that wants addresses from DHCP, and
// the addresses that it has from it. A Service that cannot have the link is
// served without.
func (p *planner) giveLink(s *service) {
	if s.dhcp == nil {
		return
	}
	s.dhcp.Name = macvlanName(s)
	if why := p.refuseLink(s); why != "" {
		p.refuse(s, ReasonLinkRefused, "%s; the Service gets no address from DHCP", why)
		s.dhcp = nil
		return
	}
	s.dhcp.MAC = p.names[s.dhcp.Name].mac
	s.dhcp.RPFilter = p.rpFilter(s)
	d := s.dhcp.DHCP
	d.Broadcast = isTrue(s.Service, annotationBroadcast)
	d.Hostname = cmp.Or(p.hostname(s), d.Hostname)
	d.Requested = p.requestedAddresses(s)
	s.addresses = append(s.addresses, s.token())
	for _, l := range p.in.Leases[schema.Key(s.Namespace, s.Name)] {
		p.giveLease(s, l)
	}
}

// giveLease gives the Service an address that a server lent, unless somebody
// else has it.
func (p *planner) giveLease(s *service, l schema.Lease) {
	if l.Interface != s.dhcp.Name || !s.dhcp.DHCP.Wants(l.IP.Is4()) || slices.Contains(s.addresses, l.IP) {
		return
	}
	if err := p.allowed(s, l.IP); err != nil {
		p.refuseHere(s, ReasonAddressRefused, "address %s, which a DHCP server lent, is refused: it %v", l.IP, err)
		return
	}
	if p.in.Taken[l.IP] {
		s.dhcp.DHCP.Declined = append(s.dhcp.DHCP.Declined, l.IP)
		p.refuseHere(s, ReasonAddressRefused, "address %s, which a DHCP server lent, is refused: another host has it", l.IP)
		return
	}
	if s.lent == nil {
		s.lent = map[netip.Addr]schema.Lease{}
	}
	s.lent[l.IP] = l
	s.addresses = append(s.addresses, l.IP)
}

// macvlanName is the link that the Service asks for, or one of its own.
func macvlanName(s *service) string {
	uid := string(s.UID)
	return cmp.Or(s.Annotations[annotationMacvlan], "vip-"+uid[:min(len(uid), 8)])
}

// nameUse is what is known of a macvlan before any is given.
type nameUse struct {
	// first is the oldest Service that wants the link, and mac its address.
	first *service
	mac   string
	// shared: the oldest one shares it by the annotation.
	shared bool
}

// linkNames looks at the macvlans of all Services, which come the oldest first.
// The hardware address of one is what the oldest Service with the annotation
// says. elector itself writes it there once an address was lent, so that it
// stays when the Service goes that it was made of.
func linkNames(services []*service) map[string]*nameUse {
	n := map[string]*nameUse{}
	for _, s := range services {
		items, err := requested(s.Service)
		byName := isTrue(s.Service, annotationDDNS) && slices.ContainsFunc(items, isHostName)
		if err != nil || !byName && !slices.ContainsFunc(items, asksDHCP) {
			continue
		}
		name := macvlanName(s)
		if n[name] == nil {
			n[name] = &nameUse{first: s, shared: s.Annotations[annotationMacvlan] != ""}
		}
		mac := strings.ToLower(s.Annotations[annotationMAC])
		if schema.ValidateMAC(mac) == nil && n[name].mac == "" {
			n[name].mac = mac
		}
	}
	for _, use := range n {
		use.mac = cmp.Or(use.mac, madeMAC(string(use.first.UID)))
	}
	return n
}

// madeMAC makes a locally administered address of a Service's UID, the same on
// every node and after every restart, so that the server knows the client.
func madeMAC(uid string) string {
	sum := sha256.Sum256([]byte("vipod macvlan " + uid))
	return fmt.Sprintf("%02x:%02x:%02x:%02x:%02x:%02x", sum[0]&^1|2, sum[1], sum[2], sum[3], sum[4], sum[5])
}

// refuseLink says why the Service cannot have the macvlan, "" if it can.
func (p *planner) refuseLink(s *service) string {
	name, use := s.dhcp.Name, p.names[s.dhcp.Name]
	mac := s.Annotations[annotationMAC]
	switch {
	case schema.ValidateInterface(name) != nil:
		return "annotation " + annotationMacvlan + " " + config.Quote(name) + " is not the name of a link"
	case mac != "" && schema.ValidateMAC(mac) != nil:
		return "annotation " + annotationMAC + " " + config.Quote(mac) + " is not a host's Ethernet address"
	case name == controlPlaneLink && p.in.Config.ControlPlane.DDNS:
		return "link " + name + " belongs to the control plane's VIP"
	case use.first != s && (!use.shared || s.Annotations[annotationMacvlan] == ""):
		return "link " + name + " belongs to Service " + use.first.path() + ", which is older"
	case use.first != s && (use.first.Annotations[annotationVLAN] != s.Annotations[annotationVLAN] ||
		wantedLink(p.in.Config, use.first) != wantedLink(p.in.Config, s)):
		return "link " + name + " of Service " + use.first.path() + ", which is older, is on another interface"
	case s.vlan != nil && s.vlan.Name == name:
		return "link " + name + " cannot be both the VLAN and on it"
	}
	for _, l := range p.in.Links {
		if l.MAC == use.mac && l.Name != name {
			return "hardware address " + use.mac + " is that of link " + l.Name + " of node " + p.in.Config.NodeName
		}
	}
	for other, u := range p.names {
		if other != name && u.mac == use.mac && older(u.first, use.first) {
			return "hardware address " + use.mac + " belongs to link " + other + " of Service " + u.first.path() + ", which is older"
		}
	}
	if err := p.allowed(s, s.token()); err != nil {
		return "link " + name + " is shared, and " + err.Error()
	}
	return ""
}

// older says whether a comes before b in the order of Services.
func older(a, b *service) bool {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
		cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name)) < 0
}

func (p *planner) rpFilter(s *service) int {
	text := s.Annotations[annotationRPFilter]
	if text == "" {
		return 0
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > 2 {
		p.refuse(s, ReasonLinkRefused, "annotation %s %s is not 0, 1 or 2; 0 is taken", annotationRPFilter, config.Quote(text))
		return 0
	}
	return n
}

// hostname is the name that the DHCP server is told.
func (p *planner) hostname(s *service) string {
	name := s.Annotations[annotationHostname]
	if name == "" || isHostName(name) {
		return name
	}
	p.refuse(s, ReasonLinkRefused, "annotation %s %s is not a host name and is not sent", annotationHostname, config.Quote(name))
	return ""
}

// requestedAddresses are those that the server is asked for first. It decides,
// so that one that is no address is told and left out.
func (p *planner) requestedAddresses(s *service) []netip.Addr {
	var list []netip.Addr
	text := s.Annotations[annotationRequested]
	items := strings.Split(text, ",")
	if len(items) > 2 {
		p.refuse(s, ReasonLinkRefused, "annotation %s %s has more than two addresses and is not used", annotationRequested, config.Quote(text))
		return nil
	}
	for _, item := range items {
		if item = strings.TrimSpace(item); item == "" {
			continue
		}
		ip, err := parse(item)
		if err != nil {
			p.refuse(s, ReasonLinkRefused, "annotation %s: %s is not asked for: it %v", annotationRequested, config.Quote(item), err)
			continue
		}
		list = append(list, ip)
	}
	return list
}

// token is what is claimed for the Service's macvlan.
func (s *service) token() netip.Addr {
	if s.dhcp == nil {
		return netip.Addr{}
	}
	return claim.Token("macvlan " + s.dhcp.Name)
}

// Token is what is claimed for a link whose addresses DHCP servers lend; it is
// invalid for any other.
func Token(l *schema.LinkSpec) netip.Addr {
	if l == nil || l.DHCP == nil {
		return netip.Addr{}
	}
	return claim.Token("macvlan " + l.Name)
}
