package arpd

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/vipod/vipod/arpd/internal/frame"
	"github.com/vipod/vipod/arpd/internal/link/linktest"
	"github.com/vipod/vipod/arpd/internal/plan"
	"github.com/vipod/vipod/shared/netsafe"
)

// fakeWorld is a world in memory.
type fakeWorld struct {
	*linktest.Segment
	mu        sync.Mutex
	link      netsafe.Link
	addresses []netsafe.Address
	fire      func()
}

func newFakeWorld() *fakeWorld {
	return &fakeWorld{Segment: linktest.New(), fire: func() {}, link: netsafe.Link{
		Name: iface, Index: 7, Type: unix.ARPHRD_ETHER, Flags: unix.IFF_UP, OperState: 6, Carrier: true,
		MAC: net.HardwareAddr{2, 0, 0, 0, 0, 1}, Broadcast: net.HardwareAddr(broadcast),
	}}
}

func (w *fakeWorld) host() Host {
	return Host{Kernel: w, Network: w.Segment, Subscribe: func(ctx context.Context, fire func()) error {
		w.change(func() { w.fire = fire })
		<-ctx.Done()
		return nil
	}}
}

func (w *fakeWorld) change(f func()) {
	w.mu.Lock()
	f()
	fire := w.fire
	w.mu.Unlock()
	fire()
}

// Links implements reconcile.Kernel.
func (w *fakeWorld) Links() ([]netsafe.Link, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return []netsafe.Link{w.link}, nil
}

// Addresses implements reconcile.Kernel.
func (w *fakeWorld) Addresses() ([]netsafe.Address, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.addresses), nil
}

// Receives implements reconcile.Kernel.
func (w *fakeWorld) Receives(netip.Addr) (bool, error) { return true, nil }

func (w *fakeWorld) add(_ *testing.T, ip netip.Addr, protocol uint8) {
	w.change(func() {
		w.addresses = append(w.addresses, netsafe.Address{
			LinkIndex: w.link.Index, Prefix: netip.PrefixFrom(ip, ip.BitLen()), Protocol: protocol,
		})
	})
}

func (w *fakeWorld) remove(_ *testing.T, ip netip.Addr) {
	w.change(func() {
		w.addresses = slices.DeleteFunc(w.addresses, func(a netsafe.Address) bool { return a.Prefix.Addr() == ip })
	})
}

func (w *fakeWorld) renew(*testing.T) {
	w.change(func() { w.link.Index, w.addresses = w.link.Index+1, nil })
}

func (w *fakeWorld) heard() []heard {
	var out []heard
	for _, s := range w.Sent() {
		hw := frame.Hardware{Type: 1, MAC: broadcast, Broadcast: broadcast}
		claim, err := frame.Decode(s.Protocol, hw, frame.MAC(w.link.MAC), s.Payload)
		if err != nil {
			panic(err) // a frame of ours that nobody can read
		}
		out = append(out, heard{Claim: claim, kind: kindOf(s.Protocol, s.Payload, claim.Probe), at: s.At})
	}
	return out
}

func (w *fakeWorld) say(_ *testing.T, f frame.Frame) {
	w.mu.Lock()
	at := plan.Port{Link: w.link.Index, Protocol: f.Protocol}
	w.mu.Unlock()
	w.Inject(at, stranger, f.Payload)
}
