package main

import (
	"fmt"
	"net/netip"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vipod/vipod/shared/schema"
)

func TestNetnsVIPsAreAnnouncedByEachFamily(t *testing.T) {
	fixed := netip.MustParseAddr("2001:db8::99")
	for name, p := range map[string]schema.BGPPeer{
		"IPv4":             peerOf(peer4),
		"IPv6":             peerOf(peer6),
		"both over IPv4":   peerOf(peer4, func(p *schema.BGPPeer) { p.IPv6 = true }),
		"both over IPv6":   peerOf(peer6, func(p *schema.BGPPeer) { p.IPv4 = true }),
		"fixed next hop":   peerOf(peer4, func(p *schema.BGPPeer) { p.IPv6, p.NextHop6 = true, fixed }),
		"source interface": peerOf(peer4, func(p *schema.BGPPeer) { p.SourceInterface, p.IPv6 = "v0", true }),
		"source address":   peerOf(peer4, func(p *schema.BGPPeer) { p.SourceAddress = netip.MustParseAddr(node4) }),
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, p)
			b := newBird(t, r.peer, session("n4", "")+session("n6", ""))
			r.Start()
			want := map[string]string{}
			if p.IPv4 {
				want["203.0.113.7"] = "BGP.next_hop: " + node4
			}
			if p.IPv6 {
				want["2001:db8:7::7"] = "BGP.next_hop: " + node6
			}
			if p.NextHop6.IsValid() {
				want["2001:db8:7::7"] = "BGP.next_hop: " + fixed.String()
			}
			var ips []string
			for ip := range want {
				ips = append(ips, ip)
			}
			r.vip("default.web", schema.StateActive, ips...)
			r.announced("default.web", schema.True)
			for ip, hop := range want {
				r.eventually("BIRD has "+ip, func() bool { return strings.Contains(b.route(ip), hop) })
			}
			r.DropVIP("default.web")
			for _, ip := range ips {
				r.eventually("BIRD has lost "+ip, func() bool { return b.route(ip) == "" })
			}
		})
	}
}

func TestNetnsAttributesReachThePeer(t *testing.T) {
	number := func(n uint32) *uint32 { return &n }
	a := &schema.PathAttributes{
		Communities: []schema.Community{65000<<16 | 100}, LargeCommunities: []schema.LargeCommunity{{65000, 1, 2}},
		LocalPref: number(250), MED: number(10),
	}
	for name, c := range map[string]struct {
		as   uint32
		want []string
	}{
		"external": {peerAS, []string{"BGP.as_path: 65000\n", "BGP.med: 10\n", "BGP.community: (65000,100) (65000,200)\n", "BGP.large_community: (65000, 1, 2)\n", "BGP.local_pref: 100\n"}},
		"internal": {nodeAS, []string{"BGP.as_path: \n", "BGP.local_pref: 250\n"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, peerOf(peer4, func(p *schema.BGPPeer) { p.AS, p.Communities = c.as, []schema.Community{65000<<16 | 200} }))
			b := newBird(t, r.peer, strings.ReplaceAll(session("n4", ""), fmt.Sprintf("local %s as %d", peer4, peerAS), fmt.Sprintf("local %s as %d", peer4, c.as)))
			r.Start()
			r.vipWith("default.web", schema.StateActive, a, "203.0.113.7")
			r.eventually("BIRD has the path", func() bool { return b.route("203.0.113.7") != "" })
			for _, want := range c.want {
				if got := b.route("203.0.113.7"); !strings.Contains(got+"\n", want) {
					t.Errorf("lacks %q:\n%s", want, got)
				}
			}
			r.vipWith("default.web", schema.StateDraining, nil, "203.0.113.7")
			r.eventually("the path is leaving", func() bool {
				got := b.route("203.0.113.7")
				return strings.Contains(got, "(65535,0)") && strings.Contains(got, "BGP.med: 4294967295") &&
					(c.as == peerAS || strings.Contains(got, "BGP.local_pref: 0"))
			})
		})
	}
}

func TestNetnsASOfFourBytes(t *testing.T) {
	r := newRig(t)
	r.node.Settings.BGP = &schema.BGP{AS: 4200000001, RouterID: netip.MustParseAddr(node4), Peers: []schema.BGPPeer{peerOf(peer4)}}
	r.WriteNode(r.node)
	b := newBird(t, r.peer, strings.ReplaceAll(session("n4", ""), "as 65000", "as 4200000001"))
	r.Start()
	r.vip("default.web", schema.StateActive, "203.0.113.7")
	r.eventually("BIRD has the path", func() bool { return strings.Contains(b.route("203.0.113.7"), "BGP.as_path: 4200000001") })
}

func TestNetnsTheWrongASIsToldAndLeavesOthersAlone(t *testing.T) {
	wrong := peerOf(peer6, func(p *schema.BGPPeer) { p.Name, p.AS = "wrong", 65009 })
	r := newRig(t, peerOf(peer4), wrong)
	newBird(t, r.peer, session("n4", "")+session("n6", ""))
	r.Start()
	r.vip("default.web", schema.StateActive, "203.0.113.7")
	r.announced("default.web", schema.True)
	r.eventually("the wrong AS is told", func() bool {
		s, _ := r.Ask("/status")
		return strings.Contains(s, "the peer is of AS 65001, want 65009")
	})
	metrics, err := r.Ask("/metrics")
	r.check(err)
	for _, want := range []string{
		`kube_vip_manager_bgp_session_info{peer="198.51.100.2:179",state="SESSION_STATE_ESTABLISHED"} 1`,
		`kube_vip_manager_bgp_session_info{peer="[2001:db8::2]:179",state="SESSION_STATE_ESTABLISHED"} 0`,
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("metrics lack %s", want)
		}
	}
}

