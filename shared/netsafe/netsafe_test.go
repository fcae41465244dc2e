package netsafe_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/vipod/vipod/shared/netsafe"
	"github.com/vipod/vipod/shared/netsafe/nstest"
)

// pair is a namespace entered by the test, with link v0 to a peer's v1.
func pair(t *testing.T) (ns, peer *nstest.NS) {
	t.Helper()
	ns, peer = nstest.New(t), nstest.Peer(t)
	nstest.Veth(t, ns, "v0", peer, "v1")
	return ns, peer
}

func addresses(t *testing.T) map[netip.Prefix]netsafe.Address {
	t.Helper()
	list, err := netsafe.Addresses()
	if err != nil {
		t.Fatal(err)
	}
	m := map[netip.Prefix]netsafe.Address{}
	for _, a := range list {
		m[a.Prefix] = a
	}
	return m
}

func TestNetnsAddressReadsBackAsItWasAdded(t *testing.T) {
	ns, _ := pair(t)
	for _, want := range []netsafe.Address{
		{Prefix: netip.MustParsePrefix("198.51.100.7/32"), Protocol: 248, Valid: 120,
			Flags: unix.IFA_F_NOPREFIXROUTE},
		{Prefix: netip.MustParsePrefix("198.51.100.8/24"), Protocol: 4, Valid: netsafe.Forever, Preferred: netsafe.Forever,
			Flags: unix.IFA_F_PERMANENT},
		{Prefix: netip.MustParsePrefix("2001:db8::7/128"), Protocol: 255, Valid: 90,
			Flags: unix.IFA_F_NODAD | unix.IFA_F_NOPREFIXROUTE},
	} {
		want.LinkIndex = ns.Index(t, "v0")
		if err := netsafe.AddAddress(want); err != nil {
			t.Fatalf("adding %s: %v", want.Prefix, err)
		}
		if err := netsafe.AddAddress(want); !errors.Is(err, unix.EEXIST) {
			t.Errorf("adding %s again = %v, want EEXIST", want.Prefix, err)
		}
		got, ok := addresses(t)[want.Prefix]
		if !ok {
			t.Fatalf("%s is not there", want.Prefix)
		}
		if want.Valid != netsafe.Forever {
			if got.Valid > want.Valid || got.Valid < want.Valid-5 {
				t.Errorf("%s is valid for %d s, want about %d", want.Prefix, got.Valid, want.Valid)
			}
			if got.Flags&unix.IFA_F_DEPRECATED == 0 {
				t.Errorf("%s is not deprecated", want.Prefix)
			}
		}
		got.Valid, got.Flags = want.Valid, got.Flags&^unix.IFA_F_DEPRECATED
		if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" {
			t.Errorf("%s reads back differently (-want +got):\n%s", want.Prefix, diff)
		}
		if err := netsafe.DeleteAddress(want); err != nil {
			t.Errorf("deleting %s: %v", want.Prefix, err)
		}
		if err := netsafe.DeleteAddress(want); !netsafe.Gone(err) {
			t.Errorf("deleting %s again = %v, want Gone", want.Prefix, err)
		}
	}
}

func TestNetnsReplaceRefreshesLifetime(t *testing.T) {
	ns, _ := pair(t)
	for _, p := range []string{"198.51.100.7/32", "2001:db8::7/128"} {
		a := netsafe.Address{LinkIndex: ns.Index(t, "v0"), Prefix: netip.MustParsePrefix(p), Protocol: 248,
			Flags: unix.IFA_F_NODAD, Valid: 60}
		if err := netsafe.AddAddress(a); err != nil {
			t.Fatal(err)
		}
		a.Valid = 500
		if err := netsafe.ReplaceAddress(a); err != nil {
			t.Fatal(err)
		}
		if got := addresses(t)[a.Prefix]; got.Valid < 400 || got.Protocol != 248 {
			t.Errorf("%s after refresh: %+v", p, got)
		}
	}
}

func TestNetnsManyChangesAnswerEachForItself(t *testing.T) {
	ns, _ := pair(t)
	index := ns.Index(t, "v0")
	var changes []netsafe.Change
	ip := netip.MustParseAddr("203.0.113.0")
	for range 200 {
		ip = ip.Next()
		changes = append(changes, netsafe.Change{Address: netsafe.Address{LinkIndex: index, Prefix: netip.PrefixFrom(ip, 32),
			Protocol: 248, Valid: netsafe.Forever}})
	}
	changes[50].Address.LinkIndex = 9999
	changes[100] = changes[99]
	errs := netsafe.ChangeAddresses(changes)
	for i, err := range errs {
		switch {
		case i == 50 && !errors.Is(err, unix.ENODEV), i == 100 && !errors.Is(err, unix.EEXIST):
			t.Errorf("change %d: %v", i, err)
		case i != 50 && i != 100 && err != nil:
			t.Errorf("change %d: %v", i, err)
		}
	}
	if n := len(addresses(t)); n < 198 {
		t.Errorf("%d addresses, want at least 198", n)
	}
}

