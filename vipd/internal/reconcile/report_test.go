package reconcile

import (
	"errors"
	"log/slog"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/vipod/vipod/shared/netsafe"
	"github.com/vipod/vipod/shared/ownership"
	"github.com/vipod/vipod/shared/schema"
	"github.com/vipod/vipod/shared/statetest"
	"github.com/vipod/vipod/vipd/internal/kernel"
	"github.com/vipod/vipod/vipd/internal/plan"
)

const (
	kept   = "198.51.100.7"
	taken  = "198.51.100.8"
	webKey = "default.web"
)

// world is a Reconciler between a pod's files and a kernel in memory.
type world struct {
	*statetest.Pod
	*Reconciler
	t      *testing.T
	kernel *recorder
}

// serving returns a world in which a VIP of the addresses is claimed.
func serving(t *testing.T, addresses ...string) *world {
	t.Helper()
	w := &world{Pod: statetest.New(t), t: t, kernel: &recorder{}}
	w.kernel.State.Links = []plan.Link{{Name: "eth0", Index: 2, Admin: true, Up: true, Resolves: true}}
	w.WriteNode(w.Node())
	w.Grant(time.Hour)
	w.WriteVIP(statetest.VIP(webKey, schema.StateActive, "eth0", addresses...))
	w.start()
	w.pass()
	if !w.claims(addresses...) {
		t.Fatalf("not claimed at first: %+v", w.kernel.State)
	}
	return w
}

// start is a vipd that begins, as one of its own or as the one after it.
func (w *world) start() {
	w.t.Helper()
	r, err := New(Config{Log: slog.New(slog.NewTextHandler(w.t.Output(), nil)), StateDir: w.Dir, Boot: w.Boot, Added: func(netip.Addr) {},
		Open:    func(table string) (kernel.Kernel, bool, error) { return w.kernel, table != "", nil },
		Metrics: NewMetrics(prometheus.NewRegistry())})
	if err != nil {
		w.t.Fatal(err)
	}
	w.Reconciler = r
}

// claims says whether the addresses are in the kernel and the fence is open.
func (w *world) claims(addresses ...string) bool {
	s := w.kernel.State
	for _, text := range addresses {
		ip := netip.MustParseAddr(text)
		if !slices.ContainsFunc(s.Addresses, func(a plan.Address) bool { return a.Prefix.Addr() == ip }) {
			return false
		}
	}
	return len(s.Fence.Open[schema.GrantNode]) > 0
}

func (w *world) status() schema.Status {
	w.t.Helper()
	s, err := w.Status(ownership.Vipd, webKey)
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

func lists(s schema.Status, ip string) bool {
	return slices.ContainsFunc(s.Addresses, func(a schema.AddressStatus) bool { return a.IP.String() == ip })
}

// refuse makes the kernel refuse operations whose command has the words.
func (w *world) refuse(words string) {
	w.kernel.Fail = func(op plan.Op) error {
		if strings.Contains(op.String(), words) {
			return os.ErrPermission
		}
		return nil
	}
}

// edit takes an address out of the VIP and returns the new document.
func (w *world) edit() *schema.VIP {
	w.t.Helper()
	doc := statetest.VIP(webKey, schema.StateActive, "eth0", kept)
	w.WriteVIP(doc)
	return doc
}

func TestNetnsReportIsNotAboutADocumentThatWasNotActedOn(t *testing.T) {
	for name, fail := range map[string]func(*world){
		"the kernel cannot be read":    func(w *world) { w.kernel.blind = netsafe.ErrInterrupted },
		"an address cannot be removed": func(w *world) { w.refuse("address delete") },
		"the fence cannot be closed": func(w *world) {
			w.kernel.State.Fence.Chains = nil
			w.refuse("add chain")
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := serving(t, kept, taken)
			doc := w.edit()
			fail(w)
			w.pass()
			if s := w.status(); s.Observed == doc.Seen() || !lists(s, taken) {
				t.Errorf("acknowledged: %+v", s)
			}
			if schema.IsTrue(w.Self(ownership.Vipd).Conditions, schema.ConditionReady) {
				t.Error("ready although passes fail")
			}
			w.kernel.blind, w.kernel.Fail = nil, nil
			w.pass()
			if s := w.status(); s.Observed != doc.Seen() || lists(s, taken) || w.claims(taken) {
				t.Errorf("after a pass that worked: %+v", s)
			}
		})
	}
}

func TestNetnsAddressThatIsLeftIsListedUntilItIsGone(t *testing.T) {
	w := serving(t, kept, taken)
	node := w.Node()
	node.Synced = false // nothing is swept
	w.WriteNode(node)
	doc := w.edit()
	for range 2 {
		w.pass()
		if s := w.status(); s.Observed != doc.Seen() || !lists(s, taken) {
			t.Errorf("the address is in the kernel and not reported: %+v", s)
		}
		w.start() // also by the process that comes next
	}
	w.WriteNode(w.Node())
	w.pass()
	if s := w.status(); lists(s, taken) || w.claims(taken) {
		t.Errorf("after the sweep: %+v", s)
	}
}

