package intent

import (
	"maps"
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/vipod/vipod/shared/ownership"
	"github.com/vipod/vipod/shared/schema"
)

func open(t *testing.T, dir string) (*Book, Previous) {
	t.Helper()
	if err := os.MkdirAll(ownership.Dir(dir, ownership.Elector), 0o750); err != nil {
		t.Fatal(err)
	}
	b, p, err := Open(dir, "boot", os.Getuid())
	if err != nil {
		t.Fatal(err)
	}
	return b, p
}

func put(t *testing.T, b *Book, state schema.State, ips ...netip.Addr) *schema.VIP {
	t.Helper()
	doc := &schema.VIP{Key: "default.web", Kind: schema.KindService, State: state, Grant: schema.GrantNode, Epoch: "7"}
	for _, ip := range ips {
		doc.Addresses = append(doc.Addresses, address(ip, "eth0"))
	}
	if _, err := b.Put(doc); err != nil {
		t.Fatal(err)
	}
	return doc
}

// report is vipd's status about a document, with what is in the kernel.
func report(doc *schema.VIP, muted schema.ConditionStatus, ips ...netip.Addr) map[string]schema.Status {
	s := schema.Status{Key: doc.Key, Observed: doc.Seen(), Conditions: []schema.Condition{{Type: schema.ConditionMuted, Status: muted}}}
	for _, ip := range ips {
		s.Addresses = append(s.Addresses, schema.AddressStatus{IP: ip, Present: true})
	}
	return map[string]schema.Status{doc.Key: s}
}

func exposed(t *testing.T, b *Book, want ...netip.Addr) {
	t.Helper()
	got := slices.SortedFunc(maps.Keys(b.Exposures()), netip.Addr.Compare)
	slices.SortFunc(want, netip.Addr.Compare)
	if !slices.Equal(got, want) {
		t.Fatalf("exposed %v, want %v", got, want)
	}
}

func TestOnlyAnAcknowledgedAddressIsSilent(t *testing.T) {
	b, _ := open(t, t.TempDir())
	active := put(t, b, schema.StateActive, v4, v6)
	exposed(t, b, v4, v6)
	b.Acknowledge(report(active, schema.True, v4, v6), true)
	exposed(t, b, v4, v6) // what an active document asks for is not silent, whatever is said
	draining := put(t, b, schema.StateDraining, v4, v6)
	b.Acknowledge(report(active, schema.True, v4, v6), true)
	exposed(t, b, v4, v6) // an answer about an earlier document
	b.Acknowledge(nil, true)
	exposed(t, b, v4, v6) // no answer yet
	b.Acknowledge(report(draining, schema.False, v4, v6), true)
	exposed(t, b, v4, v6)
	b.Acknowledge(report(draining, schema.True, v4, v6), true)
	exposed(t, b)
}

func TestAddressThatADocumentNoLongerNamesIsSilentOnceItIsSwept(t *testing.T) {
	b, _ := open(t, t.TempDir())
	active := put(t, b, schema.StateActive, v4)
	edited := put(t, b, schema.StateActive, v6)
	b.Acknowledge(report(active, schema.False, v4), true)
	exposed(t, b, v4, v6)
	b.Acknowledge(report(edited, schema.False, v4, v6), true)
	exposed(t, b, v4, v6) // still in the kernel
	b.Acknowledge(report(edited, schema.False, v6), false)
	exposed(t, b, v4, v6) // not listed, and nothing is swept yet
	b.Acknowledge(report(edited, schema.False, v6), true)
	exposed(t, b, v6)
}

func TestWithdrawnAddressIsSilentOnceItIsGone(t *testing.T) {
	b, _ := open(t, t.TempDir())
	active := put(t, b, schema.StateActive, v4)
	gone := put(t, b, schema.StateWithdrawn, v4)
	b.Acknowledge(report(active, schema.False), true)
	exposed(t, b, v4)
	b.Acknowledge(report(gone, schema.False, v4), true)
	exposed(t, b, v4)
	other := &schema.VIP{Key: "default.web", Addresses: []schema.Address{address(v6, "eth0")}}
	if !b.awaits(other) || b.awaits(gone) {
		t.Error("a document that does not name the withdrawn address must wait for the answer, and only that")
	}
	b.Acknowledge(report(gone, schema.False), false)
	exposed(t, b)
	if b.awaits(other) {
		t.Error("still waits")
	}
}