func TestNetnsGTSM(t *testing.T) {
	r := newRig(t, peerOf(peer4, func(p *schema.BGPPeer) { p.TTL, p.MinTTL = 255, 255 }))
	b := newBird(t, r.peer, session("n4", "ttl security on;"))
	r.Start()
	r.vip("default.web", schema.StateActive, "203.0.113.7")
	r.eventually("BIRD has the path", func() bool { return b.has("203.0.113.7/32") })
	// A peer whose packets may have passed a router is not heard.
	b.stop(syscall.SIGKILL)
	b.conf = strings.ReplaceAll(b.conf, "ttl security on;", "multihop 5;")
	b.start()
	time.Sleep(1500 * time.Millisecond)
	if b.has("203.0.113.7/32") || strings.Contains(b.ask("show protocols", "n4"), "Established") {
		t.Error("a session without TTL 255")
	}
}

func TestNetnsTheSessionComesBackAfterTheRoutersRestart(t *testing.T) {
	r := newRig(t, peerOf(peer4))
	b := newBird(t, r.peer, session("n4", ""))
	r.Start()
	r.vip("default.web", schema.StateActive, "203.0.113.7")
	r.eventually("BIRD has the path", func() bool { return b.has("203.0.113.7/32") })
	b.stop(syscall.SIGKILL)
	r.announced("default.web", schema.False)
	b.start()
	r.eventually("BIRD has the path again", func() bool { return b.has("203.0.113.7/32") })
	r.announced("default.web", schema.True)
}

func TestNetnsASilentPeerIsLeftAfterTheHoldTime(t *testing.T) {
	r := newRig(t, peerOf(peer4, func(p *schema.BGPPeer) { p.HoldSeconds, p.KeepaliveSeconds = 3, 1 }))
	b := newBird(t, r.peer, session("n4", "hold time 3;"))
	r.Start()
	r.vip("default.web", schema.StateActive, "203.0.113.7")
	r.announced("default.web", schema.True)
	r.check(b.cmd.Process.Signal(syscall.SIGSTOP))
	c := r.announced("default.web", schema.False)
	if !strings.Contains(c.Message, "silent") && !strings.Contains(c.Message, "router") {
		t.Errorf("message: %s", c.Message)
	}
	r.check(b.cmd.Process.Signal(syscall.SIGCONT))
	r.announced("default.web", schema.True)
}

func TestNetnsNewPathsAndPeersLeaveSessionsAlone(t *testing.T) {
	r := newRig(t, peerOf(peer4))
	b := newBird(t, r.peer, session("n4", "")+session("n6", ""))
	r.Start()
	r.vip("default.web", schema.StateActive, "203.0.113.7")
	r.announced("default.web", schema.True)
	since := b.ask("show protocols", "n4")
	r.setPeers(peerOf(peer4), peerOf(peer6, func(p *schema.BGPPeer) { p.Name = "second" }))
	r.vip("default.six", schema.StateActive, "2001:db8:7::7")
	r.announced("default.six", schema.True)
	r.vip("default.shared", schema.StateActive, "203.0.113.7")
	r.announced("default.shared", schema.True)
	r.DropVIP("default.web")
	time.Sleep(200 * time.Millisecond)
	if !b.has("203.0.113.7/32") {
		t.Error("withdrawn while another VIP has the address")
	}
	r.DropVIP("default.shared")
	r.eventually("withdrawn with the last", func() bool { return !b.has("203.0.113.7/32") })
	r.setPeers(peerOf(peer4))
	r.eventually("the removed peer is left", func() bool { return !strings.Contains(b.ask("show protocols", "n6"), "Established") })
	if now := b.ask("show protocols", "n4"); now != since || !strings.Contains(now, "Established") {
		t.Errorf("the session was touched:\n%s\nbefore:\n%s", now, since)
	}
}

func TestNetnsElectedVIPsNeedTheGrant(t *testing.T) {
	r := newRig(t, peerOf(peer4))
	b := newBird(t, r.peer, session("n4", ""))
	r.Start()
	doc := r.vip("default.web", schema.StateActive, "203.0.113.7")
	doc.Grant = schema.GrantNode
	r.WriteVIP(doc)
	if c := r.announced("default.web", schema.False); c.Reason != "NotGranted" {
		t.Errorf("reason %s", c.Reason)
	}
	r.Grant(3 * time.Second)
	r.eventually("announced under the grant", func() bool { return b.has("203.0.113.7/32") })
	r.eventually("withdrawn at its end", func() bool { return !b.has("203.0.113.7/32") })
}

func TestNetnsAFamilyWithoutANextHopIsLeftOutAndSaysSo(t *testing.T) {
	r := newRig(t, peerOf(peer6, func(p *schema.BGPPeer) { p.IPv4 = true }))
	r.check(exec.Command("ip", "address", "del", node4+"/24", "dev", "v0").Run())
	b := newBird(t, r.peer, session("n6", ""))
	r.Start()
	r.vip("default.six", schema.StateActive, "2001:db8:7::7")
	r.vip("default.four", schema.StateActive, "203.0.113.7")
	r.announced("default.six", schema.True)
	r.eventually("BIRD has the path of the session's own family", func() bool { return b.has("2001:db8:7::7/128") })
	if c := r.announced("default.four", schema.False); !strings.Contains(c.Message, "no ipv4 next hop") {
		t.Errorf("message: %s", c.Message)
	}
}
