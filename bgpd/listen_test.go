package main

import (
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/vipod/vipod/shared/ownership"
	"github.com/vipod/vipod/shared/schema"
)

// active is BIRD's side of a session that BIRD opens.
func active(name, extra string) string {
	return strings.ReplaceAll(session(name, extra), "passive on; ", "")
}

// closed is a port on which no router listens: the session is the router's to
// open.
func closed(p *schema.BGPPeer) { p.Port = 9 }

// listen has bgpd listen, for which the namespace lets everybody have port 179.
func (r *rig) listen() {
	r.t.Helper()
	r.check(os.WriteFile("/proc/sys/net/ipv4/ip_unprivileged_port_start", []byte("0"), 0))
	r.node.Settings.BGP.Listen = true
	r.WriteNode(r.node)
}

func TestNetnsPeersMayOpenSessionsWhereThatIsAskedFor(t *testing.T) {
	r := newRig(t, peerOf(peer4, closed, withPassword), peerOf(peer6, closed, func(p *schema.BGPPeer) { p.Name, p.TTL, p.MinTTL = "six", 255, 255 }))
	r.password("router", "right")
	r.listen()
	b := newBird(t, r.peer, active("n4", `password "right";`)+active("n6", "ttl security on;"))
	r.Start()
	r.vip("default.web", schema.StateActive, "203.0.113.7", "2001:db8:7::7")
	r.announced("default.web", schema.True)
	r.eventually("BIRD has both paths", func() bool { return b.has("203.0.113.7/32") && b.has("2001:db8:7::7/128") })
	r.peer.Add(t, "v1", "198.51.100.66/24")
	r.check(r.peer.Do(func() error {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP("198.51.100.66")}, Timeout: 5 * time.Second}
		conn, err := d.Dial("tcp", node4+":179")
		if err != nil {
			return err
		}
		defer conn.Close()
		r.check(conn.SetDeadline(time.Now().Add(5 * time.Second)))
		if n, err := conn.Read(make([]byte, 1)); err == nil || n > 0 {
			t.Error("a stranger was answered")
		}
		return nil
	}))
	r.node.Settings.BGP.Listen = false
	r.WriteNode(r.node)
	r.eventually("it listens no more", func() bool {
		return r.peer.Do(func() error {
			conn, err := net.DialTimeout("tcp", "["+node6+"]:179", time.Second)
			if err == nil {
				_ = conn.Close()
			}
			return err
		}) != nil
	})
	if !b.has("203.0.113.7/32") {
		t.Error("the session ended with the listening")
	}
}

func TestNetnsBothSidesMayOpenTheSession(t *testing.T) {
	r := newRig(t, peerOf(peer4))
	r.listen()
	b := newBird(t, r.peer, active("n4", ""))
	r.Start()
	r.vip("default.web", schema.StateActive, "203.0.113.7")
	r.eventually("BIRD has the path", func() bool { return b.has("203.0.113.7/32") })
	since := b.ask("show protocols", "n4")
	time.Sleep(2500 * time.Millisecond)
	if now := b.ask("show protocols", "n4"); now != since {
		t.Errorf("sessions come and go:\n%s\nbefore:\n%s", now, since)
	}
}

func TestNetnsWithoutThePortSessionsAreOpenedAsEver(t *testing.T) {
	r := newRig(t, peerOf(peer4))
	b := newBird(t, r.peer, session("n4", ""))
	r.node.Settings.BGP.Listen = true // which the daemon's user may not
	r.WriteNode(r.node)
	r.Start()
	r.vip("default.web", schema.StateActive, "203.0.113.7")
	r.announced("default.web", schema.True)
	c, _ := schema.FindCondition(r.Self(ownership.Bgpd).Conditions, "Listening")
	if c.Status != schema.False || !strings.Contains(c.Message, "permission denied") || !b.has("203.0.113.7/32") {
		t.Errorf("%+v", c)
	}
}
