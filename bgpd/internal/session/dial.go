package session

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// dialTimeout is how long a connection may take to come up.
const dialTimeout = 5 * time.Second

// dial connects to the peer.
func (s *Session) dial(ctx context.Context) (*net.TCPConn, error) {
	to, err := s.address()
	if err != nil {
		return nil, err
	}
	s.update(func(st *State) { st.Address = to })
	d := net.Dialer{
		Timeout: dialTimeout, KeepAlive: -1, // the protocol has its own
		Control: func(_, _ string, c syscall.RawConn) error {
			var failed error
			err := c.Control(func(fd uintptr) { failed = s.prepare(int(fd), to.Addr()) })
			return errors.Join(err, failed)
		},
	}
	if from := s.cfg.SourceAddress; from.IsValid() {
		d.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0))
	}
	conn, err := d.DialContext(ctx, "tcp", to.String())
	if err != nil {
		return nil, explain(err, s.cfg.Secret != "")
	}
	return conn.(*net.TCPConn), nil
}

// explain adds what a timeout may mean.
func explain(err error, authenticated bool) error {
	var timeout net.Error
	if authenticated && errors.As(err, &timeout) && timeout.Timeout() {
		return fmt.Errorf("connecting: %w (or the peer has another password)", err)
	}
	return fmt.Errorf("connecting: %w", err)
}

// address returns where to connect to.
func (s *Session) address() (netip.AddrPort, error) {
	ip := s.cfg.Address
	if !ip.IsValid() {
		var err error
		if ip, err = routerOn(s.cfg.Interface); err != nil {
			return netip.AddrPort{}, err
		}
	}
	if ip.IsLinkLocalUnicast() && ip.Is6() {
		ip = ip.WithZone(s.cfg.Interface)
	}
	return netip.AddrPortFrom(ip, s.cfg.Port), nil
}

// prepare sets the options of the socket before it connects. None of them
// needs a capability.
func (s *Session) prepare(fd int, to netip.Addr) error {
	var errs []error
	set := func(what string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("setting %s: %w", what, err))
		}
	}
	set("TTL", s.setHops(fd, to))
	if s.cfg.SourceInterface != "" {
		set("source interface", unix.BindToDevice(fd, s.cfg.SourceInterface))
	}
	if s.cfg.Secret != "" {
		set("password", signature(fd, to, s.cfg.Secret))
	}
	return errors.Join(errs...)
}

// setHops sets the TTL of packets sent and the least of those accepted.
func (s *Session) setHops(fd int, to netip.Addr) error {
	level, ttl, minTTL := unix.IPPROTO_IP, unix.IP_TTL, unix.IP_MINTTL
	if to.Is6() {
		level, ttl, minTTL = unix.IPPROTO_IPV6, unix.IPV6_UNICAST_HOPS, unix.IPV6_MINHOPCOUNT
	}
	var errs []error
	if s.cfg.TTL != 0 {
		errs = append(errs, unix.SetsockoptInt(fd, level, ttl, int(s.cfg.TTL)))
	}
	if s.cfg.MinTTL != 0 {
		errs = append(errs, unix.SetsockoptInt(fd, level, minTTL, int(s.cfg.MinTTL)))
	}
	return errors.Join(errs...)
}

// signature has the kernel sign the connection's segments, RFC 2385; tcp(7).
func signature(fd int, to netip.Addr, secret string) error {
	sig := unix.TCPMD5Sig{Keylen: uint16(len(secret))}
	if copy(sig.Key[:], secret) < len(secret) {
		return fmt.Errorf("%d bytes are too many: want at most %d", len(secret), len(sig.Key))
	}
	if to.Is4() {
		sig.Addr.Family = unix.AF_INET
		ip := to.As4()
		put(sig.Addr.Data[2:], ip[:]) // behind the port
	} else {
		sig.Addr.Family = unix.AF_INET6
		ip := to.As16()
		put(sig.Addr.Data[6:], ip[:]) // behind port and flow label
	}
	return unix.SetsockoptTCPMD5Sig(fd, unix.IPPROTO_TCP, unix.TCP_MD5SIG, &sig)
}

// put copies bytes into C characters, which have a sign on some machines.
func put[T int8 | uint8](to []T, from []byte) {
	for i, b := range from {
		to[i] = T(b)
	}
}
