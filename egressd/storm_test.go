package main

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vipod/vipod/shared/schema"
)

// sources counts, by whom the outside saw, the datagrams that arrive there.
type sources struct {
	mu   sync.Mutex
	seen map[netip.Addr]int
}

func (s *sources) counts() map[netip.Addr]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[netip.Addr]int{}
	for ip, n := range s.seen {
		out[ip] = n
	}
	return out
}

// stormPort is where the outside counts.
const stormPort = port + 1

// storm has a pod send a datagram over each family every millisecond, each
// from a port of its own so that each is a new connection, until the test ends.
func (r *rig) storm(pods ...string) *sources {
	r.t.Helper()
	s := &sources{seen: map[netip.Addr]int{}}
	var in net.PacketConn
	r.check(r.outside.Do(func() (err error) { in, err = net.ListenPacket("udp", fmt.Sprintf(":%d", stormPort)); return err }))
	r.t.Cleanup(func() { _ = in.Close() })
	go func() {
		buf := make([]byte, 16)
		for {
			_, from, err := in.ReadFrom(buf)
			if err != nil {
				return
			}
			ip := netip.MustParseAddrPort(from.String()).Addr().Unmap()
			s.mu.Lock()
			s.seen[ip]++
			s.mu.Unlock()
		}
	}()
	stop := make(chan struct{})
	var wg sync.WaitGroup
	r.t.Cleanup(func() { close(stop); wg.Wait() })
	for _, pod := range pods {
		to := outside6
		if netip.MustParseAddr(pod).Is4() {
			to = outside4
		}
		wg.Go(func() {
			_ = r.pods[pod].Do(func() error {
				for {
					select {
					case <-stop:
						return nil
					case <-time.After(time.Millisecond):
					}
					c, err := net.Dial("udp", netip.AddrPortFrom(netip.MustParseAddr(to), stormPort).String())
					if err == nil {
						_, _ = c.Write([]byte("?")) // lost while held back
						_ = c.Close()
					}
				}
			})
		})
	}
	return s
}

// A pod that egressd knows never leaves with another address than the VIP,
// whatever becomes of the VIP and of egressd.
func TestNetnsNoPacketLeavesWithAWrongSource(t *testing.T) {
	r := newRig(t)
	a4, a6 := r.pod(2)
	r.WriteNode(r.node)
	r.Grant(time.Hour)
	r.egress([]string{a4, a6})
	r.vip(schema.StateStandby)
	r.Start()
	r.becomes(schema.ConditionEgress, "NotActive")
	s := r.storm(a4, a6)
	states := []schema.State{schema.StateActive, schema.StateDraining, schema.StateWithdrawn, schema.StateStandby}
	for round := range 8 {
		r.vip(states[round%len(states)])
		time.Sleep(time.Duration(round*7%40) * time.Millisecond) // anywhere in its work
		r.Kill()
		time.Sleep(50 * time.Millisecond)
		r.Start()
		want := "NotActive"
		if states[round%len(states)] == schema.StateActive {
			want = "Translated"
		}
		r.becomes(schema.ConditionEgress, want)
		r.egress([]string{a4, a6}, func(e *schema.Egress) { e.Ports, e.Denied = nil, prefixes(fmt.Sprintf("192.0.2.%d/32", round)) })
		time.Sleep(50 * time.Millisecond)
	}
	counts := s.counts()
	t.Logf("the outside saw %v", counts)
	for ip := range counts {
		if ip != netip.MustParseAddr(vip4) && ip != netip.MustParseAddr(vip6) {
			t.Errorf("%d packets came from %s", counts[ip], ip)
		}
	}
	if counts[netip.MustParseAddr(vip4)] == 0 || counts[netip.MustParseAddr(vip6)] == 0 {
		t.Error("nothing came from the VIP: the test shows nothing")
	}
}

func TestNetnsConnectionsAreForgottenWhereAServiceAsksForIt(t *testing.T) {
	r := newRig(t)
	a4, a6 := r.pod(2)
	r.serve(r.ns)
	r.WriteNode(r.node)
	r.Grant(time.Hour)
	r.vip(schema.StateStandby)
	r.egress([]string{a4, a6}, func(e *schema.Egress) {
		e.Flush = &schema.Flush{DestinationPorts: []schema.Port{{Protocol: schema.UDP, Port: port}}}
	})
	r.Start()
	r.becomes(schema.ConditionEgress, "NotActive")
	for _, network := range []string{"udp", "tcp"} {
		c, err := r.dial("", network, vip4)
		r.check(err)
		if _, err := c.ask(); err != nil && network == "tcp" { // over UDP the node answers from its own address
			t.Fatal(err)
		}
	}
	tracked := func(network string) bool {
		out := r.run("conntrack", "-L", "-p", network, "-d", vip4)
		return strings.Contains(out, "dst="+vip4)
	}
	if !tracked("udp") || !tracked("tcp") {
		t.Fatal("the connections are not tracked")
	}
	r.vip(schema.StateActive)
	r.becomes(schema.ConditionEgress, "Translated")
	r.eventually("the connection over UDP is forgotten", func() bool { return !tracked("udp") })
	if !tracked("tcp") {
		t.Error("the connection over TCP is forgotten, too")
	}
}
