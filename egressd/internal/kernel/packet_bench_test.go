package kernel_test

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/vipod/vipod/egressd/internal/kernel"
	"github.com/vipod/vipod/egressd/internal/plan"
	"github.com/vipod/vipod/shared/netsafe/nstest"
)

// road is a pod, the node and the outside in a row. A datagram that the pod
// sends has passed all of it when the call returns.
func road(b *testing.B, pod string) (socket int) {
	b.Helper()
	node, pods, outside := nstest.New(b), nstest.Peer(b), nstest.Peer(b)
	nstest.Veth(b, node, "p0", pods, "p1")
	nstest.Veth(b, node, "o0", outside, "o1")
	run := func(ns *nstest.NS, args ...string) {
		b.Helper()
		if err := ns.Do(func() error { return exec.Command(args[0], args[1:]...).Run() }); err != nil {
			b.Fatalf("%v: %v", args, err)
		}
	}
	if err := os.WriteFile("/proc/sys/net/ipv6/conf/all/forwarding", []byte("1"), 0); err != nil {
		b.Fatal(err)
	}
	node.Add(b, "p0", "2001:db8:0:3::1/64")
	pods.Add(b, "p1", "2001:db8:0:3::2/64")
	pods.Add(b, "p1", pod+"/128")
	node.Add(b, "o0", "2001:db8:0:4::1/64")
	outside.Add(b, "o1", "2001:db8:0:4::2/64")
	run(node, "ip", "route", "add", pod, "via", "2001:db8:0:3::2")
	run(node, "ip", "route", "add", "2001:db8:9::/48", "via", "2001:db8:0:4::2")
	pods.AddDefault(b, "p1", netip.MustParseAddr("2001:db8:0:3::1"))
	run(outside, "ip", "route", "add", "blackhole", "2001:db8:9::/48")
	err := pods.Do(func() (err error) {
		if socket, err = unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0); err != nil {
			return err
		}
		return unix.Bind(socket, &unix.SockaddrInet6{Addr: netip.MustParseAddr(pod).As16(), Port: 4000})
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = unix.Close(socket) })
	return socket
}

// send sends datagrams, each of a new connection or all of one.
func send(b *testing.B, socket int, fresh bool) {
	b.Helper()
	to := &unix.SockaddrInet6{Addr: netip.MustParseAddr("2001:db8:9:1::").As16(), Port: 7000}
	for i := 0; b.Loop(); i++ {
		if fresh {
			to.Port = 1 + i%60000
			to.Addr[15] = byte(i / 60000 % 3) // the table of connections is finite
		}
		if err := unix.Sendto(socket, []byte("?"), 0, to); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkPacket is what a packet costs on its way through the node; with
// -benchtime 20000x every one of a new connection is one.
func BenchmarkPacket(b *testing.B) {
	const plain, listed = "2001:db8:0:2::3", "2001:db8:0:2::1"
	kinds := func(b *testing.B, pod string, prepare func(b *testing.B)) {
		for _, fresh := range []bool{true, false} {
			b.Run(fmt.Sprintf("new=%t", fresh), func(b *testing.B) {
				socket := road(b, pod)
				prepare(b)
				send(b, socket, fresh)
			})
		}
	}
	for _, size := range [][2]int{{100, 20}, {10000, 2000}} {
		for name, pod := range map[string]string{"without a list": plain, "with a list": listed} {
			b.Run(fmt.Sprintf("pods=%d/services=%d/%s", size[0], size[1], name), func(b *testing.B) {
				kinds(b, pod, func(b *testing.B) {
					k := kernel.NewLinux("")
					b.Cleanup(func() { _ = k.Close() })
					bring(b, k, crowd(size[0], size[1]), plan.Actual{})
				})
			})
		}
	}
	b.Run("nothing", func(b *testing.B) { kinds(b, plain, func(*testing.B) {}) })
	for _, services := range []int{20, 1000} {
		b.Run(fmt.Sprintf("a chain per service=%d", services), func(b *testing.B) {
			kinds(b, plain, func(b *testing.B) {
				cmd := exec.Command("nft", "-f", "-")
				cmd.Stdin = strings.NewReader(chainPerService(services))
				if out, err := cmd.CombinedOutput(); err != nil {
					b.Fatalf("%v: %.300s", err, out)
				}
			})
		})
	}
}
