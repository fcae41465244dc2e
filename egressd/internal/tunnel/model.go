package tunnel

import (
	"crypto/sha256"
	"encoding/hex"
	"net/netip"
	"slices"
	"time"
)

const (
	// MTU is that of a tunnel's link, as wg-quick(8) has it on Ethernet.
	MTU = 1420
	// Keepalive is the interval of packets that keep a tunnel open through NAT,
	// and by the first of which a new owner makes the far end know it, in
	// seconds.
	Keepalive = 5
	// RulePriority is that of the rules that send marked packets to a tunnel's
	// table.
	RulePriority = 100
	// TemporaryPrefix begins the name of a link that has no alias yet.
	TemporaryPrefix = "vipodwg-"
	aliasPrefix     = "vipod-wireguard:"
	// maxAlias is what the kernel allows for an alias (IFALIASZ), in bytes.
	maxAlias = 255
)

// Alias is the alias of an instance's tunnels.
func Alias(instance string) string {
	alias := aliasPrefix + instance
	if len(alias) <= maxAlias {
		return alias
	}
	sum := sha256.Sum256([]byte(instance))
	return aliasPrefix + hex.EncodeToString(sum[:])
}

// Temporary is the name under which a link is made.
func Temporary(name string) string {
	sum := sha256.Sum256([]byte(name))
	return TemporaryPrefix + hex.EncodeToString(sum[:3])
}

// Family is a family of routes and rules.
type Family string

// Families.
const (
	IPv4 Family = "-4"
	IPv6 Family = "-6"
)

// Families are both, in the order of a plan.
var Families = []Family{IPv4, IPv6}

func (f Family) other() Family {
	if f == IPv4 {
		return IPv6
	}
	return IPv4
}

// Family is the VIP's, and so that of everything that goes through the tunnel.
func (t Tunnel) Family() Family {
	if t.VIP.Addr().Is4() {
		return IPv4
	}
	return IPv6
}

// Desired is what there shall be.
type Desired struct {
	// Tunnels are those that this node may use now.
	Tunnels []Tunnel
	// Idle are the names of those that it may not use, which is known even on
	// an incomplete picture.
	Idle map[string]bool
	// Again are the names of tunnels whose description has changed since their
	// device was configured.
	Again map[string]bool
	// Alias marks our links.
	Alias string
	// Sweep says that what is not wanted goes.
	Sweep bool
}

// Actual is what there is, by name of link.
type Actual struct{ Links map[string]Link }

// Link is a link of the kernel: one of ours, or one that has a tunnel's name.
type Link struct {
	Name, Kind, Alias string
	Up                bool
	MTU               int
	Device
	// Routes says that the table of the device's port has a default route
	// through the link, Rules that marked packets are sent to it, by family.
	Routes, Rules map[Family]bool
}

// Device is the WireGuard part of a link.
type Device struct {
	PrivateKey Key
	Port       uint16
	Peers      []Peer
}

// Peer is a far end.
type Peer struct {
	Key       Key
	Endpoint  netip.AddrPort
	Keepalive uint16 // in seconds
	Allowed   []netip.Prefix
	// Handshake is how long ago the last one was, 0 for never. Received and
	// Sent are bytes.
	Handshake      time.Duration
	Received, Sent uint64
}

// Kind is that of links of WireGuard.
const Kind = "wireguard"

// device is what the tunnel's device shall be like.
func (t Tunnel) device() Device {
	return Device{PrivateKey: t.PrivateKey, Port: t.Port, Peers: []Peer{{
		Key: t.PeerKey, Endpoint: t.Endpoint, Keepalive: Keepalive, Allowed: t.Allowed,
	}}}
}

// configured says whether a device is as the tunnel wants it. Where the far
// end is now is its own business: it may have moved.
func (t Tunnel) configured(d Device) bool {
	want := t.device()
	if d.PrivateKey != want.PrivateKey || d.Port != want.Port || len(d.Peers) != 1 {
		return false
	}
	have := d.Peers[0]
	return have.Key == t.PeerKey && have.Endpoint.IsValid() && have.Keepalive == Keepalive && sameNetworks(have.Allowed, t.Allowed)
}

// sameNetworks compares networks in any order.
func sameNetworks(a, b []netip.Prefix) bool {
	a, b = slices.Clone(a), slices.Clone(b)
	slices.SortFunc(a, netip.Prefix.Compare)
	slices.SortFunc(b, netip.Prefix.Compare)
	return slices.Equal(a, b)
}

// Ours says whether the link is one of the alias's, or one in the making.
func (l Link) Ours(alias string) bool {
	return l.Kind == Kind && (l.Alias == alias || temporary(l.Name))
}

func temporary(name string) bool {
	return len(name) > len(TemporaryPrefix) && name[:len(TemporaryPrefix)] == TemporaryPrefix
}

// Foreign says whether the tunnel's name is taken by a link that is not ours.
func (a Actual) Foreign(t Tunnel, alias string) bool {
	l, ok := a.Links[t.Name]
	return ok && !l.Ours(alias)
}
