package kerneltest

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/vipod/vipod/linkd/internal/kernel"
	"github.com/vipod/vipod/linkd/internal/plan"
)

// Parent is the link that every kernel under test has, up and with an MTU of
// 1400.
const Parent = "v0"

// Run holds a kernel to what the plan's model says of links of the kinds.
func Run(t *testing.T, kinds []string, open func(t *testing.T) kernel.Kernel) {
	for _, kind := range kinds {
		for _, c := range cases(kind) {
			t.Run(kind+": "+c.name, func(t *testing.T) {
				k := open(t)
				for _, step := range c.steps {
					before := observe(t, k)
					op := step(before)
					if err := k.Do(op); err != nil {
						t.Fatal(err)
					}
					want := comparable(plan.Apply(before, op))
					if diff := gocmp.Diff(want, comparable(observe(t, k))); diff != "" {
						t.Errorf("after %q (-model +kernel):\n%s", op, diff)
					}
				}
			})
		}
		t.Run(kind+": an attempt that fails leaves nothing", func(t *testing.T) { rollBack(t, kind, open(t)) })
		t.Run(kind+": what a process left half made is in nobody's way", func(t *testing.T) { leftover(t, kind, open(t)) })
	}
}

func observe(t *testing.T, k kernel.Kernel) plan.Actual {
	t.Helper()
	s, err := k.Observe()
	if err != nil {
		t.Fatal(err)
	}
	return s.Actual
}

// comparable replaces indices by names: the model's are not the kernel's.
func comparable(a plan.Actual) map[string]string {
	names := map[int]string{}
	for _, l := range a.Links {
		names[l.Index] = l.Name
	}
	out := map[string]string{}
	for _, l := range a.Links {
		parent := names[l.ParentIndex]
		if l.Kind != plan.VLAN && l.Kind != plan.Macvlan {
			continue // nothing that an operation touches
		}
		l.Index, l.ParentIndex = 0, 0
		out[l.Name] = fmt.Sprintf("on %s: %+v", parent, l)
	}
	return out
}

// step makes an operation of what is in the kernel.
type step func(plan.Actual) plan.Op

type testCase struct {
	name  string
	steps []step
}

const name = "t0"

// Add returns the operation that makes a link of the kind.
func Add(kind string, change func(*plan.Want)) plan.Add {
	w := plan.Want{Name: name, Kind: kind, Parent: Parent, Users: []string{"a.b"}}
	if kind == plan.VLAN {
		w.VLAN = 200
	} else {
		w.MAC = "02:00:00:00:00:09"
	}
	if change != nil {
		change(&w)
	}
	return plan.Add{Want: w, Alias: plan.Alias("", w.Users[0]), Temp: plan.TempName("", w.Name)}
}

func cases(kind string) []testCase {
	add := func(plan.Actual) plan.Op { return Add(kind, nil) }
	index := func(a plan.Actual) int {
		i := slices.IndexFunc(a.Links, func(l plan.Link) bool { return l.Name == name })
		return a.Links[i].Index
	}
	list := []testCase{
		{"made and removed", []step{add, func(a plan.Actual) plan.Op { return plan.Delete{Name: name, Index: index(a)} }}},
		{"made down, set up and down", []step{
			func(plan.Actual) plan.Op { return Add(kind, func(w *plan.Want) { w.Down = true }) },
			func(a plan.Actual) plan.Op { return plan.SetAdmin{Name: name, Index: index(a), Up: true} },
			func(a plan.Actual) plan.Op { return plan.SetAdmin{Name: name, Index: index(a)} },
		}},
		{"handed over", []step{add, func(a plan.Actual) plan.Op {
			return plan.HandOver{Name: name, Index: index(a), Alias: plan.Alias("blue", "c.d")}
		}}},
		{"MTU", []step{add, func(a plan.Actual) plan.Op { return plan.SetMTU{Name: name, Index: index(a), MTU: 1300} }}},
		{"replaced", []step{add, func(a plan.Actual) plan.Op {
			o := Add(kind, nil)
			o.Replaces = index(a)
			return o
		}}},
		{"removed twice is no error", []step{add,
			func(a plan.Actual) plan.Op { return plan.Delete{Name: name, Index: index(a)} },
			func(plan.Actual) plan.Op { return plan.Delete{Name: name, Index: 1 << 20} }}},
		{"two side by side", []step{add, func(plan.Actual) plan.Op {
			return Add(kind, func(w *plan.Want) {
				w.Name = "t1"
				w.VLAN *= 2
				if w.MAC != "" {
					w.MAC = "02:00:00:00:00:0a"
				}
			})
		}}},
	}
	if kind == plan.Macvlan {
		list = append(list,
			testCase{"hardware address", []step{add, func(a plan.Actual) plan.Op {
				return plan.SetMAC{Name: name, Index: index(a), MAC: "02:00:00:00:00:0b"}
			}}},
			testCase{"made with rp_filter, and changed", []step{
				func(plan.Actual) plan.Op { return Add(kind, func(w *plan.Want) { w.RPFilter = 2 }) },
				func(a plan.Actual) plan.Op {
					return plan.SetConf{Name: name, Index: index(a), Conf: plan.Conf{RPFilter: 1, ARPIgnore: 2, ARPAnnounce: 1}}
				},
			}})
	}
	return list
}

// rollBack makes a link whose name is taken, which the kernel finds out last.
func rollBack(t *testing.T, kind string, k kernel.Kernel) {
	before := comparable(observe(t, k))
	for what, op := range map[string]plan.Add{
		"a taken name": Add(kind, func(w *plan.Want) { w.Name = Parent }),
		"no parent":    Add(kind, func(w *plan.Want) { w.Parent = "none" }),
	} {
		op.Temp = plan.TempName("", name)
		if err := k.Do(op); err == nil {
			t.Errorf("%s: no error", what)
		}
		if diff := gocmp.Diff(before, comparable(observe(t, k))); diff != "" {
			t.Errorf("%s (-before +after):\n%s", what, diff)
		}
	}
}

// leftover makes a link where a link of its temporary name is left.
func leftover(t *testing.T, kind string, k kernel.Kernel) {
	left := Add(kind, func(w *plan.Want) { w.Name, w.Down = plan.TempName("", name), true })
	left.Temp = "t9"
	if err := k.Do(left); err != nil {
		t.Fatal(err)
	}
	if err := k.Do(Add(kind, nil)); err != nil {
		t.Fatal(err)
	}
	var links []string
	for _, l := range observe(t, k).Links {
		if l.Kind == kind {
			links = append(links, cmp.Or(l.Name))
		}
	}
	if !slices.Equal(links, []string{name}) {
		t.Errorf("links %q", links)
	}
}