func TestNetnsLinksSeeCarrier(t *testing.T) {
	ns, peer := pair(t)
	find := func() netsafe.Link {
		t.Helper()
		links, err := netsafe.Links()
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(links, func(l netsafe.Link) bool { return l.Name == "v0" })
		if i < 0 {
			t.Fatal("v0 is not listed")
		}
		return links[i]
	}
	l := find()
	// The operational state follows the carrier by up to a second.
	for deadline := time.Now().Add(10 * time.Second); !l.Up() && time.Now().Before(deadline); l = find() {
		time.Sleep(20 * time.Millisecond)
	}
	if l.Index != ns.Index(t, "v0") || l.Kind != "veth" || len(l.MAC) != 6 || l.MTU < 1280 || l.Type != unix.ARPHRD_ETHER || !l.Up() {
		t.Errorf("v0 = %+v", l)
	}
	peer.SetUp(t, "v1", false)
	if l := find(); l.Carrier || l.Up() {
		t.Errorf("v0 without carrier = %+v", l)
	}
}

func TestNetnsDefaultRoutesCountEveryLeg(t *testing.T) {
	ns, peer := pair(t)
	nstest.Veth(t, ns, "w0", peer, "w1")
	ns.Add(t, "v0", "198.51.100.1/24")
	ns.Add(t, "w0", "203.0.113.1/24")
	ns.Add(t, "v0", "2001:db8::1/64")
	hops := []*netlink.NexthopInfo{
		{LinkIndex: ns.Index(t, "v0"), Gw: netip.MustParseAddr("198.51.100.254").AsSlice()},
		{LinkIndex: ns.Index(t, "w0"), Gw: netip.MustParseAddr("203.0.113.254").AsSlice()},
	}
	if err := netlink.RouteAdd(&netlink.Route{Dst: &net.IPNet{IP: net.IPv4zero, Mask: net.CIDRMask(0, 32)}, MultiPath: hops}); err != nil {
		t.Fatal(err)
	}
	ns.AddDefault(t, "v0", netip.MustParseAddr("2001:db8::fe"))
	got, err := netsafe.DefaultRoutes()
	if err != nil {
		t.Fatal(err)
	}
	v0, w0 := ns.Index(t, "v0"), ns.Index(t, "w0")
	want := netsafe.Defaults{IPv4: map[int]bool{v0: true, w0: true}, IPv6: map[int]bool{v0: true}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("default routes (-want +got):\n%s", diff)
	}
}

func TestNetnsSubscriptionFiresAndSurvivesOverflow(t *testing.T) {
	ns, _ := pair(t)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	fired := make(chan struct{}, 1)
	done := make(chan error, 1)
	blocked := make(chan struct{})
	go func() {
		done <- ns.Do(func() error { // the socket must be opened in the namespace
			return netsafe.Subscribe(ctx, func() {
				<-blocked
				select {
				case fired <- struct{}{}:
				default:
				}
			}, unix.RTNLGRP_IPV4_IFADDR)
		})
	}()
	// Nobody reads: far more events than the buffer takes.
	a := netsafe.Address{LinkIndex: ns.Index(t, "v0"), Prefix: netip.MustParsePrefix("198.51.100.7/32"), Valid: netsafe.Forever}
	for range 3000 {
		if err := errors.Join(netsafe.AddAddress(a), netsafe.DeleteAddress(a)); err != nil {
			t.Fatal(err)
		}
	}
	close(blocked)
	wait := func(what string) {
		t.Helper()
		select {
		case <-fired:
		case <-ctx.Done():
			t.Fatal(what + ": did not fire")
		}
	}
	wait("after the overflow")
	for quiet := false; !quiet; {
		select {
		case <-fired:
		case <-time.After(300 * time.Millisecond):
			quiet = true
		}
	}
	if err := netsafe.AddAddress(a); err != nil {
		t.Fatal(err)
	}
	wait("after a later event")
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Subscribe = %v after its context ended", err)
	}
}
