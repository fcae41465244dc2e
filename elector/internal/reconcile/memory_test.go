package reconcile

import (
	"log/slog"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/vipod/vipod/elector/internal/claim"
	"github.com/vipod/vipod/elector/internal/config"
	"github.com/vipod/vipod/elector/internal/intent"
	"github.com/vipod/vipod/shared/ownership"
	"github.com/vipod/vipod/shared/schema"
)

// An answer of arpd is taken once, and asked for anew when it is too old.
func TestOldProbeIsNoProof(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(ownership.Dir(dir, ownership.Elector), 0o750); err != nil {
		t.Fatal(err)
	}
	book, _, err := intent.Open(dir, testBoot, os.Getuid())
	if err != nil {
		t.Fatal(err)
	}
	ip := netip.MustParseAddr("203.0.113.10")
	now := time.Hour
	m := claim.New("n1", claim.Timing{Duration: time.Hour, Renew: 10 * time.Minute})
	m.Relist(now, nil)
	m.Next(now)
	m.Committed(now, 1)
	groups := []claim.Group{{Addresses: []netip.Addr{ip}, Eligible: true}}
	m.Want(now, groups, true)
	m.Suspend(now, true) // nothing is claimed, and the probe grows old
	r := &Reconciler{Options: Options{Config: &config.Config{}}, machine: m, book: book, reports: &reports{}, probeAgain: map[string]bool{}}
	doc := &schema.VIP{
		Key: "default.web", Kind: schema.KindService, State: schema.StateStandby, Grant: schema.GrantNode,
		Addresses: []schema.Address{{IP: ip, PrefixLength: 32, Interface: "eth0"}},
	}
	if _, err := book.Put(doc); err != nil {
		t.Fatal(err)
	}
	r.reports.arpd = map[string]schema.Status{doc.Key: {
		Meta: schema.Meta{Instance: "a", Generation: 1}, Key: doc.Key, Observed: doc.Seen(),
		Conditions: []schema.Condition{{Type: schema.ConditionUnclaimed, Status: schema.True}},
	}}
	r.takeProbes(now)
	if r.probeAgain[doc.Key] {
		t.Error("a fresh answer is asked for anew")
	}
	now += claim.Proven
	r.takeProbes(now)
	if !r.probeAgain[doc.Key] {
		t.Error("an old answer is not asked for anew")
	}
	m.Suspend(now, false)
	if p := m.State(ip).Phase; p != claim.Probing {
		t.Errorf("%s by an old probe", p)
	}
}

func TestProblemWithAReportIsToldAgainWhenItComesBack(t *testing.T) {
	dir := t.TempDir()
	file := ownership.VIPs(dir, ownership.Vipd)
	if err := os.MkdirAll(file, 0o750); err != nil {
		t.Fatal(err)
	}
	file += "/default.web.json"
	r := newReports(dir, func(string) int { return os.Getuid() })
	for range 2 {
		if err := os.WriteFile(file, []byte("{"), 0o640); err != nil {
			t.Fatal(err)
		}
		r.read(slog.New(slog.DiscardHandler))
		if len(r.complained) != 1 {
			t.Errorf("complained of %v", r.complained)
		}
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		r.read(slog.New(slog.DiscardHandler))
		if len(r.complained) != 0 {
			t.Errorf("still complains of %v", r.complained)
		}
	}
}

func TestStatusOfADeletedServiceIsForgotten(t *testing.T) {
	c := newTestCluster(t, 1, nil)
	c.loadBalancer("web", "203.0.113.10", "n1")
	c.served(t, "web", "203.0.113.10")
	c.deleteService("default", "web")
	r := c.nodes["n1"].r
	eventually(t, patience, "forgotten", func() bool {
		n := -1
		return r.ask(t.Context(), func() { n = len(r.published) }) == nil && n == 0
	})
}
