package schema

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/vipod/vipod/shared/ownership"
)

// Protocol is a transport protocol, as a Service's port names it.
type Protocol string

// Protocols of ports.
const (
	TCP  Protocol = "TCP"
	UDP  Protocol = "UDP"
	SCTP Protocol = "SCTP"
)

// Port is a port of a transport protocol.
type Port struct {
	Protocol Protocol `json:"protocol"`
	Port     uint16   `json:"port"`
}

func (p Port) validate() error {
	switch {
	case p.Protocol != TCP && p.Protocol != UDP && p.Protocol != SCTP:
		return fmt.Errorf("protocol %q is not TCP, UDP or SCTP", p.Protocol)
	case p.Port == 0:
		return errors.New("port is 0")
	}
	return nil
}

// Egress is what leaves this node as coming from a Service's VIP. There is one
// on every node that has a pod of the Service, whoever owns the VIP: where the
// VIP's own document of the same key is active, the pods' connections get its
// address as their source; everywhere else they are held back, since any other
// source would be a wrong one.
type Egress struct {
	Meta
	Key string `json:"key"`
	// Pods are the addresses of this node's pods that the Service selects.
	Pods []netip.Addr `json:"pods"`
	// Elsewhere are those on other nodes that leave through this one while it
	// owns the VIP.
	Elsewhere []netip.Addr `json:"elsewhere,omitempty"`
	// Gateways are addresses of the node that owns the VIP, at most one of each
	// family, through which the pods leave while this node does not own it.
	// Without one they are held back.
	Gateways []netip.Addr `json:"gateways,omitempty"`
	// Internal: destinations inside of the cluster get the VIP as well.
	Internal bool `json:"internal,omitempty"`
	// Denied are destinations that never get the VIP.
	Denied []netip.Prefix `json:"denied,omitempty"`
	// Allowed are the only destinations that get it, if there are any.
	Allowed []netip.Prefix `json:"allowed,omitempty"`
	// Ports are the only destination ports that get it, if there are any.
	Ports []Port `json:"ports,omitempty"`
	// IPv6Only leaves IPv4 alone.
	IPv6Only bool `json:"ipv6Only,omitempty"`
	// Hold says why the pods are held back even where the VIP is active: the
	// Service asks for something that cannot be done. Empty if it does not.
	Hold string `json:"hold,omitempty"`
	// Flush, if present, asks to forget the connections to and from the VIP
	// when it becomes active here.
	Flush *Flush `json:"flush,omitempty"`
	// Guard is what the document of EgressGuardKey has, and nothing else.
	Guard *Guard `json:"guard,omitempty"`
}

// EgressGuardKey is the key of the document that holds unknown pods back.
const EgressGuardKey = "_guard"

// Guard holds back, as far as it would leave the cluster, what comes from an
// address of this node's pods that no pod is known to have: it could be of a
// Service that wants it to leave with its VIP.
type Guard struct {
	// Networks are those of this node's pods.
	Networks []netip.Prefix `json:"networks"`
	// Known are the addresses of pods that no Service wants to leave so. Those
	// that one does are in its own document.
	Known []netip.Addr `json:"known"`
}

func validatePods(field string, list []netip.Addr) error {
	for i, ip := range list {
		if !ip.IsValid() || ip.Zone() != "" || ip.Is4In6() || ip.IsUnspecified() || ip.IsMulticast() || ip.IsLoopback() {
			return fmt.Errorf("%s[%d]: %s is no pod's address", field, i, ip)
		}
	}
	return nil
}

// Flush says which connections are forgotten: all if no port is named.
type Flush struct {
	SourcePorts      []Port `json:"sourcePorts,omitempty"`
	DestinationPorts []Port `json:"destinationPorts,omitempty"`
}

// SchemaName implements Document.
func (*Egress) SchemaName() string { return ownership.SchemaEgress }

// DocumentKey implements Keyed.
func (e *Egress) DocumentKey() string { return e.Key }

// Validate implements Document.
func (e *Egress) Validate() error {
	if err := ValidateKey(e.Key); err != nil {
		return err
	}
	if g := e.Guard; g != nil {
		if err := errors.Join(validatePrefixes("guard.networks", g.Networks), validatePods("guard.known", g.Known)); err != nil {
			return err
		}
	}
	if err := errors.Join(validatePods("pods", e.Pods), validatePods("elsewhere", e.Elsewhere), validatePods("gateways", e.Gateways), validatePrefixes("denied", e.Denied), validatePrefixes("allowed", e.Allowed), validatePorts("ports", e.Ports)); err != nil {
		return err
	}
	if f := e.Flush; f != nil {
		return errors.Join(validatePorts("flush.sourcePorts", f.SourcePorts), validatePorts("flush.destinationPorts", f.DestinationPorts))
	}
	return nil
}

// ValidatePrefix checks that a network is whole and written as such.
func ValidatePrefix(p netip.Prefix) error {
	if !p.IsValid() || p.Addr().Is4In6() || p != p.Masked() {
		return fmt.Errorf("%s is not a network", p)
	}
	return nil
}

func validatePrefixes(field string, list []netip.Prefix) error {
	for i, p := range list {
		if err := ValidatePrefix(p); err != nil {
			return fmt.Errorf("%s[%d]: %w", field, i, err)
		}
	}
	return nil
}

func validatePorts(field string, list []Port) error {
	for i, p := range list {
		if err := p.validate(); err != nil {
			return fmt.Errorf("%s[%d]: %w", field, i, err)
		}
	}
	return nil
}

// Firewall lets nothing but the Service's ports reach the VIP. It is there for
// every Service while the firewall is switched on.
type Firewall struct {
	Ports []Port `json:"ports"`
	// Open: the Service wants no firewall. An address that it shares with a
	// Service that does has one, open for the ports of both.
	Open bool `json:"open,omitempty"`
}

func (f *Firewall) validate() error { return validatePorts("firewall.ports", f.Ports) }

// Balance spreads the connections to a port of the VIP over backends.
type Balance struct {
	Port uint16 `json:"port"`
	// Backends are those that are well, in order.
	Backends []netip.AddrPort `json:"backends"`
}

func (b *Balance) validate() error {
	if b.Port == 0 {
		return errors.New("balance.port is 0")
	}
	if err := validateBackends(b.Backends); err != nil {
		return fmt.Errorf("balance.%w", err)
	}
	return nil
}

func validateBackends(list []netip.AddrPort) error {
	for i, a := range list {
		if !a.IsValid() || a.Port() == 0 || a.Addr().Zone() != "" || a.Addr().Is4In6() || a.Addr().IsUnspecified() || a.Addr().IsMulticast() {
			return fmt.Errorf("backends[%d]: %s is no backend", i, a)
		}
	}
	return nil
}
