package arpd

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/vipod/vipod/arpd/internal/frame"
	"github.com/vipod/vipod/arpd/internal/link"
	"github.com/vipod/vipod/arpd/internal/plan"
	"github.com/vipod/vipod/shared/netsafe"
	"github.com/vipod/vipod/shared/netsafe/nstest"
)

const far = "far0"

// kernelWorld is a pair of links between two namespaces.
type kernelWorld struct {
	ns, peer *nstest.NS
	mu       sync.Mutex
	frames   []heard
	fd       int       // a socket on the far end
	index    int       // of the far end
	added    time.Time // just after an address was last added
}

func newKernelWorld(t *testing.T) *kernelWorld {
	w := &kernelWorld{ns: nstest.Peer(t), peer: nstest.Peer(t)}
	w.connect(t)
	return w
}

func (w *kernelWorld) connect(t *testing.T) {
	nstest.Veth(t, w.ns, iface, w.peer, far)
	must(t, w.peer.Do(func() error {
		l, err := netlink.LinkByName(far)
		if err != nil {
			return err
		}
		if err := netlink.LinkSetHardwareAddr(l, []byte(stranger)); err != nil {
			return err
		}
		w.index = l.Attrs().Index
		w.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, int(bigEndian(unix.ETH_P_ALL)))
		if err != nil {
			return err
		}
		return unix.Bind(w.fd, &unix.SockaddrLinklayer{Protocol: bigEndian(unix.ETH_P_ALL), Ifindex: w.index})
	}))
	go w.capture(w.fd)
	eventually(t, "the link has a carrier", func() bool {
		links, err := w.host().Links()
		for _, l := range links {
			if l.Name == iface && l.Up() {
				return err == nil
			}
		}
		return false
	})
}

func bigEndian(n uint16) uint16 { return n>>8 | n<<8 }

func (w *kernelWorld) capture(fd int) {
	buf := make([]byte, 2048)
	for {
		n, from, err := unix.Recvfrom(fd, buf, 0)
		if errors.Is(err, unix.ENETDOWN) || errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return
		}
		ll, ok := from.(*unix.SockaddrLinklayer)
		if !ok || ll.Pkttype == unix.PACKET_OUTGOING {
			continue
		}
		protocol := bigEndian(ll.Protocol)
		hw := frame.Hardware{Type: 1, MAC: broadcast, Broadcast: broadcast}
		claim, err := frame.Decode(protocol, hw, frame.MAC(ll.Addr[:6]), buf[:n])
		if err != nil {
			continue
		}
		w.mu.Lock()
		w.frames = append(w.frames, heard{Claim: claim, kind: kindOf(protocol, buf[:n], claim.Probe), at: time.Now()})
		w.mu.Unlock()
	}
}

func (w *kernelWorld) heard() []heard {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]heard(nil), w.frames...)
}

func (w *kernelWorld) say(t *testing.T, f frame.Frame) {
	to := unix.SockaddrLinklayer{Protocol: bigEndian(f.Protocol), Ifindex: w.index, Halen: 6}
	copy(to.Addr[:], f.To)
	must(t, unix.Sendto(w.fd, f.Payload, 0, &to))
}

func (w *kernelWorld) add(t *testing.T, ip netip.Addr, protocol uint8) {
	a := w.address(t, ip, protocol)
	must(t, w.ns.Do(func() error {
		err := netsafe.AddAddress(a)
		w.added = time.Now()
		return err
	}))
}

func (w *kernelWorld) remove(t *testing.T, ip netip.Addr) {
	must(t, w.ns.Do(func() error { return netsafe.DeleteAddress(w.address(t, ip, protocol)) }))
}

func (w *kernelWorld) address(t *testing.T, ip netip.Addr, protocol uint8) netsafe.Address {
	a := netsafe.Address{
		LinkIndex: w.ns.Index(t, iface), Prefix: netip.PrefixFrom(ip, ip.BitLen()), Protocol: protocol, Valid: netsafe.Forever,
	}
	if ip.Is6() {
		a.Flags = unix.IFA_F_NODAD
	}
	return a
}

func (w *kernelWorld) renew(t *testing.T) {
	w.ns.Delete(t, iface)
	w.connect(t)
}

func (w *kernelWorld) host() Host { return inside{w.ns}.host() }

// inside is ThisHost in a namespace.
type inside struct{ ns *nstest.NS }

func (i inside) host() Host {
	return Host{Kernel: i, Network: i, Subscribe: func(ctx context.Context, fire func()) error {
		return i.ns.Do(func() error { return subscribe(ctx, fire) })
	}}
}

// Links implements reconcile.Kernel.
func (i inside) Links() (list []netsafe.Link, err error) {
	err = i.ns.Do(func() error { list, err = netsafe.Links(); return err })
	return list, err
}

// Addresses implements reconcile.Kernel.
func (i inside) Addresses() (list []netsafe.Address, err error) {
	err = i.ns.Do(func() error { list, err = netsafe.Addresses(); return err })
	return list, err
}

// Receives implements reconcile.Kernel.
func (i inside) Receives(ip netip.Addr) (ok bool, err error) {
	err = i.ns.Do(func() error { ok, err = receives(ip); return err })
	return ok, err
}

// Open implements link.Network.
func (i inside) Open(at plan.Port, hw frame.Hardware, heard func(frame.Claim)) (p link.Port, err error) {
	err = i.ns.Do(func() error { p, err = link.Kernel{}.Open(at, hw, heard); return err })
	return p, err
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
