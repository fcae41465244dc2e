package plan

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"github.com/vipod/vipod/elector/internal/config"
	"github.com/vipod/vipod/shared/schema"
)

// links are this node's links, prepared for looking up.
type links struct {
	all                []schema.Link
	byName             map[string]schema.Link
	default4, default6 schema.Link
	allowDown          bool
	subnet             config.Subnet
}

func newLinks(in Input) *links {
	l := &links{
		all:       slices.SortedFunc(slices.Values(in.Links), preferred),
		byName:    make(map[string]schema.Link, len(in.Links)),
		allowDown: in.Config.AllowInterfaceDown,
		subnet:    in.Config.Subnet,
	}
	for _, link := range slices.Backward(l.all) {
		l.byName[link.Name] = link
		if link.DefaultIPv4 {
			l.default4 = link
		}
		if link.DefaultIPv6 {
			l.default6 = link
		}
	}
	return l
}

// preferred orders links: those that are up first, then as the kernel does.
func preferred(a, b schema.Link) int {
	up := func(l schema.Link) int {
		if l.Up {
			return 0
		}
		return 1
	}
	return cmp.Or(cmp.Compare(up(a), up(b)), cmp.Compare(a.Index, b.Index), cmp.Compare(a.Name, b.Name))
}

// place returns where on this node an address goes. want is a link's name,
// config.Auto, or "" for the link of the default route. The second result
// says why this node cannot serve the address there, "" if it can.
func (l *links) place(ip netip.Addr, want string) (schema.Address, string) {
	a := schema.Address{IP: ip, PrefixLength: l.length(ip), Source: schema.SourceStatic}
	link, why := l.choose(ip, want)
	if why != "" {
		return a, why
	}
	a.Interface = link.Name
	if !link.Up && !l.allowDown {
		return a, fmt.Sprintf("interface %s is down", link.Name)
	}
	if l.subnet.Auto {
		own, ok := covering(link, ip)
		if !ok {
			return a, fmt.Sprintf("no subnet of interface %s holds %s, so that vip_subnet auto has no length for it", link.Name, ip)
		}
		a.PrefixLength = own.Bits()
	}
	return a, ""
}

// ownAddress says why an address that somebody else gave this node cannot be
// served here, "" if nobody did. It is no refusal, which all nodes must agree
// on: only this node can know of it, and the others find it by their probe.
func (l *links) ownAddress(ip netip.Addr) string {
	for _, link := range l.all {
		for _, own := range link.Addresses {
			if own.Addr().WithZone("").Unmap() == ip {
				return fmt.Sprintf("%s is this node's own address, on interface %s", ip, link.Name)
			}
		}
	}
	return ""
}

func (l *links) length(ip netip.Addr) int {
	switch {
	case l.subnet.Auto:
		return ip.BitLen()
	case ip.Is4():
		return l.subnet.IPv4
	default:
		return l.subnet.IPv6
	}
}

func (l *links) choose(ip netip.Addr, want string) (schema.Link, string) {
	switch want {
	case "":
		return l.byRoute(ip)
	case config.Auto:
		if link, ok := l.bySubnet(ip); ok {
			return link, ""
		}
		return l.byRoute(ip)
	}
	link, ok := l.byName[want]
	if !ok {
		return link, fmt.Sprintf("interface %s is not on this node", want)
	}
	return link, ""
}

// byRoute returns the link of the default route of the address's family, or
// else that of the other family.
func (l *links) byRoute(ip netip.Addr) (schema.Link, string) {
	first, second := l.default4, l.default6
	if ip.Is6() {
		first, second = second, first
	}
	if first.Name == "" {
		first = second
	}
	if first.Name == "" {
		return first, "this node has no default route that would tell the interface"
	}
	return first, ""
}

// bySubnet returns the link with the narrowest own subnet that holds the
// address; of several the preferred one.
func (l *links) bySubnet(ip netip.Addr) (schema.Link, bool) {
	var best schema.Link
	bits := -1
	for _, link := range l.all {
		if own, ok := covering(link, ip); ok && own.Bits() > bits {
			best, bits = link, own.Bits()
		}
	}
	return best, bits >= 0
}

// covering returns the narrowest subnet of a link that holds the address.
func covering(link schema.Link, ip netip.Addr) (netip.Prefix, bool) {
	var best netip.Prefix
	for _, own := range link.Addresses {
		if own.Contains(ip) && (!best.IsValid() || own.Bits() > best.Bits()) {
			best = own
		}
	}
	return best, best.IsValid()
}

// wantedLink returns what place needs to know of a Service: its annotation
// wins over the settings.
func wantedLink(c *config.Config, s *service) string {
	return cmp.Or(s.Annotations[annotationInterface], c.ServicesInterface, c.Interface)
}
