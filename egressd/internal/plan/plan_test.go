package plan_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/vipod/vipod/egressd/internal/plan"
)

var update = flag.Bool("update", false, "write the golden files anew")

// elements are the parts that worlds are made of, by table, set and key, each
// with the values that it may have.
var elements = []struct {
	kind   plan.Kind
	set    string
	key    string
	values []string
}{
	{plan.Egress, "pods4", "203.0.113.2", []string{""}}, {plan.Egress, "pods4", "203.0.113.3", []string{""}},
	{plan.Egress, "vips4", "203.0.113.2", []string{"198.51.100.200", "198.51.100.201"}},
	{plan.Egress, "held4", "203.0.113.3", []string{""}},
	{plan.Egress, plan.Lists, "list_a", []string{"ip daddr { 192.0.2.0/24 } accept"}}, {plan.Egress, plan.Lists, "list_b", []string{"meta nfproto ipv4 accept"}},
	{plan.Egress, "narrowed4", "203.0.113.2", []string{"jump list_a", "jump list_b"}},
	{plan.Egress, "narrowed6", "2001:db8:0:2::2", []string{"jump list_a"}},
	{plan.Egress, "local4", "203.0.113.0/28", []string{""}}, {plan.Egress, "known4", "203.0.113.4", []string{""}},
	{plan.Egress, "internal4", "203.0.113.0/25", []string{""}},
	{plan.Firewall, "guarded4", "198.51.100.200", []string{""}}, {plan.Firewall, "open4", "198.51.100.200 . tcp . 80", []string{""}},
	{plan.Balance, "slots4", "0", []string{"198.51.100.11 . 6443", "198.51.100.12 . 6443"}},
}

// source makes choices from bytes, so that the fuzzer can make them.
type source []byte

func (s *source) pick(n int) int {
	if len(*s) == 0 {
		return 0
	}
	b := (*s)[0]
	*s = (*s)[1:]
	return int(b) % n
}

func (s *source) tables() plan.Tables {
	all := plan.Tables{}
	for _, kind := range plan.Kinds {
		if s.pick(4) > 0 {
			all[kind] = plan.Table{}
		}
	}
	for _, e := range elements {
		if t, ok := all[e.kind]; ok && s.pick(2) == 1 {
			t.Put(e.set, e.key, e.values[s.pick(len(e.values))])
		}
	}
	return all
}

// world is a random kernel and a random wish.
func (s *source) world() (plan.Desired, plan.Actual) {
	d := plan.Desired{Tables: s.tables(), Sweep: s.pick(2) == 1, Known: map[string]bool{}}
	for _, owner := range []string{"203.0.113.2", "2001:db8:0:2::2", plan.OwnerCluster, plan.OwnerControlPlane, plan.OwnerGuard} {
		d.Known[owner] = s.pick(2) == 1
	}
	a := plan.Actual{Tables: s.tables(), Damaged: map[plan.Kind]bool{}}
	for _, kind := range plan.Kinds {
		if _, whole := a.Tables[kind]; !whole && s.pick(3) == 0 {
			a.Damaged[kind] = true
		}
	}
	return d, a
}

var same = []cmp.Option{cmpopts.EquateEmpty(), cmpopts.IgnoreMapEntries(func(_ string, e plan.Elements) bool { return len(e) == 0 })}

func check(t *testing.T, data []byte) {
	s := source(data)
	desired, actual := s.world()
	ops := plan.Plan(desired, actual)
	after := plan.Apply(actual, ops...)
	text := fmt.Sprintf("%v", ops)

	if again := plan.Plan(desired, after); len(again) > 0 {
		t.Fatalf("planning again gives %v after %s", again, text)
	}
	if diff := cmp.Diff(text, fmt.Sprintf("%v", plan.Plan(desired, actual))); diff != "" {
		t.Fatalf("two plans of one world:\n%s", diff)
	}
	for kind, want := range desired.Tables {
		for set, elements := range want {
			if strings.HasPrefix(set, plan.Internal) && !desired.Sweep && !desired.Known[plan.OwnerCluster] {
				continue // stays as it is
			}
			for key, value := range elements {
				if have, ok := after.Tables[kind][set][key]; !ok || have != value {
					t.Fatalf("%s %s lacks %s : %s after %s", kind, set, key, value, text)
				}
			}
		}
	}
	if desired.Sweep {
		if diff := cmp.Diff(desired.Tables, after.Tables, same...); diff != "" || len(after.Damaged) > 0 {
			t.Fatalf("on a complete picture there is something else (-want +have):\n%s", diff)
		}
	}
	made := map[string]bool{}
	for _, op := range ops {
		if made[op.String()] {
			t.Fatalf("%q twice", op)
		}
		made[op.String()] = true
		switch o := op.(type) {
		case plan.DelTable:
			if !desired.Sweep {
				t.Fatalf("%q on an incomplete picture", op)
			}
		case plan.AddTable:
			if _, whole := actual.Tables[o.Kind]; whole {
				t.Fatalf("%q although it is whole", op)
			}
		case plan.AddElement:
			if have, ok := actual.Tables[o.Kind][o.Set][o.Key]; ok && have == o.Value {
				t.Fatalf("%q is there already", op)
			}
		case plan.DelElement:
			value, wanted := desired.Tables[o.Kind][o.Set][o.Key]
			if wanted && value == o.Value || !wanted && !desired.Sweep && !known(desired, o.Element) {
				t.Fatalf("%q of one that nobody judged", op)
			}
		}
	}
}

