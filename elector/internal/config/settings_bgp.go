package config

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"time"

	"github.com/vipod/vipod/shared/bgppeer"
)

// routed are the settings of the modes for networks that route.
var routed = []setting{
	{"bgp_enable", "", []string{"bgp"}, "false", boolean(func(r *raw) *bool { return &r.bgp }),
		"BGP mode: each node that can serve a VIP announces it to its peers."},
	{"vip_routingtable", "", []string{"table"}, "false", boolean(func(r *raw) *bool { return &r.table }),
		"Routing-table mode: each node that can serve a VIP has a route for it, from where a routing daemon of the node takes it."},
	{"vip_wireguard", "", []string{"wireguard"}, "false", boolean(func(r *raw) *bool { return &r.wireguard }),
		"WireGuard mode: the node that owns a VIP brings up the tunnel that egressd's file has for it (see egressd's page), and no other node does."},
	{"vip_leaderelection", "", []string{"leaderElection"}, "false", boolean(func(r *raw) *bool { return &r.Elect.ControlPlane }),
		"In BGP mode, only one node announces the control plane's VIP. With ARP and NDP vipod always elects; in routing-table mode it never does for the control plane."},
	{"svc_election", "", []string{"servicesElection"}, "false", boolean(func(r *raw) *bool { return &r.Elect.Services }),
		"In BGP and routing-table mode, only one node announces a Service's VIP, chosen as with ARP and NDP, which always elect."},
	{"per_service_election_on_demand", "", []string{"perServiceElectionOnDemand"}, "false", boolean(func(r *raw) *bool { return &r.Elect.OnDemand }),
		"svc_election for Services with the annotation kube-vip.io/forcePerServiceElection alone."},
	{"bgp_attach_ip_to_interface", "", []string{"bgpAttachIPToInterface"}, "false", boolean(func(r *raw) *bool { return &r.BGP.Attach }),
		"In BGP mode, also put Services' VIPs on an interface, without ARP and NDP for them."},
	{"vip_routingtableid", "", []string{"tableID"}, "198", integer(func(r *raw) *int { return &r.Table.ID }, 1, maxTable),
		"Routing table of routing-table mode. Routes in it with vip_routingprotocol are vipod's: those that nothing wants are removed."},
	{"vip_routingtabletype", "", []string{"tableType"}, "1", integer(func(r *raw) *int { return &r.Table.Type }, 1, 11),
		"Type of the routes, a number of RTN_ (1 is unicast)."},
	{"bgp_as", "", []string{"localAS"}, "65000", asNumber(func(r *raw) *uint32 { return &r.BGP.AS }), "This node's AS."},
	{"bgp_routerid", "", []string{"bgpRouterID"}, "", optional(address4(func(r *raw) *netip.Addr { return &r.BGP.RouterID })),
		"This node's BGP identifier; without it that of bgp_routerinterface, else the Node's first IPv4 address, else a number made of its name."},
	{"bgp_routerinterface", "", nil, "", optional(link(func(r *raw) *string { return &r.BGP.RouterInterface }, "none")),
		"Interface whose first IPv4 address is the BGP identifier."},
	{"bgp_peers", "", []string{"bgppeers"}, "", bgpPeers(func(r *raw) *[]bgppeer.Peer { return &r.peers }),
		"Peers. Passwords are for bgpd, which must have the setting in its own environment then; better in a file."},
	{"bgp_peeraddress", "", []string{"peerAddress"}, "", optional(ipAddress(func(r *raw) *netip.Addr { return &r.peer.Address })), "Address of one more peer."},
	{"bgp_peeras", "", []string{"peerAS"}, "65000", asNumber(func(r *raw) *uint32 { return &r.peer.AS }), "That peer's AS."},
	{"bgp_peerpass", "", []string{"peerPass"}, "", secretText(func(r *raw) *bool { return &r.peerSecret }),
		"That peer's password. bgpd must have the setting in its own environment; better in a file."},
	{"bgp_multihop", "", []string{"multihop"}, "false", boolean(func(r *raw) *bool { return &r.peer.Multihop }), "That peer is several hops away."},
	{"bgp_sourceip", "", []string{"sourceIP"}, "", optional(ipAddress(func(r *raw) *netip.Addr { return &r.BGP.SourceAddress })), "Address that sessions leave from."},
	{"bgp_sourceif", "", []string{"sourceIF"}, "", optional(link(func(r *raw) *string { return &r.BGP.SourceInterface }, "none")), "Interface that sessions leave from; not with bgp_sourceip."},
	{"bgp_hold_time", "", []string{"bgpHoldTimer"}, "30", duration(func(r *raw) *time.Duration { return &r.BGP.Hold }, time.Second, 3*time.Second),
		"For how long a silent peer is taken to live."},
	{"bgp_keepalive_interval", "", []string{"bgpKeepAliveInterval"}, "10", duration(func(r *raw) *time.Duration { return &r.BGP.Keepalive }, time.Second, time.Second),
		"Time between two messages that say that this node lives."},
	{"mpbgp_nexthop", "", nil, "", matching("fixed, auto_sourceip, auto_sourceif, or empty (announce the session's own family only)",
		func(r *raw) *string { return &r.BGP.NextHop }, func(s string) bool {
			return s == bgppeer.NextHopFixed || s == bgppeer.NextHopSourceIP || s == bgppeer.NextHopSourceIf
		}), "Announce both families over one session, and where the next hop of the other family comes from."},
	{"mpbgp_ipv4", "", nil, "", optional(ipAddress(func(r *raw) *netip.Addr { return &r.BGP.NextHop4 })), "IPv4 next hop, with fixed."},
	{"mpbgp_ipv6", "", nil, "", optional(ipAddress(func(r *raw) *netip.Addr { return &r.BGP.NextHop6 })), "IPv6 next hop, with fixed."},
	{"vipod_bgp_restart_time", "", []string{"bgpRestartTime"}, "120", duration(func(r *raw) *time.Duration { return &r.BGP.Restart }, time.Second, 0),
		"For how long peers keep the paths while bgpd restarts (graceful restart); 0 is not at all."},
	{"vipod_bgp_retry", "", []string{"bgpRetry"}, "5", duration(func(r *raw) *time.Duration { return &r.BGP.Retry }, time.Second, time.Second),
		"Longest time between two attempts to reach a peer."},
	{"vipod_bgp_listen", "", []string{"bgpListen"}, "false", boolean(func(r *raw) *bool { return &r.BGP.Listen }),
		"bgpd listens on port 179, too, for its peers alone. Its container needs NET_BIND_SERVICE then, which the manifests do not give it."},
	{"vipod_bgp_config", "", []string{"bgpConfig"}, "", path(func(r *raw) *string { return &r.BGP.File }),
		"YAML file of peers (see bgpd's page), read again when it changes. Its peers come besides those of the settings above."},
	{"vipod_pod_anycast", "", []string{"podAnycast"}, "", optional(prefixes(func(r *raw) *[]netip.Prefix { return &r.BGP.Anycast })),
		"In BGP mode, networks whose addresses pods may have on their loopback and ask to have announced, by the annotation vipod.io/anycast. elector watches the pods of its node then."},
	{"annotation", "", []string{"annotations"}, "", matching("the prefix of annotations, such as example.com", func(r *raw) *string { return &r.BGP.AnnotationPrefix }, isSubdomain),
		"Prefix of this Node's annotations that say its AS, source and peers, followed when they change. They replace the peers above."},
}

