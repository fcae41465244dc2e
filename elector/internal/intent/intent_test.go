package intent

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/vipod/vipod/elector/internal/claim"
	"github.com/vipod/vipod/elector/internal/plan"
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

func TestControlPlaneByDHCPHasItsLinkBeforeItsAddressAndAfterItsParent(t *testing.T) {
	link := schema.LinkSpec{Kind: schema.LinkMacvlan, Name: "vip-control", Parent: "eth0", DHCP: &schema.DHCPSpec{IPv4: true}}
	v := plan.VIP{
		Key: schema.ControlPlaneKey, Kind: schema.KindControlPlane, Links: []schema.LinkSpec{link}, Token: plan.Token(&link),
	}
	doc := ControlPlane(v, claim.Owned, 7, nil)
	if doc == nil || doc.DHCPLink() == nil || doc.State != schema.StateActive {
		t.Fatalf("before an address is lent: %+v", doc)
	}
	v.Links = nil // the plan has no parent for it any more
	if doc = ControlPlane(v, claim.Draining, 7, doc); doc == nil || doc.DHCPLink() == nil || doc.State != schema.StateDraining {
		t.Errorf("while it is given up: %+v", doc)
	}
	if doc = ControlPlane(v, claim.Idle, 0, doc); doc != nil {
		t.Errorf("after it: %+v", doc)
	}
}
