package schema

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/vipod/vipod/shared/ownership"
)

// Phase is where elector is in its life.
type Phase string

// Phases of elector.
const (
	// PhaseRunning: intent is kept up to date.
	PhaseRunning Phase = "running"
	// PhaseStopping: the whole pod is going, VIPs are being handed over.
	PhaseStopping Phase = "stopping"
	// PhaseStopped: nothing is owned here any more, clean up and exit.
	PhaseStopped Phase = "stopped"
)

// Node is elector's document about this node.
type Node struct {
	Meta
	Name string `json:"node"`
	// Boot is the boot id for which Synced was said.
	Boot string `json:"boot"`
	// Synced says that the VIP documents are complete: what they do not want
	// may be removed.
	Synced bool  `json:"synced"`
	Phase  Phase `json:"phase"`
	// Components are the daemons that are switched on for this node.
	Components []string `json:"components"`
	Settings   Settings `json:"settings"`
}

// Settings are the effective values that other daemons need.
type Settings struct {
	// InstanceName tells two vipods on one node apart in the names of
	// nftables tables; empty for the only one.
	InstanceName string `json:"instanceName,omitempty"`
	// Protocol marks our addresses (IFA_PROTO), 4 to 255.
	Protocol int `json:"protocol"`
	// LeaseDurationMillis is D, in milliseconds.
	LeaseDurationMillis int64 `json:"leaseDurationMillis"`
	// AnnounceIntervalMillis is the time between two refreshing
	// announcements of one VIP, in milliseconds.
	AnnounceIntervalMillis int64 `json:"announceIntervalMillis"`
	// MetricsAddress is where metricsd listens, "" for nowhere.
	MetricsAddress string `json:"metricsAddress"`
	// LoopbackGlobalScope gives addresses on lo global instead of host scope.
	LoopbackGlobalScope bool `json:"loopbackGlobalScope,omitempty"`
	// InternalNetworks are the cluster's own: pods, and cluster IPs as far as
	// they are known.
	InternalNetworks []netip.Prefix `json:"internalNetworks,omitempty"`
	// RoutingTable is the table of routing-table mode, 0 for none.
	RoutingTable uint32 `json:"routingTable,omitempty"`
	// BGP is nil where there is no BGP.
	BGP *BGP `json:"bgp,omitempty"`
	// Mirror is nil where nothing is copied.
	Mirror *Mirror `json:"mirror,omitempty"`
}

// Mirror copies what goes over one link, in both directions, to another.
type Mirror struct {
	// From is the link, "" for that of the default route.
	From string `json:"from,omitempty"`
	To   string `json:"to"`
}

func (m *Mirror) validate() error {
	if m.From != "" {
		if err := ValidateInterface(m.From); err != nil {
			return err
		}
	}
	return ValidateInterface(m.To)
}

// dayMillis bounds the settings that are times, so that no reader's
// arithmetic overflows.
const dayMillis = 24 * 60 * 60 * 1000

// SchemaName implements Document.
func (*Node) SchemaName() string { return ownership.SchemaNode }

// Validate implements Document.
func (n *Node) Validate() error {
	switch {
	case n.Name == "":
		return errors.New("node is empty")
	case n.Boot == "":
		return errors.New("boot is empty")
	case n.Phase != PhaseRunning && n.Phase != PhaseStopping && n.Phase != PhaseStopped:
		return fmt.Errorf("phase %q is not running, stopping or stopped", n.Phase)
	case n.Settings.Protocol < 4 || n.Settings.Protocol > 255:
		return fmt.Errorf("settings.protocol %d is not 4 to 255", n.Settings.Protocol)
	case n.Settings.LeaseDurationMillis < 1 || n.Settings.LeaseDurationMillis > dayMillis:
		return fmt.Errorf("settings.leaseDurationMillis %d is not 1 to %d", n.Settings.LeaseDurationMillis, dayMillis)
	case n.Settings.AnnounceIntervalMillis < 1 || n.Settings.AnnounceIntervalMillis > dayMillis:
		return fmt.Errorf("settings.announceIntervalMillis %d is not 1 to %d", n.Settings.AnnounceIntervalMillis, dayMillis)
	}
	if n.Settings.BGP != nil {
		if err := n.Settings.BGP.validate(); err != nil {
			return fmt.Errorf("settings.bgp: %w", err)
		}
	}
	if m := n.Settings.Mirror; m != nil {
		if err := m.validate(); err != nil {
			return fmt.Errorf("settings.mirror: %w", err)
		}
	}
	return validatePrefixes("settings.internalNetworks", n.Settings.InternalNetworks)
}

// Grant says until when this node may claim its VIPs. It is the one document
// that is rewritten without a change of intent.
type Grant struct {
	Meta
	// Boot is the boot id whose clock ValidUntil is of; another boot id means
	// expired.
	Boot string `json:"boot"`
	// ValidUntil is in nanoseconds of CLOCK_BOOTTIME; a grant that is absent
	// is not held.
	ValidUntil map[GrantName]int64 `json:"validUntil"`
}

// SchemaName implements Document.
func (*Grant) SchemaName() string { return ownership.SchemaGrant }

// Validate implements Document.
func (g *Grant) Validate() error {
	if g.Boot == "" {
		return errors.New("boot is empty")
	}
	for name := range g.ValidUntil {
		if name != GrantNode && name != GrantControlPlane {
			return fmt.Errorf("validUntil names %q, which is not a grant", name)
		}
	}
	return nil
}
