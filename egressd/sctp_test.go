package main

import (
	"encoding/binary"
	"hash/crc32"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vipod/vipod/shared/schema"
)

// initChunk is an SCTP packet that asks for an association (RFC 9260, 3.3.2).
// The kernel here need not speak SCTP: a raw socket sends it.
func initChunk(from, to uint16) []byte {
	p := make([]byte, 32)
	binary.BigEndian.PutUint16(p[0:], from)
	binary.BigEndian.PutUint16(p[2:], to)
	p[12] = 1 // INIT
	binary.BigEndian.PutUint16(p[14:], 20)
	binary.BigEndian.PutUint32(p[16:], 0x01020304) // initiate tag
	binary.BigEndian.PutUint32(p[20:], 65536)
	binary.BigEndian.PutUint16(p[24:], 1)
	binary.BigEndian.PutUint16(p[26:], 1)
	binary.BigEndian.PutUint32(p[28:], 1)
	binary.LittleEndian.PutUint32(p[8:], crc32.Checksum(p, crc32.MakeTable(crc32.Castagnoli)))
	return p
}

// sctp is a raw socket of the protocol in a namespace.
func (r *rig) sctp(do func(func() error) error, family int) int {
	r.t.Helper()
	fd := -1
	r.check(do(func() (err error) {
		fd, err = unix.Socket(family, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_SCTP)
		return err
	}))
	r.t.Cleanup(func() { _ = unix.Close(fd) })
	return fd
}

// askSCTP says whether a request to the VIP's port arrives on the node.
func (r *rig) askSCTP(ip string, port uint16) bool {
	r.t.Helper()
	a := netip.MustParseAddr(ip)
	family, to := unix.AF_INET6, unix.Sockaddr(&unix.SockaddrInet6{Addr: a.As16()})
	if a.Is4() {
		family, to = unix.AF_INET, &unix.SockaddrInet4{Addr: a.As4()}
	}
	in := r.sctp(r.ns.Do, family)
	r.check(unix.SetsockoptTimeval(in, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 300_000}))
	r.check(unix.Sendto(r.sctp(r.outside.Do, family), initChunk(5000, port), 0, to))
	for buf, end := make([]byte, 128), time.Now().Add(answerTime); time.Now().Before(end); {
		n, _, err := unix.Recvfrom(in, buf, 0)
		if err != nil {
			return false
		}
		if packet := buf[:n]; n >= 32 && binary.BigEndian.Uint16(packet[n-30:]) == port {
			return true
		}
	}
	return false
}

func TestNetnsTheFirewallKnowsSCTP(t *testing.T) {
	r := newRig(t)
	r.WriteNode(r.node)
	r.Grant(time.Hour)
	r.Start()
	if !r.askSCTP(vip4, 132) || !r.askSCTP(vip6, 132) {
		t.Fatal("SCTP does not arrive without a firewall: the test shows nothing")
	}
	r.vip(schema.StateActive, firewall(false, schema.Port{Protocol: schema.SCTP, Port: 132}, schema.Port{Protocol: schema.TCP, Port: 133}))
	r.eventually("the firewall stands", func() bool { return r.reached("tcp", vip4, 7001) == "nothing" })
	for _, ip := range []string{vip4, vip6} {
		if !r.askSCTP(ip, 132) {
			t.Errorf("port 132 of %s is closed", ip)
		}
		for _, port := range []uint16{131, 133} {
			if r.askSCTP(ip, port) {
				t.Errorf("port %d of %s is open", port, ip)
			}
		}
	}
}
