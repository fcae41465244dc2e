package schema

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vipod/vipod/shared/ownership"
)

// LinkKind is the kind of a link that linkd makes, as the kernel names it.
type LinkKind string

// Kinds of links.
const (
	LinkVLAN    LinkKind = "vlan"
	LinkMacvlan LinkKind = "macvlan"
)

// LinkSpec is a link that a VIP needs and that linkd makes.
type LinkSpec struct {
	Kind   LinkKind `json:"kind"`
	Name   string   `json:"name"`
	Parent string   `json:"parent"`
	// VLAN is the id of a VLAN, 1 to 4094 (IEEE 802.1Q).
	VLAN int `json:"vlan,omitempty"`
	// MAC is a macvlan's, the same on every node.
	MAC string `json:"mac,omitempty"`
	// RPFilter is a macvlan's rp_filter, 0 to 2 (ip-sysctl).
	RPFilter int `json:"rpFilter,omitempty"`
	// DHCP asks for addresses on the link.
	DHCP *DHCPSpec `json:"dhcp,omitempty"`
}

// DHCPSpec says which addresses to ask a DHCP server for, and as whom.
type DHCPSpec struct {
	IPv4 bool `json:"ipv4,omitempty"`
	IPv6 bool `json:"ipv6,omitempty"`
	// Hostname is sent as options 12 and 61, with DHCPv6 as the FQDN.
	Hostname string `json:"hostname,omitempty"`
	// Requested are addresses that are asked for first: those of an earlier
	// lease, on whatever node.
	Requested []netip.Addr `json:"requested,omitempty"`
	// Broadcast asks the server to answer by broadcast.
	Broadcast bool `json:"broadcast,omitempty"`
	// Attempts is after how many failures to stop trying, 0 for never.
	Attempts int `json:"attempts,omitempty"`
	// Release, in a withdrawn document: the Service is gone for good, so that
	// the lease is given back.
	Release bool `json:"release,omitempty"`
	// Declined are addresses that another host was found to have.
	Declined []netip.Addr `json:"declined,omitempty"`
}

// Wants says whether an address of the family is asked for.
func (d *DHCPSpec) Wants(is4 bool) bool {
	return d != nil && (is4 && d.IPv4 || !is4 && d.IPv6)
}

// maxHostname is a DNS name's length (RFC 1035), which fits into an option.
const maxHostname = 253

func (l LinkSpec) validate() error {
	if err := errors.Join(ValidateInterface(l.Name), ValidateInterface(l.Parent)); err != nil {
		return err
	}
	switch {
	case l.Name == l.Parent:
		return fmt.Errorf("link %s is its own parent", l.Name)
	case l.Kind == LinkVLAN && (l.VLAN < 1 || l.VLAN > 4094):
		return fmt.Errorf("vlan %d is not 1 to 4094", l.VLAN)
	case l.Kind != LinkVLAN && l.Kind != LinkMacvlan:
		return fmt.Errorf("kind %q is not vlan or macvlan", l.Kind)
	case l.RPFilter < 0 || l.RPFilter > 2:
		return fmt.Errorf("rpFilter %d is not 0 to 2", l.RPFilter)
	case l.DHCP != nil && len(l.DHCP.Hostname) > maxHostname:
		return fmt.Errorf("dhcp.hostname has %d bytes, more than %d", len(l.DHCP.Hostname), maxHostname)
	}
	if l.MAC != "" {
		return ValidateMAC(l.MAC)
	}
	return nil
}

// ValidateMAC checks that text is an Ethernet address that a host may have:
// neither zero nor a group's.
func ValidateMAC(text string) error {
	mac, err := net.ParseMAC(text)
	if err != nil || len(mac) != 6 || mac[0]&1 != 0 || [6]byte(mac) == [6]byte{} {
		return fmt.Errorf("mac %q is not a host's Ethernet address", text)
	}
	return nil
}

// DHCPLink returns the link that DHCP is asked for on, nil for none.
func (v *VIP) DHCPLink() *LinkSpec {
	for i := range v.Links {
		if v.Links[i].DHCP != nil {
			return &v.Links[i]
		}
	}
	return nil
}

// LinkStatus is linkd's report about the links of one VIP document.
type LinkStatus struct {
	Meta
	Key string `json:"key"`
	// Observed is the VIP document that this report is about.
	Observed Observed `json:"observed"`
	// Links are those of the document, in its order.
	Links      []LinkState `json:"links"`
	Leases     []Lease     `json:"leases,omitempty"`
	Conditions []Condition `json:"conditions"`
}

// LinkState is one link as linkd found or made it.
type LinkState struct {
	Name  string `json:"name"`
	Index int    `json:"index,omitempty"` // 0 for a link that is not there
	MAC   string `json:"mac,omitempty"`
	// Up: administratively up.
	Up bool `json:"up,omitempty"`
	// Owned: made by linkd, and removed by it when nobody needs it.
	Owned bool `json:"owned,omitempty"`
}

// Lease is an address that a DHCP server lent. Times are nanoseconds of
// CLOCK_BOOTTIME of the boot that the report's instance names.
type Lease struct {
	Source       Source     `json:"source"` // dhcp4 or dhcp6
	Interface    string     `json:"interface"`
	IP           netip.Addr `json:"ip"`
	PrefixLength int        `json:"prefixLength"`
	// Boot is the boot id that the times are of.
	Boot       string `json:"boot"`
	ValidUntil int64  `json:"validUntil"`
	RenewAt    int64  `json:"renewAt"`
	RebindAt   int64  `json:"rebindAt"`
	// Server identifies the server: its address, or its DUID in hex.
	Server string `json:"server,omitempty"`
	// ServerMAC is where the server's answers came from.
	ServerMAC string `json:"serverMAC,omitempty"`
}

// SchemaName implements Document.
func (*LinkStatus) SchemaName() string { return ownership.SchemaLink }

// DocumentKey implements Keyed.
func (s *LinkStatus) DocumentKey() string { return s.Key }

// Validate implements Document.
func (s *LinkStatus) Validate() error {
	if err := ValidateKey(s.Key); err != nil {
		return err
	}
	for i, l := range s.Links {
		if err := ValidateInterface(l.Name); err != nil {
			return fmt.Errorf("links[%d]: %w", i, err)
		}
	}
	for i, l := range s.Leases {
		a := Address{IP: l.IP, PrefixLength: l.PrefixLength, Interface: l.Interface}
		switch err := a.validate(); {
		case err != nil:
			return fmt.Errorf("leases[%d]: %w", i, err)
		case l.Source != SourceDHCP4 && l.Source != SourceDHCP6:
			return fmt.Errorf("leases[%d]: source %q is not dhcp4 or dhcp6", i, l.Source)
		case l.Boot == "":
			return fmt.Errorf("leases[%d]: boot is empty", i)
		}
	}
	return nil
}

// Lease returns the lease of an address, if it is one of this boot.
func (s *LinkStatus) Lease(ip netip.Addr, boot string) (Lease, bool) {
	for _, l := range s.Leases {
		if l.IP == ip && l.Boot == boot {
			return l, true
		}
	}
	return Lease{}, false
}
