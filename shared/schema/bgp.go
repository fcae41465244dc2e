package schema

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// Protocols of announcement for networks that route.
const (
	// AnnounceBGP: bgpd announces each address to its peers.
	AnnounceBGP Announce = "bgp"
	// AnnounceRoute: vipd keeps a route for each address in the routing table
	// from which a routing daemon of the node takes it.
	AnnounceRoute Announce = "route"
)

// BGP is this node's side of BGP.
type BGP struct {
	// AS is this node's autonomous system.
	AS uint32 `json:"as"`
	// RouterID is the BGP identifier, written as an IPv4 address.
	RouterID netip.Addr `json:"routerID"`
	Peers    []BGPPeer  `json:"peers"`
	// Listen: peers may open the session, too.
	Listen bool `json:"listen,omitempty"`
}

// BGPPeer is one router that bgpd opens a session to. A password is not here:
// secrets pass through no document.
type BGPPeer struct {
	// Name is the peer's, unique among the peers; the name of its password's
	// file.
	Name string `json:"name"`
	// Address is the peer's; invalid for an unnumbered one, which is the
	// router on Interface.
	Address netip.Addr `json:"address,omitzero"`
	// Interface is the link of an unnumbered peer or of a link-local address.
	Interface string `json:"interface,omitempty"`
	// AS is the peer's; 0 accepts any.
	AS   uint32 `json:"as,omitempty"`
	Port uint16 `json:"port"`
	// SourceAddress and SourceInterface are what the session leaves from; the
	// routing table's choice without them.
	SourceAddress   netip.Addr `json:"sourceAddress,omitzero"`
	SourceInterface string     `json:"sourceInterface,omitempty"`
	// TTL is that of packets sent, MinTTL the least of those accepted (RFC
	// 5082); 0 leaves them to the kernel.
	TTL    uint8 `json:"ttl,omitempty"`
	MinTTL uint8 `json:"minTTL,omitempty"`
	// HoldSeconds is proposed to the peer, 0 for none.
	HoldSeconds      uint16 `json:"holdSeconds"`
	KeepaliveSeconds uint16 `json:"keepaliveSeconds"`
	// RetrySeconds is the longest wait between two attempts to connect.
	RetrySeconds uint16 `json:"retrySeconds"`
	// RestartSeconds is for how long the peer shall keep the paths while bgpd
	// restarts (RFC 4724), 0 for not at all.
	RestartSeconds uint16 `json:"restartSeconds,omitempty"`
	// IPv4 and IPv6 are the families that are announced.
	IPv4 bool `json:"ipv4,omitempty"`
	IPv6 bool `json:"ipv6,omitempty"`
	// NextHop4 and NextHop6 are fixed next hops. Without one it is the
	// session's own address for its family, and an address of the same link
	// for the other.
	NextHop4 netip.Addr `json:"nextHop4,omitzero"`
	NextHop6 netip.Addr `json:"nextHop6,omitzero"`
	// Communities are added to every path, LocalPref is that of paths which
	// have none of their own.
	Communities      []Community      `json:"communities,omitempty"`
	LargeCommunities []LargeCommunity `json:"largeCommunities,omitempty"`
	LocalPref        *uint32          `json:"localPref,omitempty"`
	// BFD finds out quickly that the peer cannot be reached; nil for not at all.
	BFD *BFD `json:"bfd,omitempty"`
	// Password says that the session is authenticated by RFC 2385: without a
	// password for it none is opened.
	Password bool `json:"password,omitempty"`
}

// BFD is a session of RFC 5880 beside one of BGP.
type BFD struct {
	// TXMillis is the time between packets that this side wants to send,
	// RXMillis the least that it can take.
	TXMillis uint16 `json:"txMillis"`
	RXMillis uint16 `json:"rxMillis"`
	// Multiplier is how many packets may be lost in a row.
	Multiplier uint8 `json:"multiplier"`
}

// DefaultBFD is kube-vip's.
func DefaultBFD() BFD { return BFD{TXMillis: 300, RXMillis: 300, Multiplier: 3} }

// leastBFD is the shortest time between two packets that a busy node can be
// trusted with.
const leastBFD = 10

// Validate returns an error naming the field that is wrong.
func (b *BFD) Validate() error {
	if b.TXMillis < leastBFD || b.RXMillis < leastBFD {
		return fmt.Errorf("bfd: %d and %d ms are not at least %d ms", b.TXMillis, b.RXMillis, leastBFD)
	}
	if b.Multiplier == 0 {
		return errors.New("bfd: the multiplier is 0")
	}
	return nil
}

// PathAttributes are what a VIP's paths carry besides the next hop.
type PathAttributes struct {
	Communities      []Community      `json:"communities,omitempty"`
	LargeCommunities []LargeCommunity `json:"largeCommunities,omitempty"`
	LocalPref        *uint32          `json:"localPref,omitempty"`
	MED              *uint32          `json:"med,omitempty"`
}

