package bfd

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// hops is the TTL of what has passed no router: what is sent has it, and what
// comes without it is discarded (RFC 5881 section 5).
const hops = 255

// internetwork is the class of routing protocols, RFC 4594.
const internetwork = 0xc0

// ear is a socket that listens.
type ear struct {
	conn  *net.UDPConn
	users int
	buf   [1024]byte
	oob   [256]byte
}

// listen opens the socket of a family.
func listen(six bool) (*ear, error) {
	network, level, option := "udp4", unix.IPPROTO_IP, unix.IP_RECVTTL
	if six {
		network, level, option = "udp6", unix.IPPROTO_IPV6, unix.IPV6_RECVHOPLIMIT
	}
	conn, err := open(network, ":"+strconv.Itoa(Port), func(fd int) error {
		return unix.SetsockoptInt(fd, level, option, 1)
	})
	return &ear{conn: conn}, err
}

// next returns the next packet and whose it is. The error net.ErrClosed is the
// end, any other is about one packet.
func (e *ear) next() (Packet, netip.Addr, error) {
	n, oobn, _, from, err := e.conn.ReadMsgUDPAddrPort(e.buf[:], e.oob[:])
	if err != nil {
		return Packet{}, netip.Addr{}, err
	}
	ip := from.Addr().Unmap()
	ttl, err := hopsOf(e.oob[:oobn])
	if err != nil {
		return Packet{}, ip, err
	}
	if ttl != hops {
		return Packet{}, ip, fmt.Errorf("its TTL is %d: it has passed a router", ttl)
	}
	p, err := Parse(e.buf[:n])
	return p, ip, err
}

// hopsOf reads the TTL or hop limit, a C integer in the control message.
func hopsOf(oob []byte) (int32, error) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return 0, err
	}
	for _, m := range messages {
		four := m.Header.Level == unix.IPPROTO_IP && m.Header.Type == unix.IP_TTL
		six := m.Header.Level == unix.IPPROTO_IPV6 && m.Header.Type == unix.IPV6_HOPLIMIT
		if (four || six) && len(m.Data) >= 4 {
			return int32(binary.NativeEndian.Uint32(m.Data)), nil
		}
	}
	return 0, errors.New("it came without its TTL")
}

// speak opens the socket of one session, from a source port that the RFC wants
// to be its own.
func speak(path Path) (*net.UDPConn, error) {
	network, level, ttl, class := "udp4", unix.IPPROTO_IP, unix.IP_TTL, unix.IP_TOS
	if path.Peer.Is6() {
		network, level, ttl, class = "udp6", unix.IPPROTO_IPV6, unix.IPV6_UNICAST_HOPS, unix.IPV6_TCLASS
	}
	set := func(fd int) error {
		err := errors.Join(unix.SetsockoptInt(fd, level, ttl, hops), unix.SetsockoptInt(fd, level, class, internetwork))
		if path.Interface != "" {
			err = errors.Join(err, unix.BindToDevice(fd, path.Interface))
		}
		return err
	}
	const tries = 32
	var last error
	for range tries {
		port := firstSource + rand.N(1<<16-firstSource)
		conn, err := open(network, net.JoinHostPort(path.Local.String(), strconv.Itoa(port)), set)
		if err == nil || !errors.Is(err, unix.EADDRINUSE) {
			return conn, err
		}
		last = err
	}
	return nil, last
}

// open opens a UDP socket with options set.
func open(network, address string, set func(fd int) error) (*net.UDPConn, error) {
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var failed error
		err := c.Control(func(fd uintptr) { failed = set(int(fd)) })
		return errors.Join(err, failed)
	}}
	conn, err := config.ListenPacket(context.Background(), network, address)
	if err != nil {
		return nil, err
	}
	return conn.(*net.UDPConn), nil
}
