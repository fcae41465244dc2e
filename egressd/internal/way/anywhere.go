package way

import (
	"net"
	"net/netip"
)

// anywhere is the default route's destination, in the library's type.
func anywhere(ip netip.Addr) *net.IPNet {
	n := ip.BitLen() / 8
	return &net.IPNet{IP: make(net.IP, n), Mask: make(net.IPMask, n)}
}
