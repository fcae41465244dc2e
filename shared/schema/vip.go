package schema

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/vipod/vipod/shared/ownership"
)

// ControlPlaneKey is the key of the control plane's VIP document. No Service
// has it: a namespace never starts with an underscore.
const ControlPlaneKey = "_control-plane"

// Kind says what a VIP is for.
type Kind string

// Kinds of VIP.
const (
	KindService      Kind = "service"
	KindControlPlane Kind = "control-plane"
	// KindPods: pods of this node have the address themselves.
	KindPods Kind = "pods"
)

// State is what the other daemons shall do with a VIP.
type State string

// States of a VIP.
const (
	// StateActive: addresses present, announced, defended, while the grant
	// lasts.
	StateActive State = "active"
	// StateDraining: addresses present but mute: no frame of this node claims
	// them any more, while a successor takes over.
	StateDraining State = "draining"
	// StateStandby: nothing in the kernel; arpd finds out whether a stranger
	// answers for the addresses before this node claims them.
	StateStandby State = "standby"
	// StateWithdrawn: nothing in the kernel, nothing announced.
	StateWithdrawn State = "withdrawn"
)

// GrantName names the permission under which a VIP may be claimed.
type GrantName string

// Grants.
const (
	// GrantNode lasts as long as the node's own Lease.
	GrantNode GrantName = "node"
	// GrantControlPlane lasts as long as the control plane's Lease, which is
	// another object with another holder.
	GrantControlPlane GrantName = "control-plane"
	// GrantNone is for modes in which every node may claim.
	GrantNone GrantName = "none"
)

// Announce is a protocol by which a VIP is made known.
type Announce string

// Protocols of announcement.
const (
	AnnounceARP Announce = "arp"
	AnnounceNDP Announce = "ndp"
)

// Source says where an address came from.
type Source string

// Sources of addresses.
const (
	SourceStatic Source = "static"
	// SourceDHCP4 and SourceDHCP6: lent by a server, for as long as linkd's
	// report says.
	SourceDHCP4 Source = "dhcp4"
	SourceDHCP6 Source = "dhcp6"
	// SourceDNS: what a name stands for.
	SourceDNS Source = "dns"
)

// Leased says whether a DHCP server lends addresses of this source.
func (s Source) Leased() bool { return s == SourceDHCP4 || s == SourceDHCP6 }

// Address is one address of a VIP and where it belongs.
type Address struct {
	IP           netip.Addr `json:"ip"`
	PrefixLength int        `json:"prefixLength"`
	// Interface is empty for an address that no link gets: it is announced,
	// and what arrives for it is passed on, not received.
	Interface string `json:"interface,omitempty"`
	Source    Source `json:"source"`
}

// Prefix returns the address with its prefix length.
func (a Address) Prefix() netip.Prefix { return netip.PrefixFrom(a.IP, a.PrefixLength) }

// VIP is elector's intent for one Service or for the control plane.
type VIP struct {
	Meta
	// Key names the document: "<namespace>.<name>" or ControlPlaneKey.
	Key string `json:"key"`
	// UID is the Service's UID, empty for the control plane.
	UID   string    `json:"uid,omitempty"`
	Kind  Kind      `json:"kind"`
	State State     `json:"state"`
	Grant GrantName `json:"grant"`
	// Epoch is the resourceVersion of the update that made this node the
	// owner. It grows with every change of owner.
	Epoch     string     `json:"epoch,omitempty"`
	Addresses []Address  `json:"addresses"`
	Announce  []Announce `json:"announce,omitempty"`
	// Links are those that linkd makes for the VIP, a parent before what is
	// on top of it.
	Links []LinkSpec `json:"links,omitempty"`
	// Firewall and Balance are present where they are switched on.
	Firewall *Firewall `json:"firewall,omitempty"`
	Balance  *Balance  `json:"balance,omitempty"`
	// BGP and Route say more about those protocols of announcement.
	BGP   *PathAttributes `json:"bgp,omitempty"`
	Route *Route          `json:"route,omitempty"`
	// WireGuard is present where the VIP is reached through a tunnel.
	WireGuard *WireGuard `json:"wireguard,omitempty"`
	// Via are the pods of this node that have the addresses themselves: other
	// addresses of theirs. vipd routes the addresses to those of their family.
	Via []netip.Addr `json:"via,omitempty"`
}

// Announces says whether the VIP is made known by the protocol.
func (v *VIP) Announces(a Announce) bool { return slices.Contains(v.Announce, a) }

// SchemaName implements Document.
func (*VIP) SchemaName() string { return ownership.SchemaVIP }

