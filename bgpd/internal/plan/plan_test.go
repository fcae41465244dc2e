package plan

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/vipod/vipod/shared/schema"
)

func vip(state schema.State, a *schema.PathAttributes, ips ...string) schema.VIP {
	v := schema.VIP{State: state, Grant: schema.GrantNone, Announce: []schema.Announce{schema.AnnounceBGP}, BGP: a}
	for _, ip := range ips {
		v.Addresses = append(v.Addresses, schema.Address{IP: netip.MustParseAddr(ip)})
	}
	return v
}

func number(n uint32) *uint32 { return &n }

// lines prints paths.
func lines(paths []Path) (out []string) {
	for _, p := range paths {
		text := p.Prefix.String()
		if p.MED != nil {
			text += fmt.Sprintf(" med %d", *p.MED)
		}
		if p.Leaving {
			text += " leaving"
		}
		out = append(out, text)
	}
	return out
}

func TestPathsOfDocuments(t *testing.T) {
	granted := vip(schema.StateActive, nil, "203.0.113.1")
	granted.Grant = schema.GrantNode
	arp := vip(schema.StateActive, nil, "203.0.113.1")
	arp.Announce = []schema.Announce{schema.AnnounceARP}
	med := &schema.PathAttributes{MED: number(5)}
	for name, c := range map[string]struct {
		in   Input
		want []string
	}{
		"nothing": {Input{}, nil},
		"both families in order": {
			Input{VIPs: map[string]schema.VIP{"a": vip(schema.StateActive, nil, "2001:db8::1", "203.0.113.2", "203.0.113.1")}},
			[]string{"203.0.113.1/32", "203.0.113.2/32", "2001:db8::1/128"},
		},
		"not by BGP":      {Input{VIPs: map[string]schema.VIP{"a": arp}}, nil},
		"standby":         {Input{VIPs: map[string]schema.VIP{"a": vip(schema.StateStandby, nil, "203.0.113.1")}}, nil},
		"without a grant": {Input{VIPs: map[string]schema.VIP{"a": granted}}, nil},
		"with the grant": {
			Input{VIPs: map[string]schema.VIP{"a": granted}, Held: map[schema.GrantName]bool{schema.GrantNode: true}},
			[]string{"203.0.113.1/32"},
		},
		"leaving": {Input{VIPs: map[string]schema.VIP{"a": vip(schema.StateDraining, nil, "203.0.113.1")}}, []string{"203.0.113.1/32 leaving"}},
		"the first by key counts": {
			Input{VIPs: map[string]schema.VIP{"b": vip(schema.StateActive, nil, "203.0.113.1"), "a": vip(schema.StateActive, med, "203.0.113.1")}},
			[]string{"203.0.113.1/32 med 5"},
		},
		"an active one counts before one that leaves": {
			Input{VIPs: map[string]schema.VIP{"a": vip(schema.StateDraining, nil, "203.0.113.1"), "b": vip(schema.StateActive, med, "203.0.113.1")}},
			[]string{"203.0.113.1/32 med 5"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, lines(Of(c.in))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// paths makes a list of two bytes a path: the last byte of its address, and
// what it carries.
func paths(code []byte) []Path {
	var out []Path
	for ; len(code) >= 2; code = code[2:] {
		ip := netip.AddrFrom4([4]byte{203, 0, 113, code[0]})
		a := NewAttributes(&schema.PathAttributes{MED: number(uint32(code[1] >> 1))}, code[1]&1 != 0)
		a.key = string(code)
		out = append(out, Path{Host(ip), a})
	}
	return sorted(out)
}

// apply is what a peer makes of changes.
func apply(sent []Path, ops []Op) []Path {
	known := map[netip.Prefix]Path{}
	for _, p := range sent {
		known[p.Prefix] = p
	}
	for _, op := range ops {
		switch o := op.(type) {
		case Withdraw:
			for _, p := range o.Prefixes {
				delete(known, p)
			}
		case Announce:
			for _, p := range o.Prefixes {
				known[p] = Path{p, o.Attributes}
			}
		}
	}
	var out []Path
	for _, p := range known {
		out = append(out, p)
	}
	return sorted(out)
}

func FuzzDifference(f *testing.F) {
	f.Add([]byte{}, []byte{1, 0, 2, 0})
	f.Add([]byte{1, 0, 2, 0, 3, 4}, []byte{2, 0, 3, 5, 4, 1})
	f.Add([]byte{9, 9, 9, 8, 9, 1}, []byte{})
	f.Fuzz(func(t *testing.T, before, after []byte) {
		sent, wanted := paths(before), paths(after)
		ops := Difference(wanted, sent)
		if diff := cmp.Diff(lines(wanted), lines(apply(sent, ops)), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("the peer knows other paths (-want +got):\n%s", diff)
		}
		if again := Difference(wanted, wanted); len(again) > 0 {
			t.Errorf("more to do: %v", again)
		}
		said := 0
		for _, op := range ops {
			switch o := op.(type) {
			case Withdraw:
				said += len(o.Prefixes)
			case Announce:
				said += len(o.Prefixes)
			}
		}
		changed := 0
		Changes(sent, wanted, func(Path) { changed++ }, func(Path) { changed++ })
		if said != changed {
			t.Errorf("%d prefixes are told for %d changes", said, changed)
		}
	})
}

func TestOpsPrintAsCommands(t *testing.T) {
	sent := paths([]byte{1, 0, 2, 0, 3, 0, 4, 0})
	wanted := slices.Concat(paths([]byte{5, 1}), paths([]byte{6, 2}))
	var got []string
	for _, op := range Difference(wanted, sent) {
		got = append(got, op.String())
	}
	want := []string{
		"gobgp global rib del 203.0.113.1/32 203.0.113.2/32 203.0.113.3/32 (and 1 more)",
		"gobgp global rib add 203.0.113.5/32 community graceful-shutdown",
		"gobgp global rib add 203.0.113.6/32",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func BenchmarkOneOfAHundredDocumentsGoes(b *testing.B) {
	in := Input{VIPs: map[string]schema.VIP{}}
	ip := netip.MustParseAddr("203.0.113.0")
	for n := range 100 {
		v := vip(schema.StateActive, nil)
		for range 50 {
			v.Addresses, ip = append(v.Addresses, schema.Address{IP: ip}), ip.Next()
		}
		in.VIPs[fmt.Sprint("default.v", n)] = v
	}
	before := Of(in)
	delete(in.VIPs, "default.v50")
	for b.Loop() {
		if ops := Difference(Of(in), before); len(ops) != 1 {
			b.Fatal(ops)
		}
	}
}
