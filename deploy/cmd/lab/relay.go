package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"net/netip"
	"time"
)

// dialTimeout is how long a relay tries to reach its target.
const dialTimeout = 2 * time.Second

func setupRelay(flags *flag.FlagSet) func(context.Context, []string) error {
	listen := flags.String("listen", "", "`address:port` to listen on")
	to := flags.String("to", "", "`address:port` to forward to")
	return func(ctx context.Context, args []string) error {
		if err := noArgs(args); err != nil {
			return err
		}
		if _, err := netip.ParseAddrPort(*listen); err != nil {
			return fmt.Errorf("-listen: %w", err)
		}
		if _, err := netip.ParseAddrPort(*to); err != nil {
			return fmt.Errorf("-to: %w", err)
		}
		listener, err := net.Listen("tcp", *listen)
		if err != nil {
			return err
		}
		return relay(ctx, listener, *to)
	}
}

// relay forwards every connection until the context ends.
func relay(ctx context.Context, listener net.Listener, to string) error {
	stop := context.AfterFunc(ctx, func() { listener.Close() })
	defer stop()
	for {
		conn, err := listener.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("accepting a connection: %w", err)
		}
		go forward(ctx, conn.(*net.TCPConn), to)
	}
}

// forward copies both ways until both ends have closed. A target that cannot
// be reached looks like a server that is down: the connection is reset.
func forward(ctx context.Context, near *net.TCPConn, to string) {
	defer near.Close()
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", to)
	cancel()
	if err != nil {
		_ = near.SetLinger(0)
		return
	}
	far := conn.(*net.TCPConn)
	defer far.Close()
	done := make(chan struct{})
	go func() {
		pipe(near, far)
		close(done)
	}()
	pipe(far, near)
	<-done
}

// pipe copies one way and passes on the end: a clean one as such, a broken
// one by closing both sides.
func pipe(to, from *net.TCPConn) {
	if _, err := io.Copy(to, from); err != nil {
		_ = to.Close()
		_ = from.Close()
		return
	}
	_ = to.CloseWrite()
}
