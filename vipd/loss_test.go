package main

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/vipod/vipod/shared/netsafe"
	"github.com/vipod/vipod/shared/netsafe/nstest"
)

var (
	gateway4 = netip.MustParseAddr("198.51.100.2")
	gateway6 = netip.MustParseAddr("2001:db8::2")
)

// dropDefault removes the namespace's default route through a gateway.
func (r *rig) dropDefault(gateway netip.Addr) {
	r.t.Helper()
	r.check(netlink.RouteDel(&netlink.Route{LinkIndex: r.ns.Index(r.t, "v0"), Gw: gateway.AsSlice()}))
}

// linkMessages returns a function that says whether the kernel told something
// about links since its last call.
func (r *rig) linkMessages() (told func() bool) {
	r.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var count atomic.Int64
	done := make(chan error, 1)
	go func() {
		done <- r.ns.Do(func() error {
			return netsafe.Subscribe(ctx, func() { count.Add(1) }, unix.RTNLGRP_LINK)
		})
	}()
	r.t.Cleanup(func() {
		cancel()
		r.check(<-done)
	})
	r.eventually("the kernel is heard", func() bool { return count.Load() > 0 })
	seen := count.Load()
	return func() bool {
		before := seen
		seen = count.Load()
		return seen > before
	}
}

// loseDefault removes a default route, after it came back in all rounds but the
// first.
func (r *rig) loseDefault(round int, gateway netip.Addr, has func() bool) (lost func() bool) {
	r.t.Helper()
	if round > 0 {
		r.ns.AddDefault(r.t, "v0", gateway)
		r.eventually("the route is back", has)
	}
	r.dropDefault(gateway)
	return func() bool { return !has() }
}

// slowest is how long one of the changes may take to be reported on a busy
// machine; what is aimed at is aim, and the test prints what was reached.
const (
	slowest = 3 * time.Second
	aim     = 100 * time.Millisecond
)

// measure makes a change many times and prints how long each took to be in the
// report that elector reads.
func (r *rig) measure(what string, rounds int, round func(i int) (changed func() bool)) {
	r.t.Helper()
	var took []time.Duration
	for i := range rounds {
		seen := round(i)
		took = append(took, r.eventually(fmt.Sprintf("%s, round %d", what, i), seen))
	}
	slices.Sort(took)
	within := 0
	for _, d := range took {
		if d <= aim {
			within++
		}
	}
	r.t.Logf("%s: median %v, slowest %v, %d of %d within %v", what, took[rounds/2], took[rounds-1], within, rounds, aim)
	if took[rounds-1] > slowest {
		r.t.Errorf("%s: reported after %v", what, took[rounds-1])
	}
}

func TestNetnsLossOfARouteOrLinkIsInTheReportAtOnce(t *testing.T) {
	r := newRig(t)
	const links = 10
	name := func(i int) string { return fmt.Sprintf("w%d", i) }
	for i := range links {
		nstest.Veth(t, r.ns, name(i), r.peer, "peer-"+name(i))
	}
	r.ns.AddDefault(t, "v0", gateway4)
	r.ns.AddDefault(t, "v0", gateway6)
	r.synced()
	r.Start()
	r.eventually("all is reported", func() bool {
		l := r.link("v0")
		return l.DefaultIPv4 && l.DefaultIPv6 && r.link(name(links-1)).Up
	})
	r.measure("a default route of IPv4", 20, func(i int) func() bool {
		return r.loseDefault(i, gateway4, func() bool { return r.link("v0").DefaultIPv4 })
	})
	r.measure("a default route of IPv6", 20, func(i int) func() bool {
		return r.loseDefault(i, gateway6, func() bool { return r.link("v0").DefaultIPv6 })
	})
	told := r.linkMessages()
	r.measure("a carrier, from the kernel's message on", 5, func(i int) func() bool {
		r.peer.SetUp(t, "peer-"+name(i), false)
		// The kernel tells of lost carriers once a second at most.
		r.eventually("the kernel tells", func() bool { return told() })
		return func() bool { return !r.link(name(i)).Up }
	})
	r.measure("a link made anew", links, func(i int) func() bool {
		r.ns.Delete(t, name(i))
		nstest.Veth(t, r.ns, name(i), r.peer, "peer-"+name(i))
		index := r.ns.Index(t, name(i))
		return func() bool { return r.link(name(i)).Index == index }
	})
}

func TestNetnsLossIsSeenAlthoughTheKernelsMessagesDidNotFit(t *testing.T) {
	r := newRig(t)
	r.ns.AddDefault(t, "v0", gateway4)
	r.synced()
	r.Start()
	r.eventually("the route is reported", func() bool { return r.link("v0").DefaultIPv4 })
	r.measure("a default route lost while messages overran", 2, func(i int) func() bool {
		if i > 0 {
			r.ns.AddDefault(t, "v0", gateway4)
			r.eventually("the route is back", func() bool { return r.link("v0").DefaultIPv4 })
		}
		r.Signal(syscall.SIGSTOP)
		r.overrun() // what comes afterwards finds no room
		r.dropDefault(gateway4)
		r.Signal(syscall.SIGCONT)
		return func() bool { return !r.link("v0").DefaultIPv4 }
	})
	// The kernel's messages are heard afterwards as before.
	r.ns.SetUp(t, "v0", false)
	r.eventually("the loss of the link", func() bool { return !r.link("v0").Up })
}

// overrun makes more messages than a socket's buffer takes.
func (r *rig) overrun() {
	r.t.Helper()
	a := netsafe.Address{LinkIndex: r.ns.Index(r.t, "v0"), Prefix: netip.MustParsePrefix("198.51.100.77/32"), Valid: netsafe.Forever}
	for range 3000 {
		r.check(netsafe.AddAddress(a))
		r.check(netsafe.DeleteAddress(a))
	}
}
