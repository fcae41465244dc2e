package main

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vipod/vipod/shared/netsafe/nstest"
)

// asker asks from the peer's side who has an address, and sees every frame by
// which the node claims one.
type asker struct {
	fd  int
	mac net.HardwareAddr
}

func newAsker(r *rig) *asker {
	r.t.Helper()
	a := &asker{}
	r.check(r.peer.Do(func() error { return a.open() }))
	r.t.Cleanup(func() { _ = unix.Close(a.fd) })
	return a
}

func (a *asker) open() error {
	link, err := net.InterfaceByName("v1")
	if err != nil {
		return err
	}
	a.mac = link.HardwareAddr
	a.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, int(htons(unix.ETH_P_ALL)))
	if err != nil {
		return err
	}
	return errors.Join(
		unix.Bind(a.fd, &unix.SockaddrLinklayer{Protocol: htons(unix.ETH_P_ALL), Ifindex: link.Index}),
		unix.SetsockoptTimeval(a.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 20_000}))
}

func htons(v uint16) uint16 { return v<<8 | v>>8 }

// answered says whether the node answers for the address within d.
func (a *asker) answered(ip string, d time.Duration) bool {
	target := netip.MustParseAddr(ip)
	frame := a.arpRequest(target)
	if target.Is6() {
		frame = a.solicitation(target)
	}
	a.forget()
	for deadline := time.Now().Add(d); time.Now().Before(deadline); {
		_, _ = unix.Write(a.fd, frame) // asked again when it fails
		for range 4 {
			if a.claim(target) {
				return true
			}
		}
	}
	return false
}

// forget drops what came before.
func (a *asker) forget() {
	var buf [2048]byte
	for {
		if _, _, err := unix.Recvfrom(a.fd, buf[:], unix.MSG_DONTWAIT); err != nil {
			return
		}
	}
}

// claim reads one frame and says whether it claims the address.
func (a *asker) claim(ip netip.Addr) bool {
	var buf [2048]byte
	n, from, err := unix.Recvfrom(a.fd, buf[:], 0)
	if l, ok := from.(*unix.SockaddrLinklayer); err != nil || ok && l.Pkttype == unix.PACKET_OUTGOING {
		return false
	}
	f := buf[:n]
	switch {
	case n >= 42 && binary.BigEndian.Uint16(f[12:]) == unix.ETH_P_ARP:
		return ip.Is4() && [4]byte(f[28:32]) == ip.As4()
	case n >= 78 && binary.BigEndian.Uint16(f[12:]) == unix.ETH_P_IPV6 && f[20] == unix.IPPROTO_ICMPV6 && f[54] == 136:
		return ip.Is6() && [16]byte(f[62:78]) == ip.As16()
	case n >= 78 && binary.BigEndian.Uint16(f[12:]) == unix.ETH_P_IPV6 && f[20] == unix.IPPROTO_ICMPV6 && f[54] == 135:
		return ip.Is6() && [16]byte(f[22:38]) == ip.As16()
	}
	return false
}

// arpRequest is RFC 826 from 198.51.100.2.
func (a *asker) arpRequest(target netip.Addr) []byte {
	f := append([]byte{255, 255, 255, 255, 255, 255}, a.mac...)
	f = append(f, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1)
	f = append(append(f, a.mac...), 198, 51, 100, 2)
	return append(append(f, 0, 0, 0, 0, 0, 0), target.AsSlice()...)
}

// solicitation is RFC 4861 4.3 from 2001:db8::2.
func (a *asker) solicitation(target netip.Addr) []byte {
	t := target.As16()
	src := netip.MustParseAddr("2001:db8::2").As16()
	dst := netip.MustParseAddr("ff02::1:ff00:0").As16()
	copy(dst[13:], t[13:])
	body := append([]byte{135, 0, 0, 0, 0, 0, 0, 0}, t[:]...)
	body = append(append(body, 1, 1), a.mac...)
	pseudo := append(append([]byte{}, src[:]...), dst[:]...)
	pseudo = append(pseudo, 0, 0, 0, byte(len(body)), 0, 0, 0, unix.IPPROTO_ICMPV6)
	binary.BigEndian.PutUint16(body[2:], checksum(append(pseudo, body...)))
	f := append([]byte{0x33, 0x33, 0xff, t[13], t[14], t[15]}, a.mac...)
	f = append(f, 0x86, 0xdd, 0x60, 0, 0, 0, 0, byte(len(body)), unix.IPPROTO_ICMPV6, 255)
	return append(append(append(f, src[:]...), dst[:]...), body...)
}

func checksum(b []byte) uint16 {
	var sum uint32
	for i := 0; i+1 < len(b); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}

// reaches says whether a datagram from the peer gets to the node and back,
// through whatever the peer's neighbour cache knows.
func reaches(r *rig, peer *nstest.NS, ip string) bool {
	r.t.Helper()
	network, port := "udp4", "9999"
	if netip.MustParseAddr(ip).Is6() {
		network = "udp6"
	}
	server, err := net.ListenPacket(network, net.JoinHostPort(ip, port))
	if err != nil {
		return false
	}
	defer func() { _ = server.Close() }()
	go func() {
		var b [16]byte
		if n, from, err := server.ReadFrom(b[:]); err == nil {
			_, _ = server.WriteTo(b[:n], from)
		}
	}()
	err = peer.Do(func() error {
		c, err := net.Dial(network, net.JoinHostPort(ip, port))
		if err != nil {
			return err
		}
		defer func() { _ = c.Close() }()
		_ = c.SetDeadline(time.Now().Add(2 * time.Second))
		if _, err := c.Write([]byte("hello")); err != nil {
			return err
		}
		_, err = c.Read(make([]byte, 16))
		return err
	})
	return err == nil
}
