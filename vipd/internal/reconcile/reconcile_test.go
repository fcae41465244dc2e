package reconcile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/vipod/vipod/shared/bootclock"
	"github.com/vipod/vipod/shared/ownership"
	"github.com/vipod/vipod/shared/pulse"
	"github.com/vipod/vipod/shared/schema"
	"github.com/vipod/vipod/vipd/internal/kernel"
	"github.com/vipod/vipod/vipd/internal/kernel/kerneltest"
	"github.com/vipod/vipod/vipd/internal/plan"
)

const boot = "boot-a"

// recorder is a fake kernel that also writes down grants, and can be slow.
type recorder struct {
	kerneltest.Fake
	said []string
	slow func() time.Duration // how long SetGrant takes
	// observed counts the looks; blind makes them fail.
	observed int
	blind    error
}

func (k *recorder) Observe() (plan.Actual, error) {
	k.observed++
	if k.blind != nil {
		return plan.Actual{}, k.blind
	}
	return k.Fake.Observe()
}

func (k *recorder) Do(ops []plan.Op) []error {
	for _, op := range ops {
		k.said = append(k.said, op.String())
	}
	return k.Fake.Do(ops)
}

func (k *recorder) SetGrant(g plan.Grant, links []string, left time.Duration) error {
	verb := "open"
	if left <= 0 {
		verb = "close"
	}
	k.said = append(k.said, fmt.Sprintf("%s %s", verb, g))
	if k.slow != nil {
		for end := now() + k.slow(); now() < end; {
			time.Sleep(time.Millisecond)
		}
	}
	return k.Fake.SetGrant(g, links, left)
}

// bench is a Reconciler with documents in memory, which needs no uid.
type bench struct {
	*Reconciler
	t      *testing.T
	kernel *recorder
	vips   map[string]schema.VIP
}

func newBench(t *testing.T, fence bool) *bench {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(ownership.Dir(dir, ownership.Vipd), ownership.DirMode); err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, kernel: &recorder{}, vips: map[string]schema.VIP{}}
	b.kernel.State.Links = []plan.Link{{Name: "eth0", Index: 2, Admin: true, Up: true, Resolves: true}}
	r, err := New(Config{Log: slog.New(slog.DiscardHandler), StateDir: dir, Boot: boot, Added: func(netip.Addr) {},
		Open:    func(string) (kernel.Kernel, bool, error) { return b.kernel, fence, nil },
		Metrics: NewMetrics(prometheus.NewRegistry())})
	if err != nil {
		t.Fatal(err)
	}
	r.docs.Node = &schema.Node{Boot: boot, Synced: true, Settings: schema.Settings{Protocol: 248}}
	r.docs.Complete = true
	if err := r.open("vipod_fence"); err != nil {
		t.Fatal(err)
	}
	b.Reconciler = r
	return b
}

// converged runs one pass over the given documents and grant.
func (b *bench) converged(grantLeft time.Duration, vips ...schema.VIP) error {
	b.t.Helper()
	b.docs.VIPs = map[string]schema.VIP{}
	for _, v := range vips {
		b.docs.VIPs[v.Key] = v
	}
	actual, err := b.kernel.Observe()
	if err != nil {
		b.t.Fatal(err)
	}
	b.links.Update(time.Now(), &actual, 248)
	b.actual = actual
	b.docs.Grants = schema.Grants{schema.GrantNode: bootclock.Now() + grantLeft}
	b.desired = b.wanted()
	b.kernel.said = nil
	return b.converge()
}

func web(state schema.State, ips ...string) schema.VIP {
	v := schema.VIP{Key: "default.web", State: state, Grant: schema.GrantNode}
	for _, s := range ips {
		ip := netip.MustParseAddr(s)
		v.Addresses = append(v.Addresses, schema.Address{IP: ip, PrefixLength: ip.BitLen(), Interface: "eth0"})
	}
	return v
}

