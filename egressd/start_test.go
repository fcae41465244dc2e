package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/vipod/vipod/shared/ownership"
	"github.com/vipod/vipod/shared/schema"
)

// nursery is a namespace that has every address of the networks of pods, so
// that a pod starts by sending.
type nursery struct {
	*rig
	mu   sync.Mutex
	seen map[string]map[netip.Addr]int // by what a pod sends, whom the outside saw
}

func newNursery(r *rig) *nursery {
	n := &nursery{rig: r, seen: map[string]map[netip.Addr]int{}}
	first, _ := r.pod(1)
	r.check(r.pods[first].Do(func() error {
		return errors.Join(command("ip", "route", "add", "local", pods4, "dev", "lo"),
			os.WriteFile("/proc/sys/net/ipv6/ip_nonlocal_bind", []byte("1"), 0))
	}))
	r.run("ip", "route", "add", pods4, "dev", "pod1")
	r.run("ip", "route", "add", pods6, "dev", "pod1")
	var in net.PacketConn
	r.check(r.outside.Do(func() (err error) { in, err = net.ListenPacket("udp", fmt.Sprintf(":%d", stormPort)); return err }))
	r.t.Cleanup(func() { _ = in.Close() })
	go func() {
		buf := make([]byte, 16)
		for {
			size, from, err := in.ReadFrom(buf)
			if err != nil {
				return
			}
			ip := netip.MustParseAddrPort(from.String()).Addr().Unmap()
			n.mu.Lock()
			if who := string(buf[:size]); n.seen[who] == nil {
				n.seen[who] = map[netip.Addr]int{ip: 1}
			} else {
				n.seen[who][ip]++
			}
			n.mu.Unlock()
		}
	}()
	return n
}

// came says whether the outside has seen the pod.
func (n *nursery) came(who string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.seen[who]) > 0
}

// pod is the i-th one: its address, and what it sends, by which the outside
// knows it.
func (n *nursery) start(i int) (ip netip.Addr, who string) {
	if i%2 == 0 {
		return netip.MustParseAddr(fmt.Sprintf("203.0.113.%d", 2+i%120)), fmt.Sprintf("pod %d", i)
	}
	return netip.MustParseAddr(fmt.Sprintf("2001:db8:0:2::1:%x", i)), fmt.Sprintf("pod %d", i)
}

// send has a pod send from its first moment on, each packet as a connection of
// its own, until stop is closed.
func (n *nursery) send(ip netip.Addr, who string, stop chan struct{}) {
	to := outside6
	if ip.Is4() {
		to = outside4
	}
	_ = n.pods["203.0.113.1"].Do(func() error {
		for {
			d := net.Dialer{LocalAddr: net.UDPAddrFromAddrPort(netip.AddrPortFrom(ip, 0))}
			c, err := d.Dial("udp", netip.AddrPortFrom(netip.MustParseAddr(to), stormPort).String())
			if err == nil {
				_, _ = c.Write([]byte(who)) // lost while held back
				_ = c.Close()
			}
			select {
			case <-stop:
				return nil
			case <-time.After(time.Millisecond):
			}
		}
	})
}

// guardDocument is elector's document about pods that are not known.
func (r *rig) guardDocument(known ...netip.Addr) {
	r.t.Helper()
	r.Write(ownership.Elector, "egress/"+schema.EgressGuardKey, &schema.Egress{Key: schema.EgressGuardKey, Guard: &schema.Guard{
		Networks: r.node.Settings.InternalNetworks, Known: known,
	}})
}

// Pods send before anybody can know of them, and egressd is killed in between.
func TestNetnsNoPodStartsWithAWrongSource(t *testing.T) {
	const total, batch = 1000, 8
	r := newRig(t)
	n := newNursery(r)
	r.active("203.0.113.1")
	r.guardDocument()
	r.eventually("the guard stands", func() bool {
		return r.command("nft", "get", "element", "inet", "vipod_egress", "local4", "{ "+pods4+" }")
	})
	for from := 0; from < total; from += batch {
		stop := make(chan struct{})
		var wg sync.WaitGroup
		var pods []string
		var known []netip.Addr
		var names []string
		for i := from; i < from+batch; i++ {
			ip, who := n.start(i)
			if i%batch > batch-3 { // nobody's pods, of both families
				known, who = append(known, ip), "free "+who
			} else {
				pods = append(pods, ip.String())
			}
			names = append(names, who)
			wg.Go(func() { n.send(ip, who, stop) })
		}
		killed := from/batch%10 == 9
		if killed {
			r.Kill()
		}
		time.Sleep(time.Duration(rand.IntN(10)) * time.Millisecond) // until the kubelet has told
		r.egress(pods)
		r.guardDocument(known...)
		if killed {
			r.Start()
		}
		for _, who := range names {
			r.eventually(who+" comes through", func() bool { return n.came(who) })
		}
		close(stop)
		wg.Wait()
	}
	n.judge(total)
}

// judge fails the test for every packet with a wrong source.
func (n *nursery) judge(total int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	wrong, all := 0, 0
	for who, sources := range n.seen {
		want := map[string]bool{vip4: true, vip6: true}
		if who[0] == 'f' {
			want = map[string]bool{node4: true, node6: true}
		}
		for ip, count := range sources {
			all += count
			if !want[ip.String()] {
				wrong += count
				n.t.Errorf("%d packets of %s came from %s", count, who, ip)
			}
		}
	}
	n.t.Logf("%d pods started, %d packets came through, %d with a wrong source", total, all, wrong)
}