func TestNetnsNothingIsSweptWhileADocumentCannotBeRead(t *testing.T) {
	for name, spoil := range map[string]func(*world) error{
		"unknown schema": func(w *world) error {
			w.WriteRaw(ownership.Elector, "vips/"+webKey, []byte(`{"schema":"vipod.vip/2","instance":"e","generation":9}`))
			return nil
		},
		"wrong owner": func(w *world) error { return os.Chown(w.Path(ownership.Elector, "vips/"+webKey), 0, 0) },
		"other key": func(w *world) error {
			w.Write(ownership.Elector, "vips/"+webKey, statetest.VIP("default.other", schema.StateActive, "eth0", taken))
			return nil
		},
		"directory is missing": func(w *world) error {
			dir := ownership.VIPs(w.Dir, ownership.Elector)
			return os.Rename(dir, dir+".away")
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := serving(t, kept)
			if err := spoil(w); err != nil {
				t.Fatal(err)
			}
			w.start() // it has no last good document
			w.pass()
			if len(w.kernel.State.Addresses) != 1 || !w.kernel.State.Fence.Exists {
				t.Errorf("swept: %+v", w.kernel.State)
			}
			if _, err := w.Status(ownership.Vipd, webKey); err != nil {
				t.Errorf("the report is gone: %v", err)
			}
		})
	}
}

func TestNetnsAddressThatCannotBeAddedFailsAlone(t *testing.T) {
	w := serving(t, kept)
	w.refuse("address add " + taken)
	w.WriteVIP(statetest.VIP("default.bad", schema.StateActive, "eth0", taken))
	w.WriteVIP(statetest.VIP("default.gone", schema.StateStandby, "eth0", "198.51.100.9"))
	w.pass()
	w.DropVIP("default.gone")
	w.pass()
	bad, err := w.Status(ownership.Vipd, "default.bad")
	if err != nil {
		t.Fatal(err)
	}
	if c, _ := schema.FindCondition(bad.Conditions, schema.ConditionPresent); c.Status != schema.False ||
		c.Reason != string(plan.KernelError) || !strings.Contains(c.Message, "permission") {
		t.Errorf("the VIP that failed: %+v", c)
	}
	if !schema.IsTrue(w.status().Conditions, schema.ConditionPresent) || !w.claims(kept) {
		t.Error("another VIP suffers")
	}
	if !schema.IsTrue(w.Self(ownership.Vipd).Conditions, schema.ConditionReady) {
		t.Error("not ready because of one address")
	}
	if _, err := w.Status(ownership.Vipd, "default.gone"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("reports are not removed any more: %v", err)
	}
	w.Grant(2 * time.Hour)
	if !w.prolong() {
		t.Error("the grant cannot be prolonged without a whole pass")
	}
	if until := time.Until(w.next); until > 15*time.Second {
		t.Errorf("tried again after %s", until)
	}
	w.kernel.Fail = nil
	w.pass()
	if !w.claims(taken) {
		t.Error("not added once it can be")
	}
}

func TestNetnsReportThatCannotBeWrittenIsTriedAgainSoon(t *testing.T) {
	w := serving(t, kept)
	dir := ownership.VIPs(w.Dir, ownership.Vipd)
	if err := os.Rename(dir, dir+".away"); err != nil {
		t.Fatal(err)
	}
	doc := w.edit()
	w.pass()
	if until := time.Until(w.next); until > 15*time.Second {
		t.Errorf("tried again after %s", until)
	}
	if err := os.Rename(dir+".away", dir); err != nil {
		t.Fatal(err)
	}
	w.pass()
	if s := w.status(); s.Observed != doc.Seen() {
		t.Errorf("not written: %+v", s)
	}
}

func TestNetnsForeignAddressLeavesWithItsVIP(t *testing.T) {
	w := serving(t, kept)
	foreign := plan.Address{Link: "eth0", Prefix: netip.MustParsePrefix(kept + "/24"), Valid: netsafe.Forever}
	w.kernel.State.Addresses = []plan.Address{foreign}
	w.pass()
	if c, _ := schema.FindCondition(w.status().Conditions, schema.ConditionPresent); c.Reason != string(plan.ForeignAddress) {
		t.Errorf("present: %+v", c)
	}
	if !schema.IsTrue(w.status().Conditions, schema.ConditionFenced) {
		t.Error("not fenced, although the kernel answers for it")
	}
	doc := statetest.VIP(webKey, schema.StateDraining, "eth0", kept)
	w.WriteVIP(doc)
	w.pass()
	if s := w.status(); s.Observed != doc.Seen() || !schema.IsTrue(s.Conditions, schema.ConditionMuted) {
		t.Errorf("not muted: %+v", s)
	}
	w.DropVIP(webKey)
	w.pass()
	if !slices.Equal(w.kernel.State.Addresses, []plan.Address{foreign}) {
		t.Errorf("it was touched: %+v", w.kernel.State.Addresses)
	}
}

func TestNetnsGrantIsGivenToTheLinksByName(t *testing.T) {
	w := serving(t, kept)
	open := w.kernel.State.Fence.Open
	open[schema.GrantNode] = []string{"eth9"} // as many links, but others
	w.pass()
	if got := w.kernel.State.Fence.Open[schema.GrantNode]; !slices.Equal(got, []string{"eth0"}) {
		t.Errorf("open on %v", got)
	}
}

func TestNetnsGrantRenewedInTheMidstOfAPassIsNotCutByIt(t *testing.T) {
	w := serving(t, kept)
	w.kernel.Fail = func(op plan.Op) error {
		if _, ok := op.(plan.AddAddress); ok {
			w.Grant(10 * time.Hour)
			w.Renewed.Fire()
		}
		return nil
	}
	w.WriteVIP(statetest.VIP("default.other", schema.StateActive, "eth0", taken))
	w.pass()
	if left := w.kernel.Left[schema.GrantNode]; left < 9*time.Hour || !w.claims(kept, taken) {
		t.Errorf("%s left in the kernel: %+v", left, w.kernel.State)
	}
}
