package claim

import (
	"crypto/sha256"
	"net/netip"
)

// tokens is the prefix of tokens: no host has an address from it (RFC 6666).
var tokens = netip.MustParsePrefix("100::/64")

// Token stands in the protocol for something that only one node may have and
// that has no address yet, such as a link whose address a DHCP server will
// lend. Every node makes the same token of a name; it is claimed like an
// address, and needs no probe, since no stranger can have it.
func Token(name string) netip.Addr {
	b := tokens.Addr().As16()
	sum := sha256.Sum256([]byte(name))
	copy(b[8:], sum[:8])
	return netip.AddrFrom16(b)
}

// IsToken says whether an address stands for something else.
func IsToken(ip netip.Addr) bool { return tokens.Contains(ip) }