// Route is the route of a VIP in routing-table mode.
type Route struct {
	// Type is the route's, a number of RTN_* in rtnetlink(7).
	Type int `json:"type"`
	// Interface is the link that the route points at.
	Interface string `json:"interface"`
}

func (b *BGP) validate() error {
	if b.AS == 0 {
		return errors.New("as is 0")
	}
	if !b.RouterID.Is4() || b.RouterID.IsUnspecified() {
		return fmt.Errorf("routerID %s is not an IPv4 address", b.RouterID)
	}
	names := map[string]bool{}
	for i := range b.Peers {
		p := &b.Peers[i]
		if err := p.Validate(); err != nil {
			return fmt.Errorf("peers[%d]: %w", i, err)
		}
		if names[p.Name] {
			return fmt.Errorf("peers[%d]: name %q is another peer's", i, p.Name)
		}
		names[p.Name] = true
	}
	return nil
}

// Validate returns an error naming the field that is wrong.
func (p *BGPPeer) Validate() error {
	switch {
	case ValidatePeerName(p.Name) != nil:
		return ValidatePeerName(p.Name)
	case p.Interface != "" && ValidateInterface(p.Interface) != nil:
		return ValidateInterface(p.Interface)
	case p.SourceInterface != "" && ValidateInterface(p.SourceInterface) != nil:
		return ValidateInterface(p.SourceInterface)
	case !p.Address.IsValid() && p.Interface == "":
		return errors.New("address is missing")
	case p.Port == 0:
		return errors.New("port is 0")
	case p.HoldSeconds == 1 || p.HoldSeconds == 2:
		return fmt.Errorf("holdSeconds %d is not 0 or at least 3", p.HoldSeconds)
	case p.RestartSeconds > 4095:
		return fmt.Errorf("restartSeconds %d is more than 4095", p.RestartSeconds)
	case p.NextHop4.IsValid() && !p.NextHop4.Is4(), p.NextHop6.IsValid() && !p.NextHop6.Is6():
		return errors.New("a next hop is of the other family")
	case p.BFD != nil:
		return p.BFD.Validate()
	}
	return nil
}

// ValidatePeerName checks that a peer's name is safe as a file name.
func ValidatePeerName(name string) error {
	if name == "" || len(name) > 63 || name[0] == '.' || strings.ContainsFunc(name, func(r rune) bool {
		return !keyRune(r) && (r < 'A' || r > 'Z') && r != ':'
	}) {
		return fmt.Errorf("peer name %q is not 1 to 63 letters, digits, dots, dashes, underscores and colons", name)
	}
	return nil
}

func (r *Route) validate() error {
	if r.Type < 1 || r.Type > 11 {
		return fmt.Errorf("type %d is not 1 to 11", r.Type)
	}
	return ValidateInterface(r.Interface)
}

// Community is a standard community, RFC 1997. Its text is "65000:100" or one
// of the well-known names.
type Community uint32

// GracefulShutdown asks the peer to prefer any other path, RFC 8326.
const GracefulShutdown Community = 0xffff0000

var wellKnown = map[string]Community{
	"graceful-shutdown": GracefulShutdown, "accept-own": 0xffff0001, "blackhole": 0xffff029a, "no-export": 0xffffff01,
	"no-advertise": 0xffffff02, "no-export-subconfed": 0xffffff03, "no-peer": 0xffffff04,
}

func (c Community) String() string { return fmt.Sprintf("%d:%d", uint32(c)>>16, uint32(c)&0xffff) }

// MarshalText implements encoding.TextMarshaler.
func (c Community) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (c *Community) UnmarshalText(text []byte) error {
	if known, ok := wellKnown[strings.ToLower(string(text))]; ok {
		*c = known
		return nil
	}
	parts, err := numbers(string(text), 2, 16)
	if err != nil {
		return fmt.Errorf("%.50q is not a community such as 65000:100", text)
	}
	*c = Community(parts[0]<<16 | parts[1])
	return nil
}

// LargeCommunity is a large community, RFC 8092. Its text is "65000:1:2".
type LargeCommunity [3]uint32

func (c LargeCommunity) String() string { return fmt.Sprintf("%d:%d:%d", c[0], c[1], c[2]) }

// MarshalText implements encoding.TextMarshaler.
func (c LargeCommunity) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (c *LargeCommunity) UnmarshalText(text []byte) error {
	parts, err := numbers(string(text), 3, 32)
	if err != nil {
		return fmt.Errorf("%.50q is not a large community such as 65000:1:2", text)
	}
	*c = LargeCommunity(parts)
	return nil
}

// numbers reads n decimal numbers of some bits with colons between.
func numbers(text string, n, bits int) ([]uint32, error) {
	parts := strings.Split(text, ":")
	if len(parts) != n {
		return nil, errors.New("wrong number of parts")
	}
	out := make([]uint32, n)
	for i, p := range parts {
		v, err := strconv.ParseUint(p, 10, bits)
		if err != nil {
			return nil, err
		}
		out[i] = uint32(v)
	}
	return out, nil
}
