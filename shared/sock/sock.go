// Package sock is how daemons of one pod ask each other questions: HTTP/1.1
// on a Unix socket in the daemon's own directory, with the peer's uid taken
// from the kernel (SO_PEERCRED, unix(7)) and checked on both ends. Sockets are
// paths and never abstract: an abstract one would be open to every pod in the
// host's network namespace.
package sock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vipod/vipod/shared/ownership"
)

// MaxAnswer is the largest answer that a client reads, in bytes.
const MaxAnswer = 16 << 20

// ErrPeer is a peer that runs under a uid that it may not have.
var ErrPeer = errors.New("peer not allowed")

// ErrTooLarge is an answer over MaxAnswer.
var ErrTooLarge = errors.New("answer too large")

// Listen opens the daemon's socket. A socket that a dead predecessor left is
// replaced, one that is in use is an error. Only the uids of
// ownership.Readers are served.
func Listen(stateDir, daemon string) (net.Listener, error) {
	path := ownership.Socket(stateDir, daemon)
	if err := removeStale(path); err != nil {
		return nil, err
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("listening: %w", err)
	}
	if err := os.Chmod(path, ownership.SocketMode); err != nil {
		return nil, errors.Join(fmt.Errorf("opening the socket to its group: %w", err), l.Close())
	}
	return &listener{Listener: l, uids: ownership.Readers(daemon)}, nil
}

func removeStale(path string) error {
	c, err := net.DialTimeout("unix", path, time.Second)
	switch {
	case err == nil:
		_ = c.Close() // nothing was sent
		return fmt.Errorf("listening on %s: another process answers there", path)
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case !errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("looking for another process on %s: %w", path, err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing stale socket: %w", err)
	}
	return nil
}

type listener struct {
	net.Listener
	uids []int
}

// Accept returns the next connection of an allowed peer; others are closed.
func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if err := checkPeer(c, l.uids); err == nil {
			return c, nil
		}
		_ = c.Close() // nothing was sent
	}
}

func checkPeer(c net.Conn, uids []int) error {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return fmt.Errorf("%w: not a socket", ErrPeer)
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return fmt.Errorf("reading peer credentials: %w", err)
	}
	var cred *unix.Ucred
	var credErr error
	if err := raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return fmt.Errorf("reading peer credentials: %w", err)
	}
	if credErr != nil {
		return fmt.Errorf("reading peer credentials: %w", credErr)
	}
	if !slices.Contains(uids, int(cred.Uid)) {
		return fmt.Errorf("%w: uid %d", ErrPeer, cred.Uid)
	}
	return nil
}

// Serve answers requests on l until ctx ends.
func Serve(ctx context.Context, l net.Listener, h http.Handler) error {
	s := &http.Server{
		Handler:           http.MaxBytesHandler(withProfile(h), 1<<16),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       5 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    1 << 14,
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	select {
	case err := <-done:
		return fmt.Errorf("serving %s: %w", l.Addr(), err)
	case <-ctx.Done():
		err := s.Close() // answers are small and can be asked for again
		<-done
		return err
	}
}

// Client asks one daemon. It keeps its connection between questions.
type Client struct {
	http *http.Client
}

// NewClient returns a client of the named daemon, whose socket must belong to
// a process of that daemon's uid.
func NewClient(stateDir, daemon string) *Client {
	path, uids := ownership.Socket(stateDir, daemon), []int{ownership.UID(daemon)}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		c, err := d.DialContext(ctx, "unix", path)
		if err != nil {
			return nil, err
		}
		if err := checkPeer(c, uids); err != nil {
			return nil, errors.Join(err, c.Close())
		}
		return c, nil
	}
	return &Client{http: &http.Client{Transport: &http.Transport{
		DialContext: dial, MaxIdleConns: 1, IdleConnTimeout: time.Minute, DisableCompression: true,
		MaxResponseHeaderBytes: 1 << 14,
	}}}
}

// Get returns the answer to a GET of the path. An answer other than 200 is an
// error that holds the answer's beginning.
func (c *Client) Get(ctx context.Context, path string) (body []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://vipod"+path, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("asking for %s: %w", path, err)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("asking for %s: %w", path, err)
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	body, err = io.ReadAll(io.LimitReader(resp.Body, MaxAnswer+1))
	if err != nil {
		return nil, fmt.Errorf("reading answer to %s: %w", path, err)
	}
	if len(body) > MaxAnswer {
		return nil, fmt.Errorf("reading answer to %s: %w: over %d bytes", path, ErrTooLarge, MaxAnswer)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("asking for %s: %s: %.200s", path, resp.Status, body)
	}
	return body, nil
}
