package arpd

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/vipod/vipod/arpd/internal/frame"
	"github.com/vipod/vipod/shared/daemon"
	"github.com/vipod/vipod/shared/ownership"
	"github.com/vipod/vipod/shared/schema"
	"github.com/vipod/vipod/shared/sock"
	"github.com/vipod/vipod/shared/statetest"
)

const (
	protocol = statetest.Protocol
	iface    = "lan0"
	stranger = frame.MAC("\x02\x00\x00\x00\x00\x66")
)

var (
	vip4 = netip.MustParseAddr("198.51.100.7")
	vip6 = netip.MustParseAddr("2001:db8::7")
)

// world is a link with arpd's host on one end and everybody else on the other.
type world interface {
	host() Host
	// add and remove change the addresses of arpd's host.
	add(t *testing.T, ip netip.Addr, protocol uint8)
	remove(t *testing.T, ip netip.Addr)
	// heard returns the frames that arrived at the other end so far.
	heard() []heard
	// say sends a frame from the other end.
	say(t *testing.T, f frame.Frame)
	// renew replaces the link by one with the same name and another index.
	renew(t *testing.T)
}

// heard is a frame that arrived.
type heard struct {
	frame.Claim
	kind frame.Kind
	at   time.Time
}

// everywhere runs the same test in memory and on a real pair of links.
func everywhere(t *testing.T, test func(t *testing.T, w world)) {
	t.Run("fake", func(t *testing.T) { test(t, newFakeWorld()) })
	t.Run("kernel", func(t *testing.T) { test(t, newKernelWorld(t)) })
}

// elector plays elector's part in a state directory.
type elector struct{ *statetest.Pod }

func newElector(t *testing.T) *elector {
	t.Helper()
	e := &elector{Pod: statetest.New(t)}
	e.phase(schema.PhaseRunning)
	e.Grant(time.Hour)
	return e
}

func (e *elector) phase(p schema.Phase) { e.WriteNode(e.Node(func(n *schema.Node) { n.Phase = p })) }

func (e *elector) vip(key string, state schema.State, ips ...netip.Addr) {
	v := statetest.VIP(key, state, iface)
	for _, ip := range ips {
		v.Addresses = append(v.Addresses, schema.Address{
			IP: ip, PrefixLength: ip.BitLen(), Interface: iface, Source: schema.SourceStatic,
		})
	}
	e.WriteVIP(v)
}

// status returns arpd's report about a VIP.
func (e *elector) status(key string) (schema.Status, bool) {
	s, err := e.Status(ownership.Arpd, key)
	return s, err == nil
}

// start runs the daemon until the test ends.
func start(t *testing.T, e *elector, w world) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	env := &daemon.Env{Log: slog.New(slog.NewTextHandler(t.Output(), nil)), StateDir: e.Dir}
	go func() { ended <- RunOn(ctx, env, w.host()) }()
	t.Cleanup(func() {
		e.phase(schema.PhaseStopped)
		stop()
		if err := <-ended; err != nil {
			t.Errorf("daemon ended with %v", err)
		}
	})
	eventually(t, "the daemon is ready", func() bool {
		_, err := sock.NewClient(e.Dir, ownership.Arpd).Get(t.Context(), "/readyz")
		// As root the socket's owner is not arpd's uid; its presence is enough.
		_, statErr := os.Stat(ownership.Socket(e.Dir, ownership.Arpd))
		return err == nil || statErr == nil
	})
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	statetest.Eventually(t, what, ok)
}

// condition waits until a VIP's condition has the status and returns it.
func (e *elector) condition(t *testing.T, key, kind string, want schema.ConditionStatus) schema.Condition {
	t.Helper()
	var c schema.Condition
	eventually(t, fmt.Sprintf("%s of %s is %s", kind, key, want), func() bool {
		s, _ := e.status(key)
		c, _ = schema.FindCondition(s.Conditions, kind)
		return c.Status == want
	})
	return c
}

// about returns the frames of a kind about an address.
func about(w world, kind frame.Kind, ip netip.Addr) []heard {
	var out []heard
	for _, h := range w.heard() {
		if h.kind == kind && h.IP == ip {
			out = append(out, h)
		}
	}
	return out
}

// craft makes a frame of the stranger's.
func craft(t *testing.T, kind frame.Kind, ip netip.Addr) frame.Frame {
	t.Helper()
	f, err := frame.Build(kind, frame.Hardware{Type: 1, MAC: stranger, Broadcast: broadcast}, ip)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

const broadcast = frame.MAC("\xff\xff\xff\xff\xff\xff")

// kindOf tells the kind of a frame that arrived.
func kindOf(protocol uint16, payload []byte, probe bool) frame.Kind {
	switch {
	case protocol == frame.ARP && probe:
		return frame.Probe
	case protocol == frame.ARP && payload[7] == 1:
		return frame.Request
	case protocol == frame.ARP:
		return frame.Reply
	case payload[40] == 135:
		return frame.Solicitation
	}
	return frame.Advertisement
}
