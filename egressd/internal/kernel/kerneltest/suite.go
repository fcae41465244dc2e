package kerneltest

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/vipod/vipod/egressd/internal/kernel"
	"github.com/vipod/vipod/egressd/internal/plan"
	"github.com/vipod/vipod/shared/schema"
)

// Run holds a kernel to what the plan's model says of it.
func Run(t *testing.T, open func(t *testing.T) kernel.Kernel) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			k := open(t)
			want := plan.Actual{}
			for _, batch := range c.batches {
				want = plan.Apply(want, batch...)
				if err := k.Do(batch); err != nil {
					t.Fatalf("%v: %v", batch, err)
				}
				have, err := k.Observe()
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(trim(want), trim(have), cmpopts.EquateEmpty()); diff != "" {
					t.Errorf("after %v (-model +kernel):\n%s", batch, diff)
				}
			}
		})
	}
	t.Run("tunnels are permitted to send again and again", func(t *testing.T) { permit(t, open(t)) })
	t.Run("a transaction that fails changes nothing", func(t *testing.T) { allOrNone(t, open(t)) })
}

// trim leaves out empty sets, which a model may have or not.
func trim(a plan.Actual) plan.Actual {
	tables := plan.Tables{}
	for kind, table := range a.Tables {
		tables[kind] = plan.Table{}
		for set, elements := range table {
			switch {
			case set == plan.Lists && len(elements) > 0: // their names say what is in them
				tables[kind][set] = plan.Elements{}
				for name := range elements {
					tables[kind][set][name] = ""
				}
			case len(elements) > 0:
				tables[kind][set] = elements
			}
		}
	}
	return plan.Actual{Tables: tables, Damaged: a.Damaged}
}

func add(kind plan.Kind, set, key, value string) plan.Op {
	return plan.AddElement{Element: plan.Element{Kind: kind, Set: set, Key: key, Value: value}}
}

func del(set, key, value string) plan.Op {
	return plan.DelElement{Element: plan.Element{Kind: plan.Egress, Set: set, Key: key, Value: value}}
}

// egress is a table with something in every set.
var egress = []plan.Op{
	plan.AddTable{Kind: plan.Egress},
	add(plan.Egress, "pods4", "203.0.113.2", ""), add(plan.Egress, "pods6", "2001:db8:0:2:1::2", ""),
	add(plan.Egress, "vips4", "203.0.113.2", "198.51.100.200"), add(plan.Egress, "vips6", "2001:db8:0:2:1::2", "2001:db8::200"),
	add(plan.Egress, "held4", "203.0.113.3", ""), add(plan.Egress, "held6", "2001:db8:0:2:1::3", ""),
	add(plan.Egress, "internal4", "203.0.113.0/25", ""), add(plan.Egress, "internal4", "203.0.113.128/25", ""),
	add(plan.Egress, "internal4", "198.51.100.0/24", ""), add(plan.Egress, "internal4", "255.255.255.0/24", ""),
	add(plan.Egress, "internal6", "2001:db8:0:2::/64", ""), add(plan.Egress, "internal6", "::1/128", ""),
	add(plan.Egress, "everywhere4", "203.0.113.2", ""),
	add(plan.Egress, "vips4", "203.0.113.4", "203.0.113.4"), add(plan.Egress, "via4", "203.0.113.4", "1979711489"),
	add(plan.Egress, plan.Lists, full.Name(), full.String()), add(plan.Egress, plan.Lists, denied.Name(), denied.String()),
	add(plan.Egress, "narrowed4", "203.0.113.2", "jump "+full.Name()), add(plan.Egress, "narrowed6", "2001:db8:0:2:1::2", "jump "+denied.Name()),
	add(plan.Egress, "local4", "203.0.113.0/28", ""), add(plan.Egress, "known6", "2001:db8:0:2:1::9", ""),
}

