package intent

import (
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/vipod/vipod/elector/internal/claim"
	"github.com/vipod/vipod/elector/internal/plan"
	"github.com/vipod/vipod/shared/ownership"
	"github.com/vipod/vipod/shared/schema"
)

var (
	v4      = netip.MustParseAddr("203.0.113.10")
	v6      = netip.MustParseAddr("2001:db8::10")
	compare = cmpopts.EquateComparable(netip.Addr{})
)

func address(ip netip.Addr, link string) schema.Address {
	return schema.Address{IP: ip, PrefixLength: ip.BitLen(), Interface: link, Source: schema.SourceStatic}
}

func vip(addresses ...schema.Address) plan.VIP {
	return plan.VIP{Key: "default.web", UID: "u", Kind: schema.KindService, Addresses: addresses}
}

// said is a document in short.
type said struct {
	Key, Epoch string
	State      schema.State
	IPs        []netip.Addr
	Announce   []schema.Announce
}

func short(docs []*schema.VIP) []said {
	var out []said
	for _, d := range docs {
		s := said{Key: d.Key, Epoch: d.Epoch, State: d.State, Announce: d.Announce}
		for _, a := range d.Addresses {
			s.IPs = append(s.IPs, a.IP)
		}
		out = append(out, s)
	}
	return out
}

func TestDocumentSaysWhatThisNodeOwns(t *testing.T) {
	both := vip(address(v4, "eth0"), address(v6, "eth0"))
	all := []schema.Announce{schema.AnnounceARP, schema.AnnounceNDP}
	type phases = map[netip.Addr]claim.Ownership
	tests := map[string]struct {
		vip    plan.VIP
		own    phases
		before *schema.VIP
		want   []said
	}{
		"nothing owned": {vip: both},
		"claiming":      {vip: both, own: phases{v4: {Phase: claim.Claiming}, v6: {Phase: claim.Claiming}}},
		"probing": {vip: both, own: phases{v4: {Phase: claim.Probing}, v6: {Phase: claim.Probing}},
			want: []said{{Key: "default.web", State: schema.StateStandby, IPs: []netip.Addr{v4, v6}, Announce: all}}},
		"owned": {vip: both, own: phases{v4: {Phase: claim.Owned, Epoch: 7}, v6: {Phase: claim.Owned, Epoch: 9}},
			want: []said{{Key: "default.web", Epoch: "9", State: schema.StateActive, IPs: []netip.Addr{v4, v6}, Announce: all}}},
		"one address added": {vip: both, own: phases{v4: {Phase: claim.Owned, Epoch: 7}, v6: {Phase: claim.Probing}},
			want: []said{
				{Key: "default.web", Epoch: "7", State: schema.StateActive, IPs: []netip.Addr{v4}, Announce: all[:1]},
				{Key: "_probe.default.web", State: schema.StateStandby, IPs: []netip.Addr{v6}, Announce: all[1:]},
			}},
		"draining": {vip: both, own: phases{v4: {Phase: claim.Draining, Epoch: 7}, v6: {Phase: claim.Released, Epoch: 7}},
			want: []said{{Key: "default.web", Epoch: "7", State: schema.StateDraining, IPs: []netip.Addr{v4, v6}}}},
		"draining and the link is gone": {vip: vip(address(v4, "")), own: phases{v4: {Phase: claim.Draining, Epoch: 7}},
			before: &schema.VIP{Addresses: []schema.Address{address(v4, "eth0")}},
			want:   []said{{Key: "default.web", Epoch: "7", State: schema.StateDraining, IPs: []netip.Addr{v4}}}},
		"no link at all": {vip: vip(address(v4, "")), own: phases{v4: {Phase: claim.Owned, Epoch: 7}}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			own := func(ip netip.Addr) claim.Ownership { return test.own[ip] }
			docs := Documents(test.vip, own, test.before)
			if diff := cmp.Diff(test.want, short(docs), compare); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			for _, d := range docs {
				d.Meta = schema.Meta{Schema: d.SchemaName(), Instance: "i", Generation: 1}
				if err := d.Validate(); err != nil {
					t.Error(err)
				}
			}
			test.vip.Group = plan.NoGroup
			if docs := Documents(test.vip, own, test.before); len(docs) != 0 {
				t.Errorf("served by nobody, and yet %v", short(docs))
			}
		})
	}
}

func TestControlPlaneFollowsItsLease(t *testing.T) {
	v := plan.VIP{Key: schema.ControlPlaneKey, Kind: schema.KindControlPlane, Addresses: []schema.Address{address(v4, "eth0")}}
	for phase, want := range map[claim.Phase]schema.State{
		claim.Owned: schema.StateActive, claim.Draining: schema.StateDraining, claim.Released: schema.StateDraining, claim.Idle: "",
	} {
		doc := ControlPlane(v, phase, 7, nil)
		switch {
		case doc == nil && want == "":
		case doc == nil || doc.State != want || doc.Grant != schema.GrantControlPlane || doc.Epoch != "7":
			t.Errorf("%s: %+v", phase, doc)
		}
	}
}

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

// report is vipd's status about a document.
func report(doc *schema.VIP, muted schema.ConditionStatus, ips ...netip.Addr) map[string]schema.Status {
	s := schema.Status{Key: doc.Key, Observed: doc.Seen(), Conditions: []schema.Condition{{Type: schema.ConditionMuted, Status: muted}}}
	for _, ip := range ips {
		s.Addresses = append(s.Addresses, schema.AddressStatus{IP: ip})
	}
	return map[string]schema.Status{doc.Key: s}
}

func TestOnlyAnAcknowledgedAddressIsSilent(t *testing.T) {
	b, _ := open(t, t.TempDir())
	active := put(t, b, schema.StateActive, v4, v6)
	exposed := func(want ...netip.Addr) {
		t.Helper()
		got := b.Exposures()
		if len(got) != len(want) {
			t.Fatalf("exposed %v, want %v", got, want)
		}
		for _, ip := range want {
			if !got[ip] {
				t.Fatalf("exposed %v, want %v", got, want)
			}
		}
	}
	exposed(v4, v6)
	b.Acknowledge(report(active, schema.True, v4, v6))
	exposed(v4, v6) // what an active document asks for is not silent, whatever is said
	draining := put(t, b, schema.StateDraining, v4, v6)
	b.Acknowledge(report(active, schema.True, v4, v6))
	exposed(v4, v6) // an answer about an earlier document
	b.Acknowledge(nil)
	exposed(v4, v6) // no answer yet
	b.Acknowledge(report(draining, schema.False, v4, v6))
	exposed(v4, v6)
	b.Acknowledge(report(draining, schema.True, v4, v6))
	exposed()

	active = put(t, b, schema.StateActive, v4)
	exposed(v4)
	edited := put(t, b, schema.StateActive, v6)
	b.Acknowledge(report(active, schema.False, v4))
	exposed(v4, v6)
	b.Acknowledge(report(edited, schema.False, v4, v6))
	exposed(v4, v6) // still in the kernel
	b.Acknowledge(report(edited, schema.False, v6))
	exposed(v6)
	if err := b.Drop("default.web"); err != nil {
		t.Fatal(err)
	}
	b.Acknowledge(report(edited, schema.False, v6))
	exposed(v6)
	b.Acknowledge(nil)
	exposed()
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
	if err := os.WriteFile(ownership.Dir(dir, ownership.Elector)+"/grant.json", []byte("{"), 0o640); err != nil {
		t.Fatal(err)
	}
	if _, p := open(t, dir); len(p.Grant) != 0 {
		t.Errorf("an unreadable grant counts: %+v", p.Grant)
	}
}
