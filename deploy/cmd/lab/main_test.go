package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		name, args  string
		raw         bool
		want        string
		wantVerbose bool
		fails       bool
	}{
		{name: "none"},
		{name: "flag between", args: "n1 --verbose vipd", want: "n1 vipd", wantVerbose: true},
		{name: "flag last", args: "n1 -verbose", want: "n1", wantVerbose: true},
		{name: "raw", args: "--verbose n1 ls -l", raw: true, want: "n1 ls -l", wantVerbose: true},
		{name: "raw without flag", args: "n1 ls --verbose", raw: true, want: "n1 ls --verbose"},
		{name: "unknown flag", args: "n1 --nosuch", fails: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			flags := flag.NewFlagSet("test", flag.ContinueOnError)
			flags.SetOutput(io.Discard)
			verbose := flags.Bool("verbose", false, "")
			got, err := command{rawArgs: c.raw}.parse(flags, strings.Fields(c.args))
			if (err != nil) != c.fails {
				t.Fatalf("error %v, want one: %t", err, c.fails)
			}
			if diff := cmp.Diff(c.want, strings.Join(got, " ")); diff != "" {
				t.Errorf("operands (-want +got):\n%s", diff)
			}
			if *verbose != c.wantVerbose {
				t.Errorf("verbose %t, want %t", *verbose, c.wantVerbose)
			}
		})
	}
}

func TestRefused(t *testing.T) {
	for args, want := range map[string]string{
		"nosuch":                       `"nosuch"`,
		"up stray":                     `"stray"`,
		"up --name A":                  `"A"`,
		"up --nodes 9":                 "9 nodes",
		"up --nodes 0":                 "0 nodes",
		"down --name x/y":              `"x/y"`,
		"status --name nolab":          `"nolab"`,
		"start":                        "which node",
		"cut n1 --name nolab":          `"nolab"`,
		"exec client":                  "command",
		"relay --listen x":             "-listen",
		"relay --listen [::]:1 --to y": "-to",
		"pod":                          "-name",
	} {
		err := run(context.Background(), strings.Fields(args), io.Discard)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("lab %s: %v, want an error with %s", args, err, want)
		}
	}
}

func TestHelp(t *testing.T) {
	var out bytes.Buffer
	if err := run(context.Background(), []string{"help"}, &out); err != nil {
		t.Fatal(err)
	}
	for _, c := range commands {
		if got := strings.Contains(out.String(), "  "+c.name+" "); got == c.hidden {
			t.Errorf("help lists %s: %t", c.name, got)
		}
	}
}

func TestParseSignal(t *testing.T) {
	for text, want := range map[string]syscall.Signal{
		"TERM": syscall.SIGTERM, "sigkill": syscall.SIGKILL, "SIGSTOP": syscall.SIGSTOP,
	} {
		if got, err := parseSignal(text); err != nil || got != want {
			t.Errorf("parseSignal(%q) = %v, %v; want %v", text, got, err, want)
		}
	}
	if _, err := parseSignal("nosuch"); err == nil {
		t.Error("an unknown signal gives no error")
	}
}

func listenLocal(t *testing.T) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	return listener
}

func TestRelay(t *testing.T) {
	server, front := listenLocal(t), listenLocal(t)
	go func() {
		for {
			conn, err := server.Accept()
			if err != nil {
				return
			}
			// It answers only when it has read all: both ways and the clean
			// end of one of them pass through the relay.
			go func() {
				data, _ := io.ReadAll(conn)
				_, _ = conn.Write(bytes.ToUpper(data))
				conn.Close()
			}()
		}
	}()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- relay(ctx, front, server.Addr().String()) }()

	if got, err := askRelay(t, front.Addr().String()); err != nil || got != "HELLO" {
		t.Errorf("through the relay: %q, %v", got, err)
	}
	server.Close()
	if got, err := askRelay(t, front.Addr().String()); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("through the relay to nobody: %q, %v; want a reset", got, err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("relay: %v", err)
	}
}

func askRelay(t *testing.T, addr string) (string, error) {
	t.Helper()
	conn, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("hello")); err != nil {
		return "", err
	}
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		return "", err
	}
	data, err := io.ReadAll(conn)
	return string(data), err
}
