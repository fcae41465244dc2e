package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vipod/vipod/deploy/lab"
)

func setupPod(flags *flag.FlagSet) func(context.Context, []string) error {
	name := flags.String("name", "", "the pod's `name`, told to every client")
	return func(ctx context.Context, args []string) error {
		if err := noArgs(args); err != nil {
			return err
		}
		if *name == "" {
			return errors.New("-name is missing")
		}
		echo, err := listenEcho(ctx)
		if err != nil {
			return err
		}
		server := &http.Server{
			Addr:              fmt.Sprintf(":%d", lab.HTTPPort),
			Handler:           podHandler(*name),
			ReadHeaderTimeout: 10 * time.Second,
		}
		ended := make(chan error, 2)
		go func() { ended <- serveEcho(echo) }()
		go func() { ended <- server.ListenAndServe() }()
		select {
		case <-ctx.Done():
			return nil
		case err := <-ended:
			return err
		}
	}
}

// podHandler tells who answers and whom it sees.
func podHandler(name string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(lab.Answer{Pod: name, Client: r.RemoteAddr})
	})
}

// echoBuffer holds some seconds of datagrams while the server is not
// scheduled: who measures shall not count that as an outage.
const echoBuffer = 8 << 20

func listenEcho(ctx context.Context) (net.PacketConn, error) {
	config := net.ListenConfig{Control: func(_, _ string, conn syscall.RawConn) (err error) {
		controlErr := conn.Control(func(fd uintptr) {
			err = os.NewSyscallError("SO_RCVBUFFORCE",
				unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, echoBuffer))
		})
		return errors.Join(controlErr, err)
	}}
	return config.ListenPacket(ctx, "udp", fmt.Sprintf(":%d", lab.UDPPort))
}

// serveEcho sends every datagram back.
func serveEcho(conn net.PacketConn) error {
	buffer := make([]byte, 64*1024)
	for {
		n, from, err := conn.ReadFrom(buffer)
		if err != nil {
			return fmt.Errorf("reading a datagram: %w", err)
		}
		_, _ = conn.WriteTo(buffer[:n], from) // a client that went away is no fault of ours
	}
}