func index(list []string, part string) int {
	for i, s := range list {
		if strings.Contains(s, part) {
			return i
		}
	}
	return -1
}

func TestFenceOpensOnlyAfterRemovalsAndAdditions(t *testing.T) {
	b := newBench(t, true)
	if err := b.converged(time.Hour, web(schema.StateActive, "198.51.100.7")); err != nil {
		t.Fatal(err)
	}
	if err := b.converged(-time.Second, web(schema.StateActive, "198.51.100.7")); err != nil {
		t.Fatal(err)
	}
	if b.kernel.said[0] != "close node" {
		t.Errorf("a grant that ended is not closed: %v", b.kernel.said)
	}
	if err := b.converged(time.Hour, web(schema.StateActive, "198.51.100.8")); err != nil {
		t.Fatal(err)
	}
	said := b.kernel.said
	removed, added, opened := index(said, "address delete 198.51.100.7"), index(said, "address add 198.51.100.8"), index(said, "open node")
	if removed < 0 || added < removed || opened < added {
		t.Errorf("order: %v", said)
	}
}

func TestNothingOpensOverAnAddressThatCannotBeRemoved(t *testing.T) {
	b := newBench(t, true)
	if err := b.converged(time.Hour, web(schema.StateActive, "198.51.100.7")); err != nil {
		t.Fatal(err)
	}
	if err := b.converged(-time.Second, web(schema.StateActive, "198.51.100.7")); err != nil {
		t.Fatal(err)
	}
	b.kernel.Fail = func(op plan.Op) error {
		if _, ok := op.(plan.DelAddress); ok {
			return errors.New("refused")
		}
		return nil
	}
	if err := b.converged(time.Hour, web(schema.StateActive, "198.51.100.8")); err == nil {
		t.Error("no error")
	}
	for _, part := range []string{"open", "delete element"} {
		if index(b.kernel.said, part) >= 0 {
			t.Errorf("opened: %v", b.kernel.said)
		}
	}
}

func TestNothingIsAddedWhenTheFenceCannotBeClosed(t *testing.T) {
	b := newBench(t, true)
	b.kernel.Fail = func(op plan.Op) error {
		if op.Stage() == plan.Close {
			return errors.New("refused")
		}
		return nil
	}
	if err := b.converged(time.Hour, web(schema.StateActive, "198.51.100.7")); err == nil {
		t.Error("no error")
	}
	if len(b.kernel.State.Addresses) != 0 {
		t.Error("an address without a fence")
	}
}

func TestGrantThatEndsWhileItIsGivenClosesTheFence(t *testing.T) {
	b := newBench(t, true)
	b.kernel.slow = func() time.Duration { return 200 * time.Millisecond } // frozen on the way to the kernel
	if err := b.converged(100*time.Millisecond, web(schema.StateActive, "198.51.100.7")); err != nil {
		t.Fatal(err)
	}
	if len(b.kernel.State.Fence.Open[schema.GrantNode]) != 0 {
		t.Error("the fence is open after the grant")
	}
}

func TestGrantThatWasGivenSlowlyIsGivenAnew(t *testing.T) {
	b := newBench(t, true)
	delays := []time.Duration{300 * time.Millisecond, 0}
	b.kernel.slow = func() time.Duration {
		d := delays[0]
		if len(delays) > 1 {
			delays = delays[1:]
		}
		return d
	}
	if err := b.converged(time.Minute, web(schema.StateActive, "198.51.100.7")); err != nil {
		t.Fatal(err)
	}
	if left := b.kernel.Left[schema.GrantNode]; left > time.Minute-250*time.Millisecond {
		t.Errorf("the kernel was told %s, which it would count from 300 ms later", left)
	}
}

