package reconcile

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/vipod/vipod/elector/internal/config"
	"github.com/vipod/vipod/shared/bootclock"
	"github.com/vipod/vipod/shared/ownership"
	"github.com/vipod/vipod/shared/schema"
	"github.com/vipod/vipod/shared/statefile"
	"github.com/vipod/vipod/shared/trigger"
)

const (
	testDuration = 2 * time.Second
	testRenew    = 400 * time.Millisecond
	testBoot     = "00000000-0000-0000-0000-000000000001"
)

// wire sees who claims what on the wire and fails the test when two nodes do.
type wire struct {
	t  *testing.T
	mu sync.Mutex
	// claims are, by node, the addresses that its kernel would answer for and
	// until when.
	claims map[string]map[netip.Addr]time.Duration
	moves  map[netip.Addr][]string // owners in order
}

func (w *wire) set(node string, claims map[netip.Addr]time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.claims[node] = claims
	now := bootclock.Now()
	for ip, until := range claims {
		if now >= until {
			continue
		}
		if m := w.moves[ip]; len(m) == 0 || m[len(m)-1] != node {
			w.moves[ip] = append(m, node)
		}
		for other, theirs := range w.claims {
			if u, ok := theirs[ip]; ok && other != node && now < u {
				w.t.Errorf("%s and %s both claim %s", node, other, ip)
			}
		}
	}
}

// owner returns who claims the address now.
func (w *wire) owner(ip string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := bootclock.Now()
	for node, claims := range w.claims {
		if until, ok := claims[netip.MustParseAddr(ip)]; ok && now < until {
			return node
		}
	}
	return ""
}

func (w *wire) owners(ip string) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.moves[netip.MustParseAddr(ip)])
}

// fakeNode is one node: an elector and fakes of vipd and arpd.
type fakeNode struct {
	t       *testing.T
	name    string
	dir     string
	env     map[string]string
	store   *store
	wire    *wire
	api     *fakeAPI
	r       *Reconciler
	vipdUp  atomic.Bool
	arpdUp  atomic.Bool
	apiDown atomic.Bool // the local API server
	partial atomic.Bool // Services, slices and Nodes are not listed yet
	vipdBad atomic.Bool // vipd answers, and its passes fail
	arpdBad atomic.Bool // arpd's do
	linkUp  atomic.Bool
	mu      sync.Mutex
	taken   map[netip.Addr]string // strangers by address
	cancel  context.CancelFunc    // of the elector
	ended   chan error
}

// cluster makes nodes n1.. with one API.
type cluster struct {
	*store
	wire  *wire
	nodes map[string]*fakeNode
}

func newTestCluster(t *testing.T, nodes int, env map[string]string) *cluster {
	t.Helper()
	t.Parallel() // the tests mostly wait for Leases to end
	c := &cluster{
		store: newStore(), nodes: map[string]*fakeNode{},
		wire: &wire{t: t, claims: map[string]map[netip.Addr]time.Duration{}, moves: map[netip.Addr][]string{}},
	}
	for i := range nodes {
		name := "n" + string(rune('1'+i))
		n := &fakeNode{
			t: t, name: name, dir: t.TempDir(), env: env, store: c.store, wire: c.wire, taken: map[netip.Addr]string{},
		}
		n.linkUp.Store(true)
		c.nodes[name] = n
		for _, d := range []string{ownership.Elector, ownership.Vipd, ownership.Arpd} {
			if err := os.MkdirAll(ownership.VIPs(n.dir, d), 0o750); err != nil {
				t.Fatal(err)
			}
		}
		n.vipdUp.Store(true)
		n.arpdUp.Store(true)
		ctx, cancel := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		wg.Go(func() { n.vipd(ctx) })
		wg.Go(func() { n.arpd(ctx) })
		n.start()
		t.Cleanup(func() {
			n.kill()
			cancel()
			wg.Wait()
		})
	}
	return c
}

func testConfig(t *testing.T, node string, env map[string]string) *config.Config {
	t.Helper()
	values := map[string]string{"svc_enable": "true", "vip_nodename": node}
	for k, v := range env {
		values[k] = v
	}
	cfg, err := config.Parse(config.Sources{
		LookupEnv: func(name string) (string, bool) { v, ok := values[name]; return v, ok },
		ReadFile:  os.ReadFile, Hostname: os.Hostname,
	})
	if err != nil {
		t.Fatal(err)
	}
	cfg.LeaseDuration, cfg.RetryPeriod = testDuration, testRenew
	cfg.ControlPlane.Health.FailureThreshold = 2
	return cfg
}

// start starts the elector.
func (n *fakeNode) start() {
	n.t.Helper()
	changed := trigger.New()
	n.api = n.store.connect(n.name, changed)
	n.api.partial, n.api.writer = &n.partial, n.dir
	log := slog.New(slog.DiscardHandler)
	if os.Getenv("VIPOD_TEST_LOG") != "" {
		log = slog.New(slog.NewTextHandler(os.Stderr, nil)).With("node", n.name)
	}
	r, err := New(Options{
		Log: log, Config: testConfig(n.t, n.name, n.env), StateDir: n.dir, BootID: testBoot, Writer: n.dir, API: n.api, Changed: changed,
		Ask: func(_ context.Context, daemon string) error {
			if daemon == ownership.Vipd && !n.vipdUp.Load() || daemon == ownership.Arpd && !n.arpdUp.Load() {
				return errors.New("connection refused")
			}
			return nil
		},
		Healthy: func(context.Context) error {
			if n.apiDown.Load() {
				return errors.New("connection refused")
			}
			return nil
		},
		UID:     func(string) int { return os.Getuid() },
		Metrics: NewMetrics(prometheus.NewRegistry(), n.name),
	})
	if err != nil {
		n.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	n.r, n.cancel, n.ended = r, cancel, make(chan error, 1)
	go func() { n.ended <- r.Run(ctx, func() {}) }()
}

// kill ends the elector like SIGKILL: it writes nothing any more.
func (n *fakeNode) kill() {
	if n.r == nil {
		return
	}
	n.r.ask(context.Background(), func() { n.r.stopping.done = true })
	<-n.ended
	n.api.disconnect()
	n.r = nil
}

// stop ends the elector like SIGTERM.
func (n *fakeNode) stop() {
	n.t.Helper()
	n.cancel()
	if err := <-n.ended; err != nil {
		n.t.Errorf("stopping %s: %v", n.name, err)
	}
	n.api.disconnect()
	n.r = nil
}

func (n *fakeNode) write(w *statefile.Writer, name string, doc schema.Document) {
	if _, err := w.Write(name, doc); err != nil {
		n.t.Error(err)
	}
}

// stranger puts another host on the LAN that has the address.
func (n *fakeNode) stranger(ip, mac string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.taken[netip.MustParseAddr(ip)] = mac
}

// eventually waits until what holds.
func eventually(t *testing.T, within time.Duration, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(within); !holds(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", within, what)
		}
	}
}
