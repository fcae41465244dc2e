package plan

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipod/vipod/elector/internal/config"
)

const (
	// maxAddresses is how many addresses one Service may have.
	maxAddresses = 16
	// maxList is the longest list of addresses that is looked at, in bytes.
	maxList = 4096
)

// requested returns the addresses that a Service asks for, as text. The
// annotation wins over the field. The status is no source: vipod itself
// writes and clears it.
func requested(s *corev1.Service) ([]string, error) {
	list := s.Annotations[annotationAddresses]
	if len(list) > maxList {
		return nil, fmt.Errorf("annotation %s has %d bytes, more than %d", annotationAddresses, len(list), maxList)
	}
	var items []string
	for item := range strings.SplitSeq(list, ",") {
		if item = strings.TrimSpace(item); item != "" {
			items = append(items, item)
		}
	}
	if len(items) > maxAddresses {
		return nil, fmt.Errorf("annotation %s has %d addresses, more than %d", annotationAddresses, len(items), maxAddresses)
	}
	if ip := strings.TrimSpace(s.Spec.LoadBalancerIP); len(items) == 0 && ip != "" {
		items = []string{ip}
	}
	return items, nil
}

// parse returns the address that text is, or an error that completes the
// sentence "it ...".
func parse(text string) (netip.Addr, error) {
	a, err := netip.ParseAddr(text)
	switch {
	case err != nil:
		return a, errAddress("is not an IP address")
	case a.IsUnspecified():
		return a, errAddress("asks for DHCP in a way that is not 0.0.0.0 or ::")
	case a.Zone() != "":
		return a, errAddress("has a zone")
	case a.Is4In6():
		return a, errAddress("is an IPv4 address written as IPv6")
	case a.IsLoopback():
		return a, errAddress("is a loopback address")
	case a.IsMulticast():
		return a, errAddress("is a multicast address")
	case a.IsLinkLocalUnicast():
		return a, errAddress("is a link-local address")
	case a == broadcast:
		return a, errAddress("is the broadcast address")
	case thisNetwork.Contains(a):
		return a, errAddress("is in 0.0.0.0/8, which no host has (RFC 1122)")
	}
	return a, nil
}

var (
	broadcast   = netip.AddrFrom4([4]byte{255, 255, 255, 255})
	thisNetwork = netip.MustParsePrefix("0.0.0.0/8")
)

// errAddress is a reason to refuse an address.
type errAddress string

func (e errAddress) Error() string { return string(e) }

// isHostName says whether text may be a DNS name: letters, digits, dashes and
// dots, with a letter among them.
func isHostName(text string) bool {
	letter := false
	for _, r := range text {
		switch {
		case r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z':
			letter = true
		case r != '.' && r != '-' && (r < '0' || r > '9'):
			return false
		}
	}
	return letter && len(text) <= 253
}

// hasFamily says whether the Service has the address's family at all.
func hasFamily(s *corev1.Service, a netip.Addr) bool {
	return len(s.Spec.IPFamilies) == 0 || slices.Contains(s.Spec.IPFamilies, family(a))
}

func family(a netip.Addr) corev1.IPFamily {
	if a.Is4() {
		return corev1.IPv4Protocol
	}
	return corev1.IPv6Protocol
}

// giveAddresses gives a Service its addresses and refuses the others.
// A Service keeps what is good; only the whole list being unusable leaves it
// without any.
func (p *planner) giveAddresses(s *service) {
	items, err := requested(s.Service)
	if err != nil {
		p.refuse(s, ReasonTooManyAddresses, "%v; the Service gets no VIP", err)
		return
	}
	for i, text := range items {
		if slices.Contains(items[:i], text) {
			continue
		}
		if asksDHCP(text) {
			p.askDHCP(s, text)
			continue
		}
		if isHostName(text) {
			p.giveName(s, text)
			continue
		}
		a, err := parse(text)
		if err == nil {
			err = p.allowed(s, a)
		}
		var inUse errInUse
		switch {
		case err == nil:
			if !slices.Contains(s.addresses, a) {
				s.addresses = append(s.addresses, a)
			}
		case errors.As(err, &inUse):
			p.refuse(s, ReasonAddressInUse, "address %s is refused: %v", a, err)
		default:
			p.refuse(s, ReasonAddressRefused, "address %s is refused: it %v", config.Quote(text), err)
		}
	}
	p.giveLink(s)
	slices.SortFunc(s.addresses, netip.Addr.Compare)
	p.takePorts(s)
}