func TestWithoutAFenceLifetimesEndWithTheGrantAndDrainingRemoves(t *testing.T) {
	b := newBench(t, false)
	if err := b.converged(3500*time.Millisecond, web(schema.StateActive, "198.51.100.7")); err != nil {
		t.Fatal(err)
	}
	if a := b.kernel.State.Addresses; len(a) != 1 || a[0].Valid != 3 {
		t.Fatalf("addresses: %+v", a)
	}
	if err := b.converged(5500*time.Millisecond, web(schema.StateActive, "198.51.100.7")); err != nil {
		t.Fatal(err)
	}
	if a := b.kernel.State.Addresses; a[0].Valid != 5 {
		t.Errorf("after a renewal: %+v", a)
	}
	if err := b.converged(5*time.Second, web(schema.StateDraining, "198.51.100.7")); err != nil {
		t.Fatal(err)
	}
	v := web(schema.StateDraining, "198.51.100.7")
	conditions := b.conditions(v, plan.Judge(b.desired, b.actual))
	if len(b.kernel.State.Addresses) != 0 || !schema.IsTrue(conditions, schema.ConditionMuted) {
		t.Errorf("draining without a fence: %+v, %+v", b.kernel.State.Addresses, conditions)
	}
	if c, _ := schema.FindCondition(conditions, schema.ConditionFenced); c.Reason != "NoNftables" {
		t.Errorf("fenced: %+v", c)
	}
	if index(b.kernel.said, "nft") >= 0 {
		t.Errorf("nftables was used: %v", b.kernel.said)
	}
}

// Its flows were to be forgotten by the process that added it.
func TestAddressThatAnEarlierProcessAddedIsToldOfAsIfItWereAddedNow(t *testing.T) {
	b := newBench(t, true)
	ours, foreign := netip.MustParsePrefix("198.51.100.7/32"), netip.MustParsePrefix("198.51.100.8/32")
	b.kernel.State.Addresses = []plan.Address{
		{Link: "eth0", Prefix: ours, Protocol: 248, Valid: 120}, {Link: "eth0", Prefix: foreign},
	}
	var told []netip.Addr
	b.Added = func(ip netip.Addr) { told = append(told, ip) }
	for range 2 {
		if err := b.converged(time.Hour, web(schema.StateActive, "198.51.100.7")); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(told, []netip.Addr{ours.Addr()}) {
		t.Errorf("told of %v, want %v once", told, ours.Addr())
	}
}

func TestUnchangedPassDoesNothing(t *testing.T) {
	b := newBench(t, true)
	for range 2 {
		if err := b.converged(time.Hour, web(schema.StateActive, "198.51.100.7", "2001:db8::7")); err != nil {
			t.Fatal(err)
		}
	}
	// The grant has moved on, which is the only thing that is passed on.
	if len(b.kernel.said) != 1 || b.kernel.said[0] != "open node" {
		t.Errorf("said %v", b.kernel.said)
	}
}

func TestCleanUpLeavesNothing(t *testing.T) {
	b := newBench(t, true)
	b.kernel.State.Addresses = []plan.Address{{Link: "eth0", Prefix: netip.MustParsePrefix("198.51.100.1/24")}}
	if err := b.converged(time.Hour, web(schema.StateActive, "198.51.100.7")); err != nil {
		t.Fatal(err)
	}
	b.reportAll()
	if _, ok := b.report.Finish(); !ok {
		t.Fatal("reports were not written")
	}
	if err := b.CleanUp(); err != nil {
		t.Fatal(err)
	}
	if s := b.kernel.State; len(s.Addresses) != 1 || s.Fence.Exists {
		t.Errorf("left: %+v", s)
	}
	if _, err := os.Stat(filepath.Join(ownership.VIPs(b.StateDir, ownership.Vipd), "default.web.json")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("status: %v", err)
	}
}

func TestLoopThatIsStuckIsNotAlive(t *testing.T) {
	b := newBench(t, true)
	if err := pulse.Check(t.Context(), b.Pulse); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("alive without a loop: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- b.Run(ctx, func() {}) }()
	if err := pulse.Check(t.Context(), b.Pulse); err != nil {
		t.Errorf("not alive: %v", err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
