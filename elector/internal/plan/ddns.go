package plan

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/vipod/vipod/elector/internal/claim"
	"github.com/vipod/vipod/elector/internal/config"
	"github.com/vipod/vipod/shared/schema"
)

// controlPlaneLink is the macvlan of a control plane's VIP that DHCP lends.
const controlPlaneLink = "vip-control"

// lendControlPlane gives the control plane's VIP a macvlan on which DHCP is
// asked by the VIP's host name, and the addresses that were lent there. The
// server enters the name into DNS; what it stands for there already is asked
// for first.
func (p *planner) lendControlPlane(v *VIP) {
	c := p.in.Config
	name := c.ControlPlane.Names[0]
	d := &schema.DHCPSpec{Attempts: c.DHCPAttempts, Requested: ofMode(p.in.Names[name], c.NameMode)}
	d.IPv4, d.IPv6 = c.NameMode != config.NameIPv6, c.NameMode == config.NameIPv6 || c.NameMode == config.NameDual
	d.Hostname, _, _ = strings.Cut(name, ".")
	d.Requested = slices.DeleteFunc(slices.Clone(d.Requested), func(ip netip.Addr) bool { return !ip.IsGlobalUnicast() })
	v.Token = claim.Token("macvlan " + controlPlaneLink)
	family := netip.IPv6Unspecified()
	if d.IPv4 {
		family = netip.IPv4Unspecified()
	}
	parent, why := p.links.choose(family, c.Interface)
	if why == "" && !parent.Up && !p.links.allowDown {
		why = "interface " + parent.Name + " is down"
	}
	if v.Why = why; why == "" && p.in.Linkd != "" && !p.in.Linked[v.Key] {
		v.Why = p.in.Linkd
	}
	if parent.Name == "" || parent.Name == controlPlaneLink {
		return
	}
	v.Links = []schema.LinkSpec{{
		Kind: schema.LinkMacvlan, Name: controlPlaneLink, Parent: parent.Name, MAC: madeMAC("control plane " + name), DHCP: d,
	}}
	for _, l := range p.in.Leases[v.Key] {
		if l.Interface == controlPlaneLink && d.Wants(l.IP.Is4()) {
			v.Addresses = append(v.Addresses, p.placeLent(controlPlaneLink, l))
		}
	}
	slices.SortFunc(v.Addresses, func(a, b schema.Address) int { return a.IP.Compare(b.IP) })
}