func TestWithdrawnAddressThatAnotherDocumentWantsIsThatOnes(t *testing.T) {
	b, _ := open(t, t.TempDir())
	put(t, b, schema.StateActive, v4)
	gone := put(t, b, schema.StateWithdrawn, v4)
	other := *gone
	other.Key, other.State = "default.other", schema.StateDraining
	if _, err := b.Put(&other); err != nil {
		t.Fatal(err)
	}
	b.Acknowledge(report(gone, schema.False, v4), true)
	if b.Exposed("default.web") || !b.Exposed("default.other") {
		t.Error("the exposure did not pass on")
	}
	b.Acknowledge(report(&other, schema.True, v4), true)
	exposed(t, b)
}

// A write may fail after the file was replaced.
func TestDocumentWhoseWriteFailedExposesAll(t *testing.T) {
	dir := t.TempDir()
	b, _ := open(t, dir)
	draining := put(t, b, schema.StateDraining, v4)
	file := ownership.VIPs(dir, ownership.Elector) + "/default.web.json"
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(file, 0o750); err != nil { // no file can be renamed to it
		t.Fatal(err)
	}
	active := *draining
	active.State = schema.StateActive
	if _, err := b.Put(&active); err == nil {
		t.Fatal("wrote a file over a directory")
	}
	exposed(t, b, v4)
	b.Acknowledge(report(draining, schema.True, v4), true)
	exposed(t, b, v4)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	again := *draining
	if changed, err := b.Put(&again); err != nil || !changed {
		t.Errorf("the document is not written again after a failure: %t, %v", changed, err)
	}
	b.Acknowledge(report(draining, schema.True, v4), true)
	exposed(t, b, v4) // that was the document before the failure
	b.Acknowledge(report(&again, schema.True, v4), true)
	exposed(t, b)
}

func TestSuccessorFindsWhatWasOwned(t *testing.T) {
	dir := t.TempDir()
	b, p := open(t, dir)
	if len(p.Grant) != 0 || len(p.VIPs) != 0 {
		t.Fatalf("found %+v in a new directory", p)
	}
	put(t, b, schema.StateActive, v4)
	grants := map[schema.GrantName]time.Duration{schema.GrantNode: 5 * time.Second, schema.GrantControlPlane: 0}
	if err := b.WriteGrant(grants); err != nil {
		t.Fatal(err)
	}
	next, p := open(t, dir)
	if p.Grant[schema.GrantNode] != 5*time.Second || len(p.Grant) != 1 || Epoch(p.VIPs["default.web"]) != 7 {
		t.Errorf("found %+v", p)
	}
	if !next.Exposures()[v4] {
		t.Error("what was active is taken for silent")
	}
	if changed, err := next.Put(&schema.VIP{Key: "default.web", Kind: schema.KindService, State: schema.StateActive,
		Grant: schema.GrantNode, Epoch: "7", Addresses: []schema.Address{address(v4, "eth0")}}); err != nil || !changed {
		t.Errorf("a document of another process must be written anew: %t, %v", changed, err)
	}
	if _, p, err := Open(dir, "another boot", os.Getuid()); err != nil || len(p.Grant) != 0 {
		t.Errorf("a grant of another boot counts: %+v, %v", p.Grant, err)
	}
	if _, p := open(t, dir); len(p.Problems) != 0 {
		t.Errorf("problems %v", p.Problems)
	}
}

func TestWhatCannotBeReadIsToldAndRemoved(t *testing.T) {
	for _, file := range []string{"grant.json", "vips/default.web.json", "vips/default.other.json"} {
		t.Run(file, func(t *testing.T) {
			dir := t.TempDir()
			b, _ := open(t, dir)
			put(t, b, schema.StateActive, v4)
			if err := b.WriteGrant(map[schema.GrantName]time.Duration{schema.GrantNode: 5 * time.Second}); err != nil {
				t.Fatal(err)
			}
			path := ownership.Dir(dir, ownership.Elector) + "/" + file
			if err := os.WriteFile(path, []byte("{"), 0o640); err != nil {
				t.Fatal(err)
			}
			_, p := open(t, dir)
			if len(p.Problems) != 1 {
				t.Errorf("problems %v", p.Problems)
			}
			if _, err := os.Stat(path); file != "grant.json" && err == nil {
				t.Error("it is still there")
			}
		})
	}
}
