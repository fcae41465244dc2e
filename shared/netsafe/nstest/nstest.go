// Package nstest gives tests network namespaces of their own, so that a test
// can add addresses and links without touching those of the machine.
package nstest

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Require is the environment variable that makes a test fail instead of skip
// when no namespace can be made.
const Require = "VIPOD_REQUIRE_NETNS"

// NS is a network namespace. It lives until the test ends.
type NS struct{ fd int }

// New makes a namespace and moves the test into it: the goroutine is locked
// to its thread, which is thrown away at the test's end. What the test does
// on its own goroutine, and every process that it starts from there, is in
// the namespace; goroutines that it starts are not.
func New(t testing.TB) *NS {
	t.Helper()
	runtime.LockOSThread() // never unlocked: the runtime ends such a thread
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		cannot(t, err)
	}
	ns, err := current()
	if err != nil {
		cannot(t, err)
	}
	t.Cleanup(ns.close)
	return ns
}

// Peer makes another namespace without entering it.
func Peer(t testing.TB) *NS {
	t.Helper()
	var ns *NS
	err := onThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return err
		}
		var err error
		ns, err = current()
		return err
	})
	if err != nil {
		cannot(t, err)
	}
	t.Cleanup(ns.close)
	return ns
}

func cannot(t testing.TB, err error) {
	t.Helper()
	if os.Getenv(Require) == "1" {
		t.Fatalf("making a network namespace: %v", err)
	}
	t.Skipf("no network namespace (%s=1 makes this a failure): %v", Require, err)
}

// current prepares the namespace of this thread and returns it.
func current() (*NS, error) {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return nil, fmt.Errorf("looking for lo: %w", err)
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		return nil, fmt.Errorf("setting lo up: %w", err)
	}
	// No test is about the kernel's duplicate address detection, which takes
	// more than a second per link.
	if err := os.WriteFile("/proc/sys/net/ipv6/conf/default/accept_dad", []byte("0"), 0); err != nil &&
		!errors.Is(err, os.ErrNotExist) && !errors.Is(err, unix.EROFS) {
		return nil, fmt.Errorf("switching off duplicate address detection: %w", err)
	}
	fd, err := unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("opening namespace: %w", err)
	}
	return &NS{fd: fd}, nil
}

func (n *NS) close() { _ = unix.Close(n.fd) } // the namespace goes with its last user

// FD returns a file descriptor of the namespace, valid until the test ends.
func (n *NS) FD() int { return n.fd }

// Do runs f on a thread of its own inside the namespace and returns its error.
func (n *NS) Do(f func() error) error {
	return onThread(func() error {
		if err := unix.Setns(n.fd, unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("entering namespace: %w", err)
		}
		return f()
	})
}

func onThread(f func() error) error {
	done := make(chan error)
	go func() {
		err := errors.New("goroutine ended early")
		defer func() { done <- err }()
		runtime.LockOSThread() // thrown away as in New
		err = f()
	}()
	return <-done
}

// do is Do that fails the test.
func (n *NS) do(t testing.TB, what string, f func() error) {
	t.Helper()
	if err := n.Do(f); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// Veth joins two namespaces, which may be the same, by a pair of links, both
// up.
func Veth(t testing.TB, a *NS, aName string, b *NS, bName string) {
	t.Helper()
	a.do(t, "making veth "+aName, func() error {
		attrs := netlink.NewLinkAttrs()
		attrs.Name = aName
		return netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: bName, PeerNamespace: netlink.NsFd(b.fd)})
	})
	a.SetUp(t, aName, true)
	b.SetUp(t, bName, true)
}

// Delete removes a link.
func (n *NS) Delete(t testing.TB, link string) {
	t.Helper()
	n.withLink(t, "removing "+link, link, netlink.LinkDel)
}

// SetUp sets a link administratively up or down.
func (n *NS) SetUp(t testing.TB, link string, up bool) {
	t.Helper()
	set := netlink.LinkSetDown
	if up {
		set = netlink.LinkSetUp
	}
	n.withLink(t, fmt.Sprintf("setting %s up=%t", link, up), link, set)
}

// Add gives a link an address of its own, as an administrator would.
func (n *NS) Add(t testing.TB, link, prefix string) {
	t.Helper()
	n.withLink(t, "adding "+prefix, link, func(l netlink.Link) error {
		addr, err := netlink.ParseAddr(prefix)
		if err != nil {
			return err
		}
		if addr.IP.To4() == nil {
			addr.Flags = unix.IFA_F_NODAD
		}
		return netlink.AddrAdd(l, addr)
	})
}

// AddDefault gives the namespace a default route through a gateway.
func (n *NS) AddDefault(t testing.TB, link string, gateway netip.Addr) {
	t.Helper()
	n.withLink(t, "adding default route", link, func(l netlink.Link) error {
		return netlink.RouteAdd(&netlink.Route{LinkIndex: l.Attrs().Index, Gw: gateway.AsSlice()})
	})
}

// Index returns the index of a link.
func (n *NS) Index(t testing.TB, link string) int {
	t.Helper()
	var index int
	n.withLink(t, "looking for "+link, link, func(l netlink.Link) error {
		index = l.Attrs().Index
		return nil
	})
	return index
}

func (n *NS) withLink(t testing.TB, what, name string, f func(netlink.Link) error) {
	t.Helper()
	n.do(t, what, func() error {
		l, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		return f(l)
	})
}