// Lists with something in every rule, and with little.
var (
	full = plan.List{
		Denied:  networks("203.0.113.0/24", "2001:db8:0:2::/64"),
		Allowed: networks("0.0.0.0/0", "::/0"),
		Ports:   []schema.Port{{Protocol: schema.TCP, Port: 443}, {Protocol: schema.SCTP, Port: 65535}},
	}
	denied = plan.List{Denied: networks("2001:db8:0:9::/64", "2001:db8:0:8::/64")}
	other  = plan.List{Allowed: networks("198.51.100.9/32")}
)

func networks(texts ...string) (list []netip.Prefix) {
	for _, text := range texts {
		list = append(list, netip.MustParsePrefix(text))
	}
	return list
}

var firewall = []plan.Op{
	plan.AddTable{Kind: plan.Firewall},
	add(plan.Firewall, "guarded4", "198.51.100.200", ""), add(plan.Firewall, "guarded6", "2001:db8::200", ""),
	add(plan.Firewall, "open4", "198.51.100.200 . tcp . 80", ""), add(plan.Firewall, "open6", "2001:db8::200 . udp . 53", ""),
}

var balance = []plan.Op{
	plan.AddTable{Kind: plan.Balance},
	add(plan.Balance, "frontends4", "198.51.100.250 . 6443", ""), add(plan.Balance, "frontends6", "2001:db8::250 . 6443", ""),
	add(plan.Balance, "frontports4", "6443", ""), add(plan.Balance, "backends6", "2001:db8::11 . 6443", ""),
	add(plan.Balance, "slots4", "0", "198.51.100.11 . 6443"), add(plan.Balance, "slots6", "127", "2001:db8::11 . 6443"),
}

var wireguard = []plan.Op{
	plan.AddTable{Kind: plan.Wireguard},
	add(plan.Wireguard, "tunnels", "wg0", ""), add(plan.Wireguard, "tunnels", "a-name-of-15-by", ""),
	add(plan.Wireguard, "marks", "wg0", "117356"), add(plan.Wireguard, "marks", "a-name-of-15-by", "65792"),
	add(plan.Wireguard, "marked", "117356", ""), add(plan.Wireguard, "fenced", "51820", ""),
	add(plan.Wireguard, "reached4", "wg0 . 198.51.100.200", ""), add(plan.Wireguard, "reached6", "a-name-of-15-by . 2001:db8::200", ""),
	add(plan.Wireguard, "doors4", "198.51.100.200 . udp . 53", "default_dns_p53_udp"),
	add(plan.Wireguard, "doors6", "2001:db8::200 . sctp . 132", "default_gtp_p132_sctp"),
	add(plan.Wireguard, "targets4", "198.51.100.200 . udp . 53 . 63", "203.0.113.2 . 5353"),
	add(plan.Wireguard, "targets6", "2001:db8::200 . sctp . 132 . 0", "2001:db8:0:2::2 . 132"),
	add(plan.Wireguard, "kept4", "203.0.113.2 . udp . 5353", ""), add(plan.Wireguard, "kept6", "2001:db8:0:2::2 . sctp . 132", ""),
}

// door is the port of wireguard that has an id.
func door(id string) plan.Element {
	return plan.Element{Kind: plan.Wireguard, Set: "doors4", Key: "198.51.100.200 . udp . 53", Value: id}
}

// permit permits, prolongs, and permits what has ended.
func permit(t *testing.T, k kernel.Kernel) {
	ports := map[uint16]time.Duration{51820: 50 * time.Millisecond, 51821: time.Minute}
	if err := k.Permit(ports); err == nil {
		t.Error("no error without a table")
	}
	if err := k.Do(wireguard); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := k.Permit(ports); err != nil {
			t.Error(err)
		}
	}
	time.Sleep(200 * time.Millisecond)
	if err := k.Permit(ports); err != nil {
		t.Errorf("after one has ended: %v", err)
	}
	have, err := k.Observe()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(trim(plan.Apply(plan.Actual{}, wireguard...)), trim(have), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("the plan sees it (-model +kernel):\n%s", diff)
	}
}

func all(lists ...[]plan.Op) (ops []plan.Op) {
	for _, l := range lists {
		ops = append(ops, l...)
	}
	return ops
}

