package main

import (
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/vipod/vipod/shared/netsafe/nstest"
	"github.com/vipod/vipod/shared/schema"
)

// birdBFD is BIRD's side of BFD.
const birdBFD = `protocol bfd { interface "v1" { min rx interval 50 ms; min tx interval 50 ms; multiplier 3; }; }
`

func withBFD(p *schema.BGPPeer) { p.BFD = &schema.BFD{TXMillis: 50, RXMillis: 50, Multiplier: 3} }

// bfdUp says whether both ends say that BFD is up, for so many sessions.
func (b *bird) bfdUp(r *rig, n int) bool {
	status, err := r.Ask("/status")
	return err == nil && strings.Count(status, `"bfd":"up"`) == n && strings.Count(b.ask("show bfd sessions"), " Up ") == n
}

// cut drops every packet of a namespace, in both directions, and leaves its
// links up; heal ends that.
func cut(t *testing.T, ns *nstest.NS) (heal func()) {
	t.Helper()
	nft := func(script string) {
		t.Helper()
		if err := ns.Do(func() error {
			cmd := exec.Command("nft", "-f", "-")
			cmd.Stdin = strings.NewReader(script)
			return cmd.Run()
		}); err != nil {
			t.Fatal(err)
		}
	}
	nft(`table inet cut {
	chain in { type filter hook input priority -500; iifname "v0" drop; }
	chain out { type filter hook output priority -500; oifname "v0" drop; }
}`)
	return func() { nft("delete table inet cut") }
}

func TestNetnsBFDClosesTheSessionWhenThePeerCannotBeReached(t *testing.T) {
	r := newRig(t, peerOf(peer4, withBFD), peerOf(peer6, withBFD, func(p *schema.BGPPeer) { p.Name = "six" }))
	b := newBird(t, r.peer, birdBFD+session("n4", "bfd on;")+session("n6", "bfd on;"))
	r.Start()
	r.vip("default.web", schema.StateActive, "203.0.113.7", "2001:db8:7::7")
	r.eventually("BFD is up with both", func() bool { return b.bfdUp(r, 2) })
	r.eventually("the router's kernel has the routes", func() bool { return b.kernel("203.0.113.7") && b.kernel("2001:db8:7::7") })
	since := b.ask("show protocols")
	time.Sleep(time.Second)
	if now := b.ask("show protocols"); now != since || !b.bfdUp(r, 2) {
		t.Errorf("sessions come and go:\n%s\nbefore:\n%s", now, since)
	}
	heal := cut(t, r.ns)
	took := r.eventually("the router's kernel has none", func() bool { return !b.kernel("203.0.113.7") && !b.kernel("2001:db8:7::7") })
	t.Logf("the router had no route %s after the cut", took)
	if c := r.announced("default.web", schema.False); !strings.Contains(c.Message, "BFD") {
		t.Errorf("message: %s", c.Message)
	}
	if took > 3*time.Second { // the hold time is 9 s
		t.Errorf("the router had the route for %s", took)
	}
	heal()
	r.announced("default.web", schema.True)
	r.eventually("BFD is up with both again", func() bool { return b.bfdUp(r, 2) })
}

func TestNetnsBFDLeavesGracefulRestartAlone(t *testing.T) {
	r := newRig(t, peerOf(peer4, withBFD, restarting))
	b := newBird(t, r.peer, birdBFD+session("n4", "bfd graceful; "+restartable))
	r.Start()
	r.vip("default.web", schema.StateActive, "203.0.113.7")
	r.eventually("BFD is up", func() bool { return b.bfdUp(r, 1) })
	missing := b.watch("203.0.113.7")
	r.Kill()
	r.eventually("BIRD has noticed", func() bool { return !strings.Contains(b.ask("show protocols", "n4"), "Established") })
	time.Sleep(500 * time.Millisecond)
	r.Start()
	r.announced("default.web", schema.True)
	r.eventually("BFD is up again", func() bool { return b.bfdUp(r, 1) })
	if n := missing(); n > 0 {
		t.Errorf("the route was missing %d times", n)
	}
}

func TestNetnsWhatCannotHaveBFDGoesWithoutAndSaysSo(t *testing.T) {
	r := newRig(t, peerOf(peer4, withBFD))
	b := newBird(t, r.peer, session("n4", ""))
	var other net.PacketConn // as another daemon of the node with BFD
	r.check(r.ns.Do(func() (err error) {
		other, err = net.ListenPacket("udp4", ":3784")
		return err
	}))
	defer other.Close()
	r.Start()
	r.vip("default.web", schema.StateActive, "203.0.113.7")
	r.announced("default.web", schema.True)
	if status, err := r.Ask("/status"); err != nil || !strings.Contains(status, "listening for BFD") || !b.has("203.0.113.7/32") {
		t.Errorf("%v: %s", err, status)
	}
}