// known says whether the documents about an element are known.
func known(d plan.Desired, e plan.Element) bool {
	switch {
	case e.Kind == plan.Balance:
		return d.Known[plan.OwnerControlPlane]
	case strings.HasPrefix(e.Set, plan.Internal):
		return d.Known[plan.OwnerCluster]
	case e.Guards():
		return d.Known[plan.OwnerGuard]
	}
	return e.Kind == plan.Egress && d.Known[e.Pod()]
}

func FuzzPlan(f *testing.F) {
	for i := range 64 {
		seed := make([]byte, 48)
		for j := range seed {
			seed[j] = byte(i*31 + j*(i+7))
		}
		f.Add(seed)
	}
	f.Fuzz(check)
}

func table(list ...string) plan.Table {
	t := plan.Table{}
	for _, text := range list {
		set, rest, _ := strings.Cut(text, " ")
		key, value, _ := strings.Cut(rest, " : ")
		t.Put(set, key, value)
	}
	return t
}

var served = table("pods4 203.0.113.2", "vips4 203.0.113.2 : 198.51.100.200", "internal4 203.0.113.0/25")

func TestPlansPrintAsGolden(t *testing.T) {
	for _, c := range []struct {
		name    string
		desired plan.Desired
		actual  plan.Actual
	}{
		{"first pod on a bare node", plan.Desired{Sweep: true, Tables: plan.Tables{plan.Egress: served}}, plan.Actual{}},
		{"pod is replaced", plan.Desired{Sweep: true, Tables: plan.Tables{plan.Egress: table("pods4 203.0.113.3", "vips4 203.0.113.3 : 198.51.100.200", "internal4 203.0.113.0/25")}},
			plan.Actual{Tables: plan.Tables{plan.Egress: served}}},
		{"VIP leaves", plan.Desired{Sweep: true, Tables: plan.Tables{plan.Egress: table("pods4 203.0.113.2", "held4 203.0.113.2", "internal4 203.0.113.0/25")}},
			plan.Actual{Tables: plan.Tables{plan.Egress: served}}},
		{"VIP leaves on an incomplete picture", plan.Desired{Known: map[string]bool{"203.0.113.2": true},
			Tables: plan.Tables{plan.Egress: table("pods4 203.0.113.2", "held4 203.0.113.2")}},
			plan.Actual{Tables: plan.Tables{plan.Egress: served}}},
		{"damaged table", plan.Desired{Sweep: true, Tables: plan.Tables{plan.Egress: served}}, plan.Actual{Damaged: map[plan.Kind]bool{plan.Egress: true}}},
		{"last Service goes", plan.Desired{Sweep: true}, plan.Actual{Tables: plan.Tables{plan.Egress: served, plan.Firewall: {}}}},
		{"backend goes", plan.Desired{Sweep: true, Tables: plan.Tables{plan.Balance: table("frontends4 198.51.100.250 . 6443", "slots4 0 : 198.51.100.11 . 6443")}},
			plan.Actual{Tables: plan.Tables{plan.Balance: table("frontends4 198.51.100.250 . 6443", "slots4 0 : 198.51.100.12 . 6443")}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var lines strings.Builder
			for _, op := range plan.Plan(c.desired, c.actual) {
				fmt.Fprintln(&lines, op)
			}
			file := filepath.Join("testdata", strings.ReplaceAll(c.name, " ", "-")+".txt")
			if *update {
				if err := os.WriteFile(file, []byte(lines.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), lines.String()); diff != "" {
				t.Errorf("(-golden +now):\n%s", diff)
			}
		})
	}
}

func TestTableNamesFitAndDiffer(t *testing.T) {
	long := strings.Repeat("x", 242)
	seen := map[string]bool{}
	for _, kind := range plan.Kinds {
		for _, instance := range []string{"", "blue", long + "a", long + "b"} {
			name := kind.TableName(instance)
			if len(name) > 255 || seen[name] {
				t.Errorf("table of %s for %.10s: %q, %d bytes, seen: %t", kind, instance, name, len(name), seen[name])
			}
			seen[name] = true
		}
	}
}
