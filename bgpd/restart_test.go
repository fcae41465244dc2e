package main

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vipod/vipod/shared/schema"
)

const restartable = "graceful restart on;"

func restarting(p *schema.BGPPeer) { p.RestartSeconds = 60 }

// watch looks at the router's routing table again and again and says at its
// end how often the route was missing.
func (b *bird) watch(ip string) (missing func() int) {
	stop, done := make(chan struct{}), make(chan int)
	go func() {
		n := 0
		for {
			select {
			case <-stop:
				done <- n
				return
			default:
				if !b.kernel(ip) {
					n++
				}
			}
		}
	}()
	return func() int { close(stop); return <-done }
}

func TestNetnsPeersKeepPathsWhileTheDaemonRestarts(t *testing.T) {
	for name, end := range map[string]func(*rig){
		"after a crash": func(r *rig) { r.Kill() },
		"when the container is replaced": func(r *rig) {
			r.Signal(syscall.SIGTERM)
			r.Exited()
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, peerOf(peer4, restarting, func(p *schema.BGPPeer) { p.IPv6 = true }))
			b := newBird(t, r.peer, session("n4", restartable))
			r.Serve("elector", ok{}) // it is well: only this container is replaced
			r.Start()
			r.vip("default.web", schema.StateActive, "203.0.113.7", "2001:db8:7::7")
			r.vip("default.old", schema.StateActive, "203.0.113.8")
			for _, ip := range []string{"203.0.113.7", "203.0.113.8", "2001:db8:7::7"} {
				r.eventually("the router's kernel has the route", func() bool { return b.kernel(ip) })
			}
			missing := b.watch("203.0.113.7")
			end(r)
			r.eventually("BIRD has noticed", func() bool { return !strings.Contains(b.ask("show protocols", "n4"), "Established") })
			r.DropVIP("default.old") // while nobody was there
			time.Sleep(500 * time.Millisecond)
			r.Start()
			r.announced("default.web", schema.True)
			r.eventually("what went meanwhile is gone", func() bool { return !b.kernel("203.0.113.8") })
			if n := missing(); n > 0 {
				t.Errorf("the route was missing %d times", n)
			}
		})
	}
}

func TestNetnsEverythingIsWithdrawnAtOnce(t *testing.T) {
	for name, end := range map[string]func(*rig){
		"when the peer is removed": func(r *rig) { r.setPeers() },
		"when BGP is switched off": func(r *rig) { r.node.Settings.BGP = nil; r.WriteNode(r.node) },
		"when the pod stops": func(r *rig) {
			r.node.Phase = schema.PhaseStopped
			r.WriteNode(r.node)
			r.Signal(syscall.SIGTERM)
			r.Exited()
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, peerOf(peer4, restarting))
			b := newBird(t, r.peer, session("n4", restartable))
			r.Start()
			r.vip("default.web", schema.StateActive, "203.0.113.7")
			r.eventually("the router's kernel has the route", func() bool { return b.kernel("203.0.113.7") })
			end(r)
			took := r.eventually("the route is gone", func() bool { return !b.kernel("203.0.113.7") })
			t.Logf("after %s", took)
		})
	}
}

func TestNetnsNothingIsAnnouncedBeforeTheDocumentsAreComplete(t *testing.T) {
	r := newRig(t, peerOf(peer4, restarting))
	b := newBird(t, r.peer, session("n4", restartable))
	r.node.Synced = false
	r.WriteNode(r.node)
	r.vip("default.web", schema.StateActive, "203.0.113.7")
	r.Start()
	r.eventually("it answers", func() bool { _, err := r.Ask("/healthz"); return err == nil })
	time.Sleep(500 * time.Millisecond)
	if strings.Contains(b.ask("show protocols", "n4"), "Established") {
		t.Error("a session before the documents are complete")
	}
	r.node.Synced = true
	r.WriteNode(r.node)
	r.announced("default.web", schema.True)
	// A restarting elector takes nothing away.
	r.node.Synced, r.node.Settings.BGP = false, nil
	r.WriteNode(r.node)
	r.DropVIP("default.web")
	time.Sleep(500 * time.Millisecond)
	if !b.has("203.0.113.7/32") {
		t.Error("withdrawn on an incomplete picture")
	}
}
