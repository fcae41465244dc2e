package speaker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"

	"github.com/vipod/vipod/bgpd/internal/session"
)

// acceptRest is the pause after a connection that could not be taken.
const acceptRest = 100 * time.Millisecond

// port is where peers open sessions, RFC 4271.
const port = "179"

// door are the sockets that listen for peers, one of each family.
type door struct {
	four, six *net.TCPListener
	// keyed are the sessions whose passwords the sockets demand.
	keyed map[*session.Session]bool
}

// openDoor listens; who says whose a connection is, nil for nobody's.
func openDoor(who func(netip.Addr) *session.Session) (*door, error) {
	d := &door{keyed: map[*session.Session]bool{}}
	var err4, err6 error
	d.four, err4 = listen("tcp4")
	d.six, err6 = listen("tcp6")
	if err := errors.Join(err4, err6); err != nil {
		d.close()
		return nil, fmt.Errorf("listening for peers: %w", err)
	}
	for _, l := range []*net.TCPListener{d.four, d.six} {
		go answer(l, who)
	}
	return d, nil
}

func listen(network string) (*net.TCPListener, error) {
	config := net.ListenConfig{KeepAlive: -1}
	config.SetMultipathTCP(false) // which knows no passwords
	l, err := config.Listen(context.Background(), network, ":"+port)
	if err != nil {
		return nil, err
	}
	return l.(*net.TCPListener), nil
}

// answer gives connections to their sessions until the socket is closed.
func answer(l *net.TCPListener, who func(netip.Addr) *session.Session) {
	for {
		conn, err := l.AcceptTCP()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			time.Sleep(acceptRest) // such as too many open files
			continue
		}
		from, err := netip.ParseAddrPort(conn.RemoteAddr().String())
		s := (*session.Session)(nil)
		if err == nil {
			s = who(from.Addr().Unmap())
		}
		if s == nil {
			_ = conn.Close() // a stranger
			continue
		}
		s.Admit(conn)
	}
}

// demand has the sockets demand the passwords of these sessions and no others.
func (d *door) demand(sessions map[string]*running) error {
	now := map[*session.Session]bool{}
	for _, s := range sessions {
		now[s.Session] = true
	}
	var errs []error
	for s := range d.keyed {
		if now[s] {
			continue
		}
		if err := d.key(s, false); err != nil {
			errs = append(errs, err)
			continue
		}
		delete(d.keyed, s)
	}
	for s := range now {
		if d.keyed[s] {
			continue
		}
		if err := d.key(s, true); err != nil {
			errs = append(errs, err)
			continue
		}
		d.keyed[s] = true
	}
	return errors.Join(errs...)
}

// key sets or deletes the password of a session on the socket of its family.
func (d *door) key(s *session.Session, on bool) error {
	l, ip := d.four, s.Config().Address
	if !ip.IsValid() {
		return nil // nobody knows yet from where it comes
	}
	if ip.Is6() {
		l = d.six
	}
	raw, err := l.SyscallConn()
	if err != nil {
		return err
	}
	return onFD(raw, func(fd int) error { return s.Authenticate(fd, on) })
}

func onFD(raw syscall.RawConn, do func(fd int) error) error {
	var failed error
	err := raw.Control(func(fd uintptr) { failed = do(int(fd)) })
	return errors.Join(err, failed)
}

func (d *door) close() {
	for _, l := range []*net.TCPListener{d.four, d.six} {
		if l != nil {
			_ = l.Close() // ends answer
		}
	}
}
