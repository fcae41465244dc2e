package arpd

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/vipod/vipod/arpd/internal/frame"
	"github.com/vipod/vipod/shared/bootclock"
	"github.com/vipod/vipod/shared/daemon"
	"github.com/vipod/vipod/shared/ownership"
	"github.com/vipod/vipod/shared/schema"
	"github.com/vipod/vipod/shared/sock"
	"github.com/vipod/vipod/shared/statefile"
)

const (
	protocol = 248
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
type elector struct {
	dir        string
	boot       string
	mu         sync.Mutex
	generation int64
}

func newElector(t *testing.T) *elector {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root to write files as elector")
	}
	boot, err := bootclock.ID()
	if err != nil {
		t.Fatal(err)
	}
	e := &elector{dir: t.TempDir(), boot: boot}
	for _, dir := range []string{
		ownership.VIPs(e.dir, ownership.Elector), ownership.Dir(e.dir, ownership.Arpd),
	} {
		if err := os.MkdirAll(dir, ownership.DirMode); err != nil {
			t.Fatal(err)
		}
	}
	e.node(t, schema.PhaseRunning)
	e.grant(t, time.Hour)
	return e
}

func (e *elector) write(t *testing.T, name string, doc schema.Document) {
	t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.generation++
	*doc.Head() = schema.Meta{Schema: doc.SchemaName(), Instance: "test", Generation: e.generation}
	b, err := schema.Encode(doc)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(ownership.Dir(e.dir, ownership.Elector), name+".json")
	tmp := filepath.Join(filepath.Dir(path), ".tmp")
	if err := os.WriteFile(tmp, b, ownership.FileMode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(tmp, ownership.UID(ownership.Elector), ownership.Group); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(tmp, path); err != nil {
		t.Fatal(err)
	}
}

func (e *elector) node(t *testing.T, phase schema.Phase) {
	e.write(t, "node", &schema.Node{
		Name: "node-1", Boot: e.boot, Synced: true, Phase: phase,
		Settings: schema.Settings{Protocol: protocol, LeaseDurationMillis: 5000, AnnounceIntervalMillis: 60000},
	})
}

func (e *elector) grant(t *testing.T, d time.Duration) {
	e.write(t, "grant", &schema.Grant{Boot: e.boot, ValidUntil: map[schema.GrantName]int64{
		schema.GrantNode: int64(bootclock.Now() + d),
	}})
}

func (e *elector) vip(t *testing.T, key string, state schema.State, ips ...netip.Addr) {
	v := schema.VIP{
		Key: key, Kind: schema.KindService, State: state, Grant: schema.GrantNode, Epoch: "1",
		Announce: []schema.Announce{schema.AnnounceARP, schema.AnnounceNDP},
	}
	for _, ip := range ips {
		v.Addresses = append(v.Addresses, schema.Address{
			IP: ip, PrefixLength: ip.BitLen(), Interface: iface, Source: schema.SourceStatic,
		})
	}
	e.write(t, "vips/"+key, &v)
}

func (e *elector) drop(t *testing.T, key string) {
	if err := os.Remove(filepath.Join(ownership.VIPs(e.dir, ownership.Elector), key+".json")); err != nil {
		t.Fatal(err)
	}
}

// status returns arpd's report about a VIP.
func (e *elector) status(key string) (schema.Status, bool) {
	s, err := statefile.Read[schema.Status](filepath.Join(ownership.VIPs(e.dir, ownership.Arpd), key+".json"), os.Geteuid())
	return s, err == nil
}

// start runs the daemon until the test ends.
func start(t *testing.T, e *elector, w world) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	env := &daemon.Env{Log: slog.New(slog.NewTextHandler(t.Output(), nil)), StateDir: e.dir}
	go func() { ended <- RunOn(ctx, env, w.host()) }()
	t.Cleanup(func() {
		e.node(t, schema.PhaseStopped)
		stop()
		if err := <-ended; err != nil {
			t.Errorf("daemon ended with %v", err)
		}
	})
	eventually(t, "the daemon is ready", func() bool {
		_, err := sock.NewClient(e.dir, ownership.Arpd).Get(t.Context(), "/readyz")
		// As root the socket's owner is not arpd's uid; its presence is enough.
		_, statErr := os.Stat(ownership.Socket(e.dir, ownership.Arpd))
		return err == nil || statErr == nil
	})
}

// eventually waits for a condition, for 10 s at most.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
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
