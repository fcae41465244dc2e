package claim

import (
	"fmt"
	"net/netip"
	"testing"
	"time"
)

// BenchmarkRenewal is what the machine does between two renewals in a cluster
// in which nothing happens: its own update, the watch events of three nodes,
// and the looks of the loop.
func BenchmarkRenewal(b *testing.B) {
	for _, n := range []int{10, 1000, 5000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			c := newBenchCluster(n)
			for b.Loop() {
				c.renewAll()
			}
		})
	}
}

// BenchmarkTakeover is what the machine does when another node's Lease ends
// of which it claims every address.
func BenchmarkTakeover(b *testing.B) {
	for _, n := range []int{1000, 5000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				c := newBenchCluster(n)
				c.machine.Want(c.now, c.groups, true)
				c.now += 5 * time.Second // n2 and n3 are silent
				b.StartTimer()
				c.machine.Tick(c.now)
				u, ok := c.machine.Next(c.now)
				if ok {
					c.commit(u)
				}
			}
		})
	}
}

// benchCluster is a machine among three nodes, each of which owns a third of
// n addresses.
type benchCluster struct {
	machine *Machine
	now     time.Duration
	version uint64
	groups  []Group
	others  []Lease
}

func newBenchCluster(n int) *benchCluster {
	c := &benchCluster{machine: New("n1", Timing{Duration: 5 * time.Second, Renew: time.Second}), now: time.Hour, version: 1}
	for i := range n {
		ip := netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 12: byte(i >> 16), 13: byte(i >> 8), 14: byte(i), 15: 1})
		c.groups = append(c.groups, Group{Addresses: []netip.Addr{ip}, Eligible: true})
	}
	c.others = []Lease{{Node: "n2"}, {Node: "n3"}}
	for i := range c.others {
		l := &c.others[i]
		l.Duration, l.Ready = 5*time.Second, true
		for k := i + 1; k < n; k += 3 {
			l.Claims = append(l.Claims, c.groups[k].Addresses[0])
		}
	}
	c.machine.Relist(c.now, nil)
	c.machine.Want(c.now, c.groups, true)
	c.renewAll()
	for range 20 { // probes, turns, claims
		c.now += 100 * time.Millisecond
		c.machine.Tick(c.now)
		for _, g := range c.groups {
			c.machine.Probed(c.now, g.Addresses[0], true)
		}
		c.renewAll()
	}
	return c
}

// commit writes the update and delivers its event.
func (c *benchCluster) commit(u Update) {
	c.version++
	c.machine.Committed(c.now, c.version)
	c.machine.Observe(c.now, Lease{Node: "n1", Version: c.version, Duration: 5 * time.Second, Ready: u.Ready, Claims: u.Claims})
}

func (c *benchCluster) renewAll() {
	c.now += time.Second
	for i := range c.others {
		c.version++
		c.others[i].Version = c.version
		c.machine.Observe(c.now, c.others[i])
	}
	for range 4 { // passes of the loop
		c.machine.Tick(c.now)
		if u, ok := c.machine.Next(c.now); ok {
			c.commit(u)
		}
		c.machine.Deadline(c.now)
	}
}
