package web

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/vipod/vipod/shared/trigger"
)

// maxConns is how many connections are held at a time; further ones wait in
// the kernel's queue.
const maxConns = 64

// State is what the server says about itself.
type State struct {
	// Address is where it listens or should; "" if it is off.
	Address string
	// Err says why it does not listen.
	Err error
}

// Server listens where it is told and tries again where it cannot.
type Server struct {
	log     *slog.Logger
	handler http.Handler
	report  func(State)
	wake    *trigger.Trigger

	mu      sync.Mutex
	address string
}

// NewServer returns a server that is off. It calls report with every new
// state; report must not block.
func NewServer(log *slog.Logger, h http.Handler, report func(State)) *Server {
	return &Server{log: log, handler: h, report: report, wake: trigger.New()}
}

// Listen makes the server listen on the address, "" for nowhere.
func (s *Server) Listen(address string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.address != address {
		s.address = address
		s.wake.Fire()
	}
}

func (s *Server) wanted() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.address
}

// Run serves until ctx ends. It returns no error: an address that cannot be
// listened on is reported and tried again, at growing intervals up to a
// minute.
func (s *Server) Run(ctx context.Context) {
	backoff := trigger.Backoff{Min: time.Second, Max: time.Minute}
	for ctx.Err() == nil {
		s.settle()
		address := s.wanted()
		if address == "" {
			s.report(State{})
			s.pause(ctx, nil)
			continue
		}
		err := s.serve(ctx, address, backoff.Reset)
		if err == nil {
			backoff.Reset() // the address changed
			continue
		}
		s.log.Warn("cannot serve metrics", "address", address, "err", err)
		s.report(State{Address: address, Err: err})
		retry := time.NewTimer(backoff.Failed())
		if s.pause(ctx, retry.C) {
			backoff.Reset()
		}
		retry.Stop()
	}
}

// settle forgets changes before the address is read: they are in it.
func (s *Server) settle() {
	select {
	case <-s.wake.C():
	default:
	}
}

// pause waits for a change of the address, which it tells, or for the time.
func (s *Server) pause(ctx context.Context, retry <-chan time.Time) (changed bool) {
	select {
	case <-ctx.Done():
	case <-s.wake.C():
		return true
	case <-retry:
	}
	return false
}

// serve returns nil once the address changed or ctx ended.
func (s *Server) serve(ctx context.Context, address string, listening func()) error {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	server := &http.Server{
		Handler: s.handler,
		// A visitor who says nothing is not waited for.
		ReadHeaderTimeout: 2 * time.Second,
		ReadTimeout:       5 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       5 * time.Second,
		MaxHeaderBytes:    1 << 14,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	s.log.Info("serving metrics", "address", l.Addr().String())
	s.report(State{Address: address})
	listening()
	done := make(chan error, 1)
	go func() { done <- server.Serve(&limitListener{Listener: l, slots: make(chan struct{}, maxConns)}) }()
	select {
	case err := <-done:
		return fmt.Errorf("serving: %w", errors.Join(err, server.Close()))
	case <-ctx.Done():
	case <-s.wake.C():
	}
	err = server.Close() // a scrape is asked for again
	<-done
	if err != nil {
		s.log.Debug("closing the listener", "err", err)
	}
	return nil
}

// limitListener accepts while there is a free slot.
type limitListener struct {
	net.Listener
	slots chan struct{}
}

// Accept waits for a slot first; closing the server closes its connections,
// which frees slots.
func (l *limitListener) Accept() (net.Conn, error) {
	l.slots <- struct{}{}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.slots
		return nil, err
	}
	return &limitConn{Conn: c, release: sync.OnceFunc(func() { <-l.slots })}, nil
}

type limitConn struct {
	net.Conn
	release func()
}

func (c *limitConn) Close() error {
	defer c.release()
	return c.Conn.Close()
}
