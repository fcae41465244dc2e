package lab

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func testCut(t *testing.T, l *Lab) {
	ctx := t.Context()
	node, err := NodeAddrs("n2")
	if err != nil {
		t.Fatal(err)
	}
	for name, fault := range map[string]struct {
		cut     func(context.Context, string) error
		carrier string
	}{
		"cut":     {l.Cut, "LOWER_UP"},
		"carrier": {l.CutCarrier, "NO-CARRIER"},
		"link":    {l.LinkDown, "state DOWN"},
	} {
		t.Run(name, func(t *testing.T) {
			wantReachable(t, l, node, true)
			if err := fault.cut(ctx, "n2"); err != nil {
				t.Fatal(err)
			}
			wantReachable(t, l, node, false)
			out, err := l.Exec(ctx, "n2", "ip", "link", "show", "eth0")
			if err != nil || !strings.Contains(string(out), fault.carrier) {
				t.Errorf("the node sees %q, %v; want %s", out, err, fault.carrier)
			}
			if err := l.Heal(ctx, "n2"); err != nil {
				t.Fatal(err)
			}
			wantReachable(t, l, node, true)
			out, err = l.Exec(ctx, "n2", "ip", "-6", "route", "show", "default")
			if err != nil || len(out) == 0 {
				t.Errorf("default route after healing: %q, %v", out, err)
			}
		})
	}
}

// wantReachable asks kube-proxy's health port of a node from the client.
func wantReachable(t *testing.T, l *Lab, node Addrs, want bool) {
	t.Helper()
	for _, addr := range node.Slice() {
		eventually(t, fmt.Sprintf("reaching %s", addr), func() error {
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			conn, err := l.Dial(ctx, "client", "tcp", netip.AddrPortFrom(addr, 10256).String())
			if err == nil {
				err = conn.Close()
			}
			if (err == nil) != want {
				return fmt.Errorf("reachable %t, want %t: %w", err == nil, want, err)
			}
			return nil
		})
	}
}

func testCutAPI(t *testing.T, l *Lab) {
	node, err := NodeAddrs("n3")
	if err != nil {
		t.Fatal(err)
	}
	wantAPI(t, l, "n3", true)
	if err := l.CutAPI(t.Context(), "n3"); err != nil {
		t.Fatal(err)
	}
	wantAPI(t, l, "n3", false)
	wantAPI(t, l, "n2", true)
	wantReachable(t, l, node, true)
	if err := l.Heal(t.Context(), "n3"); err != nil {
		t.Fatal(err)
	}
	wantAPI(t, l, "n3", true)
}

// wantAPI asks the API server through a node's relay.
func wantAPI(t *testing.T, l *Lab, node string, want bool) {
	t.Helper()
	eventually(t, "API server through "+node, func() error {
		_, err := l.Exec(t.Context(), node, "curl", "-gskm", "1", "https://[::1]:6443/livez")
		if (err == nil) != want {
			return fmt.Errorf("answers %t, want %t: %w", err == nil, want, err)
		}
		return nil
	})
}

func testAPIServer(t *testing.T, l *Lab) {
	ctx := t.Context()
	for _, step := range []struct {
		name string
		do   func() error
		n1   bool // answers through n1
	}{
		{"stop relay", func() error { return l.StopRelay(ctx, "n1") }, false},
		{"start relay", func() error { return l.StartRelay(ctx, "n1") }, true},
		{"pause", l.PauseAPI, false},
		{"resume", l.ResumeAPI, true},
		{"stop", func() error { return l.StopAPI(ctx) }, false},
		{"start", func() error { return l.StartAPI(ctx) }, true},
	} {
		if err := step.do(); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		wantAPI(t, l, "n1", step.n1)
	}
	if _, err := l.Client().CoreV1().Nodes().Get(ctx, "n1", metav1.GetOptions{}); err != nil {
		t.Errorf("Node n1 after the API server started again: %v", err)
	}
}