// DocumentKey implements Keyed.
func (v *VIP) DocumentKey() string { return v.Key }

// Validate implements Document.
func (v *VIP) Validate() error {
	if err := ValidateKey(v.Key); err != nil {
		return err
	}
	switch v.Kind {
	case KindService, KindControlPlane, KindPods:
	default:
		return fmt.Errorf("kind %q is not service, control-plane or pods", v.Kind)
	}
	switch v.State {
	case StateActive, StateDraining, StateStandby, StateWithdrawn:
	default:
		return fmt.Errorf("state %q is not active, draining, standby or withdrawn", v.State)
	}
	switch v.Grant {
	case GrantNode, GrantControlPlane, GrantNone:
	default:
		return fmt.Errorf("grant %q is not node, control-plane or none", v.Grant)
	}
	for i, a := range v.Addresses {
		if err := a.validate(); err != nil {
			return fmt.Errorf("addresses[%d]: %w", i, err)
		}
		if a.Interface == "" && (v.Announces(AnnounceARP) || v.Announces(AnnounceNDP)) {
			return fmt.Errorf("addresses[%d]: interface is missing", i)
		}
	}
	if err := v.validateVia(); err != nil {
		return err
	}
	if v.Route != nil {
		if err := v.Route.validate(); err != nil {
			return fmt.Errorf("route: %w", err)
		}
	}
	for i, l := range v.Links {
		if err := l.validate(); err != nil {
			return fmt.Errorf("links[%d]: %w", i, err)
		}
	}
	if v.Firewall != nil {
		if err := v.Firewall.validate(); err != nil {
			return err
		}
	}
	if v.Balance != nil {
		if err := v.Balance.validate(); err != nil {
			return err
		}
	}
	if v.WireGuard != nil {
		return v.WireGuard.validate()
	}
	return nil
}

func (v *VIP) validateVia() error {
	for i, ip := range v.Via {
		if !ip.IsValid() || ip.Zone() != "" || ip.Is4In6() || ip.IsUnspecified() || ip.IsMulticast() || ip.IsLoopback() {
			return fmt.Errorf("via[%d]: %s is not the address of a pod", i, ip)
		}
	}
	return nil
}

// broadcast is the limited broadcast address, RFC 919.
var broadcast = netip.AddrFrom4([4]byte{255, 255, 255, 255})

// Placed says whether the address belongs on an interface.
func (a Address) Placed() bool { return a.Interface != "" }

func (a Address) validate() error {
	switch {
	case !a.IP.IsValid():
		return errors.New("ip is missing")
	case a.IP.Zone() != "" || a.IP.Is4In6():
		return fmt.Errorf("ip %s has a zone or is IPv4-mapped", a.IP)
	case a.IP.IsUnspecified() || a.IP.IsMulticast() || a.IP.IsLoopback() || a.IP == broadcast:
		return fmt.Errorf("ip %s is unspecified, multicast, broadcast or loopback", a.IP)
	case a.PrefixLength < 1 || a.PrefixLength > a.IP.BitLen():
		return fmt.Errorf("prefixLength %d is not 1 to %d", a.PrefixLength, a.IP.BitLen())
	}
	if a.Interface == "" {
		return nil
	}
	return ValidateInterface(a.Interface)
}

// ValidateInterface checks an interface name as the kernel does
// (dev_valid_name): 1 to 15 bytes, no slash, colon or white space, neither
// "." nor "..". It allows printable ASCII only, since names are logged.
func ValidateInterface(name string) error {
	if name == "" || len(name) > 15 || name == "." || name == ".." ||
		strings.ContainsFunc(name, func(r rune) bool {
			return r == '/' || r == ':' || r <= ' ' || r > '~'
		}) {
		return fmt.Errorf("interface %q is not a valid name", name)
	}
	return nil
}

// Key returns the key of a Service's VIP document. A namespace holds no dot
// (RFC 1123 label), so the keys of two Services never meet.
func Key(namespace, name string) string { return namespace + "." + name }

// maxKey leaves room in a file name (255 bytes) for what a writer adds; the
// longest key of a Service is two labels of 63 bytes and a dot.
const maxKey = 200

// ValidateKey checks that a key is safe as a file name.
func ValidateKey(key string) error {
	if key == "" || len(key) > maxKey || key[0] == '.' ||
		strings.ContainsFunc(key, func(r rune) bool { return !keyRune(r) }) {
		return fmt.Errorf("key %q is not a valid document name", key)
	}
	return nil
}

func keyRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' || r == '.' || r == '_'
}