const maxTable = 1<<31 - 1

func asNumber(field func(*raw) *uint32) value {
	return into("an AS, 1 to 4294967295", field, func(text string) (uint32, error) {
		n, err := strconv.ParseUint(text, 10, 32)
		if err != nil || n == 0 {
			return 0, errNotAllowed
		}
		return uint32(n), nil
	})
}

func ipAddress(field func(*raw) *netip.Addr) value {
	return into("an IP address", field, func(text string) (netip.Addr, error) {
		a, err := netip.ParseAddr(text)
		if err != nil || a.Is4In6() || a.IsUnspecified() || a.IsMulticast() {
			return netip.Addr{}, errNotAllowed
		}
		return a, nil
	})
}

func address4(field func(*raw) *netip.Addr) value {
	return into("an IPv4 address", field, func(text string) (netip.Addr, error) {
		a, err := netip.ParseAddr(text)
		if err != nil || !a.Is4() || a.IsUnspecified() {
			return netip.Addr{}, errNotAllowed
		}
		return a, nil
	})
}

// bgpPeers takes kube-vip's text form. Its errors repeat no password.
func bgpPeers(field func(*raw) *[]bgppeer.Peer) value {
	return into("peers as address:AS:password:multihop:port:mpbgp_nexthop=...:BFD with commas between, parts left out from the end", field, bgppeer.ParseList)
}

// secretText is a text of which only that it is there is kept.
func secretText(field func(*raw) *bool) value {
	return into("any text", field, func(text string) (bool, error) { return text != "", nil })
}

// checkMode finds the one mode and holds its settings against each other.
func (p *parser) checkMode() error {
	if p.arp && !p.isGiven("vip_arp") && (p.bgp || p.table || p.wireguard) {
		p.arp = false // the default gives way
	}
	count := 0
	for mode, on := range map[Mode]bool{ModeL2: p.arp, ModeBGP: p.bgp, ModeTable: p.table, ModeWireGuard: p.wireguard} {
		if on {
			p.Mode = mode
			count++
		}
	}
	switch {
	case count == 0:
		return errors.New("vip_arp, bgp_enable, vip_routingtable, vip_wireguard: no mode: want one of them true")
	case count > 1:
		p.Mode = ModeL2
		return errors.New("vip_arp, bgp_enable, vip_routingtable, vip_wireguard: several modes: want one of them true")
	case p.Mode == ModeBGP:
		return p.completeBGP()
	case len(p.BGP.Anycast) > 0:
		return errors.New("vipod_pod_anycast: needs BGP mode: want bgp_enable true")
	}
	return nil
}

// completeBGP makes peers of the settings.
func (p *parser) completeBGP() error {
	b := &p.BGP
	var errs []error
	if b.SourceAddress.IsValid() && b.SourceInterface != "" {
		errs = append(errs, errors.New("bgp_sourceip, bgp_sourceif: both are given: want one of them"))
	}
	if err := bgppeer.CheckNextHop(b.NextHop, b.NextHop4, b.NextHop6); err != nil {
		errs = append(errs, err)
	}
	all := p.peers
	if p.peer.Address.IsValid() {
		one := p.peer
		one.Port = bgppeer.Port
		if p.peerSecret {
			one.Password = "in bgpd's environment"
		}
		all = append(all, one)
	}
	if len(all) == 0 && !p.isGiven("bgp_peers") && !p.isGiven("bgp_peeraddress") && b.File == "" && b.AnnotationPrefix == "" {
		errs = append(errs, errors.New("bgp_peers: missing: BGP mode needs a peer: bgp_peers, bgp_peeraddress, vipod_bgp_config or annotation"))
	}
	for _, one := range all {
		if one.BFD != nil && one.Multihop {
			errs = append(errs, fmt.Errorf("bgp_peers: peer %s: BFD and multihop: want one of them: BFD is for peers on the same link", one.Name()))
		}
		b.Peers = append(b.Peers, b.peer(one))
	}
	return errors.Join(append(errs, uniqueNames(b.Peers))...)
}
