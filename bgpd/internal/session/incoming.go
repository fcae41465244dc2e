package session

import (
	"context"
	"errors"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/vipod/vipod/bgpd/internal/wire"
)

// Is says whether connections from an address are the peer's.
func (s *Session) Is(from netip.Addr) bool {
	if s.cfg.Address.IsValid() {
		return from.WithZone("") == s.cfg.Address && (from.Zone() == "" || s.cfg.Interface == "" || from.Zone() == s.cfg.Interface)
	}
	// Nobody knows its address beforehand, so that no password can be demanded.
	return from.IsLinkLocalUnicast() && from.Zone() == s.cfg.Interface && s.cfg.Secret == ""
}

// Admit gives the session a connection that its peer opened. One at a time
// waits.
func (s *Session) Admit(conn *net.TCPConn) {
	select {
	case s.incoming <- conn:
	default:
		_ = conn.Close() // the peer tries again
	}
}

// errReplaced is the end of a session whose peer has opened another one: it
// has restarted (RFC 4724 section 4.2).
var errReplaced = errors.New("the peer has restarted and opened another session")

// collide decides about a connection that the peer opened while there is a
// session: a peer with graceful restart has lost that one.
func (t *talk) collide(conn *net.TCPConn) error {
	if t.peer.Restart != nil {
		t.Admit(conn)
		return errReplaced
	}
	_, _ = conn.Write(wire.Notification(wire.CodeCease, wire.CeaseCollision, nil)) // it is closed in any case
	_ = conn.Close()
	return nil
}

// connect returns the connection that the peer opened, or else opens one.
func (s *Session) connect(ctx context.Context) (*net.TCPConn, error) {
	select {
	case conn := <-s.incoming:
		return s.taken(conn)
	default:
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type result struct {
		conn *net.TCPConn
		err  error
	}
	dialled := make(chan result, 1)
	go func() {
		conn, err := s.dial(ctx)
		dialled <- result{conn, err}
	}()
	select {
	case r := <-dialled:
		return r.conn, r.err
	case conn := <-s.incoming:
		cancel()
		if r := <-dialled; r.err == nil {
			_ = r.conn.Close() // the peer's own is enough
		}
		return s.taken(conn)
	}
}

// taken prepares a connection that the peer opened.
func (s *Session) taken(conn *net.TCPConn) (*net.TCPConn, error) {
	to, err := netip.ParseAddrPort(conn.RemoteAddr().String())
	if err == nil {
		s.update(func(st *State) { st.Address = to })
		err = control(conn, func(fd int) error {
			if s.cfg.Secret != "" { // it may have come before the listening socket knew the password
				if err := signature(fd, to.Addr().Unmap(), s.cfg.Secret); err != nil {
					return err
				}
			}
			return s.setHops(fd, to.Addr().Unmap())
		})
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

func control(conn *net.TCPConn, set func(fd int) error) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) { failed = set(int(fd)) })
	return errors.Join(err, failed)
}

// dismiss closes what waits when the session ends for good.
func (s *Session) dismiss() {
	select {
	case conn := <-s.incoming:
		_ = conn.Close()
	default:
	}
}

// Authenticate has a listening socket demand the peer's password, or no more;
// it concerns peers with an address and of the socket's family alone.
func (s *Session) Authenticate(fd int, on bool) error {
	if s.cfg.Secret == "" {
		return nil
	}
	secret := s.cfg.Secret
	if !on {
		secret = "" // a key without bytes is deleted
	}
	err := signature(fd, s.cfg.Address, secret)
	if !on && errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}