var cases = []struct {
	name    string
	batches [][]plan.Op
}{
	{"tables come whole and go whole", [][]plan.Op{
		all(egress, firewall, balance, wireguard),
		{plan.DelTable{Kind: plan.Egress}, plan.DelTable{Kind: plan.Balance}},
		{plan.DelTable{Kind: plan.Egress}, plan.DelTable{Kind: plan.Firewall}},
	}},
	{"an id of before makes room for the one that tells protocols apart", [][]plan.Op{
		all(wireguard, []plan.Op{plan.DelElement{Element: door("default_dns_p53_udp")}, plan.AddElement{Element: door("default_dns_p53")}}),
		{plan.DelElement{Element: door("default_dns_p53")}, plan.AddElement{Element: door("default_dns_p53_udp")}},
	}},
	{"a table that is there is made anew without elements", [][]plan.Op{egress, {plan.AddTable{Kind: plan.Egress}}}},
	{"adding again changes nothing", [][]plan.Op{egress, again(egress[1:])}},
	{"elements go and values change", [][]plan.Op{egress, {
		del("pods6", "2001:db8:0:2:1::2", ""),
		del("internal4", "203.0.113.0/25", ""), del("internal4", "255.255.255.0/24", ""),
		del("everywhere4", "203.0.113.2", ""),
		del("vips4", "203.0.113.2", "198.51.100.200"), add(plan.Egress, "vips4", "203.0.113.2", "198.51.100.201"),
	}}},
	{"a list makes room for another", [][]plan.Op{egress, {
		del("narrowed4", "203.0.113.2", "jump "+full.Name()), del(plan.Lists, full.Name(), full.String()),
		add(plan.Egress, plan.Lists, other.Name(), other.String()), add(plan.Egress, "narrowed4", "203.0.113.2", "jump "+other.Name()),
	}, {
		del("narrowed4", "203.0.113.2", "jump "+other.Name()), add(plan.Egress, "narrowed4", "203.0.113.2", "jump "+denied.Name()),
	}, {del("narrowed6", "2001:db8:0:2:1::2", "jump "+denied.Name()), del("narrowed4", "203.0.113.2", "jump "+denied.Name()),
		del(plan.Lists, denied.Name(), denied.String())}}},
	{"thousands of elements fit into one transaction", [][]plan.Op{many(3000)}},
}

// again leaves out lists, which nobody makes twice.
func again(ops []plan.Op) []plan.Op {
	return slices.DeleteFunc(slices.Clone(ops), func(op plan.Op) bool {
		a, ok := op.(plan.AddElement)
		return ok && a.Set == plan.Lists
	})
}

func many(n int) []plan.Op {
	ops := []plan.Op{plan.AddTable{Kind: plan.Egress}}
	for i := range n {
		ops = append(ops, add(plan.Egress, "vips6", fmt.Sprintf("2001:db8:0:2::%x", i+1), fmt.Sprintf("2001:db8::%x", i+1)))
	}
	return ops
}

func allOrNone(t *testing.T, k kernel.Kernel) {
	if err := k.Do(egress); err != nil {
		t.Fatal(err)
	}
	before, err := k.Observe()
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []plan.Op{
		del("pods4", "203.0.113.9", ""),
		del(plan.Lists, full.Name(), full.String()), // to which a pod jumps
		add(plan.Egress, "narrowed4", "203.0.113.9", "jump "+other.Name()),
		add(plan.Egress, "vips4", "203.0.113.2", "198.51.100.201"), // which has another value
		add(plan.Firewall, "guarded4", "198.51.100.1", ""),
	} {
		if err := k.Do([]plan.Op{add(plan.Egress, "pods4", "203.0.113.3", ""), bad}); err == nil {
			t.Errorf("no error for %q", bad)
		}
		after, err := k.Observe()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(trim(before), trim(after), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("after a transaction with %q (-before +after):\n%s", bad, diff)
		}
	}
	if err := k.Do([]plan.Op{add(plan.Egress, "pods4", "203.0.113.3", "")}); err != nil {
		t.Errorf("after an error: %v", err)
	}
}
