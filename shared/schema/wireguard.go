package schema

import (
	"errors"
	"fmt"
	"net/netip"
)

// AnnounceWireGuard stands for egressd, which brings up the tunnel whose far
// end sends here
// what is for the VIP.
const AnnounceWireGuard Announce = "wireguard"

// ConditionTunnelled is set by egressd: True while the VIP's tunnel is up. False
// is
// proof that no packet of it leaves this node.
const ConditionTunnelled = "Tunnelled"

// Reasons of ConditionTunnelled that are told to people.
const (
	// TunnelConnected: the far end has answered.
	TunnelConnected = "Connected"
	// TunnelSilent: the far end has not answered, or not for too long.
	TunnelSilent = "NoHandshake"
	// TunnelContested: somebody else seems to use the tunnel's key.
	TunnelContested = "KeyInUseElsewhere"
)

// WireGuard says what of a VIP is reached through its tunnel: these ports and
// ICMP, nothing else. The tunnel itself, with its keys, is in egressd's own
// file.
type WireGuard struct {
	Forwards []Forward `json:"forwards"`
}

// MaxBackends is how many backends of a port are used, of both families: the
// first.
const MaxBackends = 64

// Forward is a port of a VIP and where connections to it go.
type Forward struct {
	Port
	// KeepSource leaves clients their address: every backend is on this node.
	KeepSource bool `json:"keepSource,omitempty"`
	// Backends are the endpoints of both families, in order. Without any the
	// node itself answers.
	Backends []netip.AddrPort `json:"backends,omitempty"`
}

func (w *WireGuard) validate() error {
	for i, f := range w.Forwards {
		if err := f.validate(); err != nil {
			return fmt.Errorf("wireguard.forwards[%d]: %w", i, err)
		}
		if err := validateBackends(f.Backends); err != nil {
			return fmt.Errorf("wireguard.forwards[%d].%w", i, err)
		}
	}
	return nil
}

// Tunnel is a tunnel of egressd's file, without its keys.
type Tunnel struct {
	// Name is that of its link.
	Name string `json:"name"`
	// VIP is the address that is reached through it, with its prefix length.
	VIP netip.Prefix `json:"vip"`
}

func (t Tunnel) validate() error {
	if !t.VIP.IsValid() || t.VIP.Addr().Is4In6() {
		return errors.New("vip is missing")
	}
	return ValidateInterface(t.Name)
}
