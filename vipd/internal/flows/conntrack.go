package flows

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Forget deletes the conntrack entries of UDP datagrams to the addresses whose
// destination was not translated, and returns how many there were. It needs
// CAP_NET_ADMIN. A kernel without conntrack has none, which is no error.
func Forget(addrs map[netip.Addr]bool) (int, error) {
	families := map[netlink.InetFamily]bool{}
	for ip := range addrs {
		if ip.Is4() {
			families[unix.AF_INET] = true
		} else {
			families[unix.AF_INET6] = true
		}
	}
	total := 0
	var errs []error
	for family := range families {
		n, err := netlink.ConntrackDeleteFilters(netlink.ConntrackTable, family, untranslated(addrs))
		total += int(n)
		if err != nil && !lacking(err) {
			errs = append(errs, fmt.Errorf("deleting conntrack entries: %w", err))
		}
	}
	return total, errors.Join(errs...)
}

func lacking(err error) bool {
	return errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EPROTONOSUPPORT) || errors.Is(err, unix.EINVAL)
}

// untranslated are the addresses whose flows are looked for.
type untranslated map[netip.Addr]bool

// MatchConntrackFlow implements netlink.CustomConntrackFilter: an answer would
// come from the very address that was asked.
func (u untranslated) MatchConntrackFlow(flow *netlink.ConntrackFlow) bool {
	return flow.Forward.Protocol == unix.IPPROTO_UDP && u[addr(flow.Forward.DstIP)] &&
		flow.Reverse.SrcIP.Equal(flow.Forward.DstIP)
}

func addr(ip net.IP) netip.Addr {
	a, _ := netip.AddrFromSlice(ip)
	return a.Unmap()
}
