package reconcile

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/vipod/vipod/shared/netsafe"
)

// host is a Kernel whose addresses are received for or not.
type host struct {
	addresses []netip.Addr
	deaf      map[netip.Addr]bool
	asked     int
}

const ours = 248

func (*host) Links() ([]netsafe.Link, error) { return nil, nil }

func (h *host) Addresses() (list []netsafe.Address, err error) {
	for _, ip := range h.addresses {
		list = append(list, netsafe.Address{LinkIndex: 2, Prefix: netip.PrefixFrom(ip, ip.BitLen()), Protocol: ours})
	}
	return list, nil
}

func (h *host) Receives(ip netip.Addr) (bool, error) {
	h.asked++
	return !h.deaf[ip], nil
}

// A neighbor that is told of an address too early sends packets that the node
// routes away.
func TestAddressIsAnnouncedOnceTheKernelReceivesForIt(t *testing.T) {
	v4, v6 := netip.MustParseAddr("198.51.100.7"), netip.MustParseAddr("2001:db8::7")
	h := &host{addresses: []netip.Addr{v4, v6}, deaf: map[netip.Addr]bool{v4: true, v6: true}}
	r := &Reconciler{kernel: h}
	look := func(now time.Duration, wantAwaited bool, want ...netip.Addr) {
		t.Helper()
		list, awaited, err := r.present(now, ours)
		if err != nil {
			t.Fatal(err)
		}
		var got []netip.Addr
		for _, p := range list {
			got = append(got, p.IP)
		}
		if !slices.Equal(got, want) || awaited != wantAwaited {
			t.Errorf("at %v: %v, awaited: %t, want %v, %t", now, got, awaited, want, wantAwaited)
		}
	}
	look(0, true, v4) // IPv4 has its route at once
	look(receivePatience-1, true, v4)
	h.deaf[v6] = false
	look(receivePatience-1, false, v4, v6)
	asked := h.asked
	look(time.Second, false, v4, v6)
	if h.asked != asked {
		t.Error("asked again for an address that is received for")
	}

	h.addresses = []netip.Addr{v4}
	look(2*time.Second, false, v4)
	h.addresses, h.deaf[v6] = []netip.Addr{v4, v6}, true
	look(3*time.Second, true, v4) // it came anew
	look(3*time.Second+receivePatience, false, v4, v6)
	look(time.Hour, false, v4, v6) // on a link that is down it never will be
}
