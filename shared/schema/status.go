package schema

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/vipod/vipod/shared/ownership"
)

// Types of conditions that one daemon sets and another acts on.
const (
	// ConditionReady, in a Daemon document: the daemon does its work.
	ConditionReady = "Ready"
	// ConditionDocuments, in a Daemon document: every document that the daemon
	// reads could be read.
	ConditionDocuments = "DocumentsReadable"
	// ConditionPresent, by vipd: every address of the VIP is in the kernel.
	ConditionPresent = "Present"
	// ConditionMuted, by vipd: the kernel drops every frame by which this
	// node would claim an address of the VIP.
	ConditionMuted = "Muted"
	// ConditionFenced, by vipd: the addresses are covered by the fence, which
	// closes by itself when the grant ends.
	ConditionFenced = "Fenced"
	// ConditionAnnounced, by arpd: the VIP's first announcements were sent.
	ConditionAnnounced = "Announced"
	// ConditionConflict, by arpd: another host claims an address of the VIP.
	ConditionConflict = "Conflict"
	// ConditionUnclaimed, by arpd for a standby VIP: True when probing found
	// that nobody answers for the addresses, False when somebody does.
	ConditionUnclaimed = "Unclaimed"
	// ConditionLinked, by linkd: every link of the VIP is there and up.
	ConditionLinked = "Linked"
	// ConditionLeased, by linkd: there is a lease for every address that the
	// VIP asks of DHCP.
	ConditionLeased = "Leased"
	// ConditionUnlinked, by linkd: no frame leaves this node from a macvlan of
	// the VIP, so that another node may use its hardware address.
	ConditionUnlinked = "Unlinked"
	// ConditionEgress, by egressd: the connections of the Service's pods on
	// this node leave with the VIP as their source.
	ConditionEgress = "Egress"
	// ConditionFirewalled, by egressd: only the Service's ports are reached.
	ConditionFirewalled = "Firewalled"
	// ConditionBalanced, by egressd: connections are spread over backends.
	ConditionBalanced = "Balanced"
)

// Status is a daemon's report about one VIP document.
type Status struct {
	Meta
	Key string `json:"key"`
	// Observed is the VIP document that this report is about.
	Observed   Observed        `json:"observed"`
	Addresses  []AddressStatus `json:"addresses,omitempty"`
	Conditions []Condition     `json:"conditions"`
}

// AddressStatus is what a daemon found or did for one address.
type AddressStatus struct {
	IP        netip.Addr `json:"ip"`
	Interface string     `json:"interface"`
	// Present, by vipd: the address is in the kernel and marked as ours.
	Present bool `json:"present,omitempty"`
	// ConflictMAC, by arpd: the link-layer address of another host that
	// claims or answers for the address.
	ConflictMAC string `json:"conflictMAC,omitempty"`
}

// SchemaName implements Document.
func (*Status) SchemaName() string { return ownership.SchemaStatus }

// DocumentKey implements Keyed.
func (s *Status) DocumentKey() string { return s.Key }

// Validate implements Document.
func (s *Status) Validate() error { return ValidateKey(s.Key) }

// Daemon is a daemon's report about itself.
type Daemon struct {
	Meta
	Name string `json:"name"`
	// Observed is the Node document that the daemon acts on.
	Observed   Observed    `json:"observed"`
	Conditions []Condition `json:"conditions"`
	// Links, by vipd: the links of this node.
	Links []Link `json:"links,omitempty"`
	// Tunnels, by egressd: those that its file has.
	Tunnels []Tunnel `json:"tunnels,omitempty"`
}

// Link is one network link as vipd sees it.
type Link struct {
	Name  string `json:"name"`
	Index int    `json:"index"`
	MAC   string `json:"mac,omitempty"`
	// Up: administratively up and with carrier, held down for a while after
	// it flapped.
	Up bool `json:"up"`
	// Addresses are the node's own, without those that vipd put there.
	Addresses []netip.Prefix `json:"addresses,omitempty"`
	// DefaultIPv4 and DefaultIPv6 say that a default route of the main table
	// leaves through this link.
	DefaultIPv4 bool `json:"defaultIPv4,omitempty"`
	DefaultIPv6 bool `json:"defaultIPv6,omitempty"`
}

// SchemaName implements Document.
func (*Daemon) SchemaName() string { return ownership.SchemaDaemon }

// Validate implements Document.
func (d *Daemon) Validate() error {
	if d.Name == "" {
		return errors.New("name is empty")
	}
	for i, l := range d.Links {
		if err := ValidateInterface(l.Name); err != nil {
			return fmt.Errorf("links[%d]: %w", i, err)
		}
	}
	for i, t := range d.Tunnels {
		if err := t.validate(); err != nil {
			return fmt.Errorf("tunnels[%d]: %w", i, err)
		}
	}
	return nil
}
