package config

import (
	"cmp"
	"fmt"
	"net/netip"
	"time"

	"github.com/vipod/vipod/shared/bgppeer"
	"github.com/vipod/vipod/shared/schema"
)

// Mode is how VIPs are made known.
type Mode string

// Routes says whether VIPs are made known to routers, or the far ends of
// tunnels, and not to neighbors.
func (m Mode) Routes() bool { return m == ModeBGP || m == ModeTable || m == ModeWireGuard }

// Modes. In ModeBGP and ModeTable every node that can serve a VIP does, unless
// an election is asked for; in ModeWireGuard one does, as in ModeL2.
const (
	ModeL2        Mode = "ARP and NDP"
	ModeBGP       Mode = "BGP"
	ModeTable     Mode = "routing table"
	ModeWireGuard Mode = "WireGuard"
)

// Elect says which VIPs have one owner in BGP and routing-table mode.
type Elect struct {
	ControlPlane, Services bool
	// OnDemand: Services with an annotation.
	OnDemand bool
}

// Table is the configuration of routing-table mode.
type Table struct{ ID, Type int }

// BGP is the configuration of BGP mode.
type BGP struct {
	// Attach puts Services' VIPs on an interface.
	Attach          bool
	AS              uint32
	RouterID        netip.Addr // invalid: to be found
	RouterInterface string
	SourceAddress   netip.Addr
	SourceInterface string
	// Listen: peers may open the session, too.
	Listen bool
	// Hold, Keepalive, Restart and Retry are whole seconds.
	Hold, Keepalive, Restart, Retry time.Duration
	// NextHop is a mode of package bgppeer, "" for none.
	NextHop            string
	NextHop4, NextHop6 netip.Addr
	// Peers are those of the settings.
	Peers []Peer
	// Anycast are the networks whose addresses pods may have themselves; none
	// is for no such pods.
	Anycast []netip.Prefix
	// File is the YAML file of more peers, AnnotationPrefix that of the
	// Node's annotations which replace Peers; may be empty.
	File             string
	AnnotationPrefix string
}

// Peer is a peer of the nodes that its selector names.
type Peer struct {
	schema.BGPPeer
	// NodeSelector are labels that a Node must have; none is every node.
	NodeSelector map[string]string
}

// Selects says whether a Node with the labels has the peer.
func (p *Peer) Selects(labels map[string]string) bool {
	for key, value := range p.NodeSelector {
		if have, ok := labels[key]; !ok || have != value {
			return false
		}
	}
	return true
}

const (
	// hops is the TTL towards a peer that is several hops away, as kube-vip
	// and GoBGP have it.
	hops = 50
	// nextDoor is the TTL towards an external peer on the same link.
	nextDoor = 1
	// fromNextDoor is the TTL of what has passed no router, RFC 5082.
	fromNextDoor = 255
)

// peer completes one of the text form by the other settings.
func (b *BGP) peer(p bgppeer.Peer) Peer {
	out := b.standard()
	out.Name, out.Address, out.Interface, out.AS, out.Port = p.Name(), p.Address, p.Link, p.AS, p.Port
	out.Password, out.BFD = p.Password != "", p.BFD
	mode := cmp.Or(p.NextHop, b.NextHop)
	if p.NextHop != "" {
		out.NextHop4, out.NextHop6 = p.NextHop4, p.NextHop6
	}
	setFamilies(&out.BGPPeer, mode)
	out.TTL = b.ttl(p.AS, p.Multihop)
	return out
}

// standard is a peer with what the settings say for all.
func (b *BGP) standard() Peer {
	return Peer{BGPPeer: schema.BGPPeer{
		Port: bgppeer.Port, SourceAddress: b.SourceAddress, SourceInterface: b.SourceInterface,
		HoldSeconds: seconds(b.Hold), KeepaliveSeconds: seconds(b.Keepalive), RetrySeconds: seconds(b.Retry),
		RestartSeconds: seconds(b.Restart), NextHop4: b.NextHop4, NextHop6: b.NextHop6,
	}}
}

func seconds(d time.Duration) uint16 { return uint16(min(d/time.Second, 1<<16-1)) }

// setFamilies: a session announces its own family, and the other one where
// there is a mode for the next hop. Over an unnumbered session both go.
func setFamilies(p *schema.BGPPeer, mode string) {
	both := mode != "" || !p.Address.IsValid()
	p.IPv4 = both || p.Address.Is4()
	p.IPv6 = both || p.Address.Is6()
	if mode != bgppeer.NextHopFixed {
		p.NextHop4, p.NextHop6 = netip.Addr{}, netip.Addr{}
		return
	}
	// The next hop of the session's own family is the session's own address.
	switch {
	case p.Address.Is4():
		p.NextHop4 = netip.Addr{}
		p.IPv6 = p.NextHop6.IsValid()
	case p.Address.Is6():
		p.NextHop6 = netip.Addr{}
		p.IPv4 = p.NextHop4.IsValid()
	}
}

func (b *BGP) ttl(as uint32, multihop bool) uint8 {
	switch {
	case multihop:
		return hops
	case as != b.AS:
		return nextDoor
	}
	return 0
}

// uniqueNames says whether two peers have one name, which is that of a file
// and of a metric.
func uniqueNames(peers []Peer) error {
	seen := map[string]bool{}
	for _, p := range peers {
		if seen[p.Name] {
			return fmt.Errorf("peer %s: given twice: want it once", p.Name)
		}
		seen[p.Name] = true
	}
	return nil
}

// Annotated completes a peer of the Node's annotations by the settings.
func (b *BGP) Annotated(p bgppeer.Peer) Peer { return b.peer(p) }

// ElectsControlPlane says whether one node at a time serves the control
// plane's VIP.
func (c *Config) ElectsControlPlane() bool {
	return c.ControlPlane.Enabled && (!c.Mode.Routes() || c.Mode == ModeWireGuard || c.Mode == ModeBGP && c.Elect.ControlPlane)
}
