package config

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/vipod/vipod/shared/schema"
)

// ofAll is what the settings say for every peer.
func ofAll() *BGP {
	return &BGP{AS: 65000, Hold: 30 * time.Second, Keepalive: 10 * time.Second, Restart: 2 * time.Minute, Retry: 5 * time.Second}
}

func TestYAMLPeersTakeWhatTheyLeaveOutFromTheSettings(t *testing.T) {
	preference := uint32(200)
	standard := schema.BGPPeer{
		Name: "192.0.2.1", Address: netip.MustParseAddr("192.0.2.1"), AS: 65001, Port: 179, TTL: 1,
		HoldSeconds: 30, KeepaliveSeconds: 10, RetrySeconds: 5, RestartSeconds: 120, IPv4: true,
	}
	for name, c := range map[string]struct {
		text string
		want Peer
	}{
		"least": {"{address: 192.0.2.1, asn: 65001}", Peer{BGPPeer: standard}},
		"everything": {`
      name: tor-1
      address: 2001:db8::1
      asn: 65000
      port: 1790
      sourceAddress: 2001:db8::9
      gtsm: true
      password: true
      holdTime: 9s
      keepalive: 3s
      connectRetry: 2s
      gracefulRestart: 0s
      families: [ipv4, ipv6]
      nextHop4: 192.0.2.9
      communities: ["65000:100", no-export]
      largeCommunities: ["65000:1:2"]
      localPreference: 200
      bfd: {transmit: 50ms, receive: 60ms, multiplier: 5}
      nodeSelector: {rack: a}`, Peer{
			BGPPeer: schema.BGPPeer{
				Name: "tor-1", Address: netip.MustParseAddr("2001:db8::1"), AS: 65000, Port: 1790, TTL: 255, MinTTL: 255,
				SourceAddress: netip.MustParseAddr("2001:db8::9"), Password: true, HoldSeconds: 9, KeepaliveSeconds: 3, RetrySeconds: 2,
				IPv4: true, IPv6: true, NextHop4: netip.MustParseAddr("192.0.2.9"), LocalPref: &preference,
				Communities: []schema.Community{65000<<16 | 100, 0xffffff01}, LargeCommunities: []schema.LargeCommunity{{65000, 1, 2}},
				BFD: &schema.BFD{TXMillis: 50, RXMillis: 60, Multiplier: 5},
			},
			NodeSelector: map[string]string{"rack": "a"},
		}},
		"BFD as kube-vip has it": {"{address: 192.0.2.1, asn: 65001, bfd: {}}", Peer{BGPPeer: func() schema.BGPPeer {
			p := standard
			p.BFD = &schema.BFD{TXMillis: 300, RXMillis: 300, Multiplier: 3}
			return p
		}()}},
		"unnumbered": {"{interface: eth0}", Peer{BGPPeer: func() schema.BGPPeer {
			p := standard
			p.Name, p.Address, p.Interface, p.AS, p.IPv6 = "unnumbered-eth0", netip.Addr{}, "eth0", 0, true
			return p
		}()}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ofAll().ParsePeers([]byte("peers:\n    - " + c.text))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]Peer{c.want}, got, cmpopts.EquateComparable(netip.Addr{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestYAMLPeersThatAreWrongAreNamed(t *testing.T) {
	for want, text := range map[string]string{
		"not found":            "peers: [{address: 192.0.2.1, asn: 1, nexthop: x}]",
		"peer 2":               "peers: [{address: 192.0.2.1, asn: 1}, {address: 192.0.2.2}]",
		"asn: missing":         "peers: [{address: 192.0.2.1}]",
		"given twice":          "peers: [{address: 192.0.2.1, asn: 1}, {address: 192.0.2.1, asn: 2}]",
		"gtsm, multihop":       "peers: [{address: 192.0.2.1, asn: 1, gtsm: true, multihop: true}]",
		"bfd, multihop":        "peers: [{address: 192.0.2.1, asn: 1, bfd: {}, multihop: true}]",
		"bfd: transmit: 5ms":   "peers: [{address: 192.0.2.1, asn: 1, bfd: {transmit: 5ms}}]",
		"multiplier is 0":      "peers: [{address: 192.0.2.1, asn: 1, bfd: {multiplier: 0}}]",
		"holdTime: 2s":         "peers: [{address: 192.0.2.1, asn: 1, holdTime: 2s}]",
		"keepalive: 1.5s":      "peers: [{address: 192.0.2.1, asn: 1, keepalive: 1500ms}]",
		"not ipv4 or ipv6":     "peers: [{address: 192.0.2.1, asn: 1, families: [evpn]}]",
		"sourceAddress, sourc": "peers: [{address: 192.0.2.1, asn: 1, sourceAddress: 192.0.2.9, sourceInterface: eth0}]",
		"interface: missing":   "peers: [{address: \"fe80::1\", asn: 1}]",
		"not a community":      "peers: [{address: 192.0.2.1, asn: 1, communities: [x]}]",
		"too many":             "#" + strings.Repeat("x", maxFile),
	} {
		if peers, err := ofAll().ParsePeers([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v", want, peers, err)
		}
	}
}

func TestNoPeersIsNoError(t *testing.T) {
	for _, text := range []string{"", "peers: []", "# none"} {
		if peers, err := ofAll().ParsePeers([]byte(text)); err != nil || len(peers) > 0 {
			t.Errorf("%q: %v, %v", text, peers, err)
		}
	}
}
