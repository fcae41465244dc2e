package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vipod/vipod/shared/ownership"
	"github.com/vipod/vipod/shared/schema"
)

// secret has what the text form of a peer cannot hold, and a backslash.
const secret = `p:a,ss wörd'=;\`

func withPassword(p *schema.BGPPeer) { p.Password = true }

func TestNetnsPasswordComesFromAFileAndIsNeverShown(t *testing.T) {
	for _, address := range []string{peer4, peer6} {
		r := newRig(t, peerOf(address, withPassword))
		b := newBird(t, r.peer, session("n4", `password "`+secret+`";`)+session("n6", `password "`+secret+`";`))
		r.password("router", secret+"\n")
		r.Start()
		ip := map[string]string{peer4: "203.0.113.7", peer6: "2001:db8:7::7"}[address]
		r.vip("default.web", schema.StateActive, ip)
		r.announced("default.web", schema.True)
		r.eventually("the router's kernel has the route", func() bool { return b.kernel(ip) })
		for _, path := range []string{"/status", "/metrics"} {
			text, err := r.Ask(path)
			r.check(err)
			if strings.Contains(text, "wörd") {
				t.Errorf("%s shows the password", path)
			}
		}
		for _, file := range []string{"daemon", "vips/default.web"} {
			text, err := os.ReadFile(r.Path(ownership.Bgpd, file))
			r.check(err)
			if strings.Contains(string(text), "wörd") {
				t.Errorf("%s shows the password", file)
			}
		}
	}
}

func TestNetnsPasswordIsFollowedWhenItsFileChanges(t *testing.T) {
	r := newRig(t, peerOf(peer4, withPassword))
	b := newBird(t, r.peer, session("n4", `password "right";`))
	r.password("router", "wrong")
	r.Start()
	r.vip("default.web", schema.StateActive, "203.0.113.7")
	r.eventually("the peer's problem is told", func() bool {
		s, _ := r.Ask("/status")
		return strings.Contains(s, "another password")
	})
	if b.has("203.0.113.7/32") {
		t.Error("announced with the wrong password")
	}
	r.password("router", "right")
	r.announced("default.web", schema.True)
}

func TestNetnsWithoutItsPasswordThereIsNoSession(t *testing.T) {
	r := newRig(t, peerOf(peer4, withPassword))
	newBird(t, r.peer, session("n4", ""))
	r.Start()
	r.vip("default.web", schema.StateActive, "203.0.113.7")
	c := r.announced("default.web", schema.False)
	if !strings.Contains(c.Message, "no password") {
		t.Errorf("message: %s", c.Message)
	}
	r.password(peer4, "late") // by address; the directory was not there at the start
	r.check(os.Remove(filepath.Join(r.Dir, "passwords", peer4)))
}
