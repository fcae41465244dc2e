package plan

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Links of a node that are not ours.
var (
	eth0   = Link{Name: "eth0", Index: 2, MTU: 1500, MAC: "02:00:00:00:00:02", Admin: true}
	eth1   = Link{Name: "eth1", Index: 3, MTU: 9000, MAC: "02:00:00:00:00:03", Admin: true}
	bridge = Link{Name: "cni0", Index: 4, Kind: "bridge", MTU: 1500, Admin: true}
)

func vlan(users ...string) Want {
	return Want{Name: "eth0.200", Kind: VLAN, Parent: "eth0", VLAN: 200, Users: users}
}

func macvlan(users ...string) Want {
	return Want{Name: "vip-1", Kind: Macvlan, Parent: "eth0", MAC: "02:00:00:00:00:09", Users: users}
}

// made is what a want becomes on top of eth0, with an owner.
func made(w Want, index int, owner string) Link {
	l := Link{Name: w.Name, Index: index, Kind: w.Kind, ParentIndex: 2, MTU: 1500, Alias: Alias("", owner), Admin: !w.Down}
	if w.Kind == VLAN {
		l.VLAN, l.VLANProtocol, l.MAC = w.VLAN, protocol8021Q, eth0.MAC
	} else {
		l.MacvlanMode, l.MAC, l.Conf = modeBridge, w.MAC, w.Conf()
	}
	return l
}

func with(l Link, change func(*Link)) Link {
	change(&l)
	return l
}

func text(ops []Op) string {
	var b strings.Builder
	for _, op := range ops {
		fmt.Fprintln(&b, op)
	}
	return b.String()
}

func TestPlan(t *testing.T) {
	foreign := func(l Link) Link { l.Alias = ""; return l }
	down := macvlan("a.b")
	down.Down = true
	on := macvlan("a.b")
	on.Parent = "eth0.200"
	for _, test := range []struct {
		name    string
		desired Desired
		actual  []Link
		ops     string
		why     map[string]Refusal
	}{
		{"a VLAN is made", Desired{Wants: []Want{vlan("a.b")}}, []Link{eth0},
			"ip link add link eth0 name eth0.200 type vlan id 200 && ip link set eth0.200 alias vipod::a.b up\n",
			map[string]Refusal{"eth0.200": KernelError}},
		{"a macvlan is made", Desired{Instance: "blue", Wants: []Want{macvlan("a.b")}}, []Link{eth0},
			"ip link add link eth0 name vip-1 address 02:00:00:00:00:09 type macvlan mode bridge && ip link set vip-1 alias vipod:blue:a.b up\n",
			map[string]Refusal{"vip-1": KernelError}},
		{"one that shall carry nothing is made down", Desired{Wants: []Want{down}}, []Link{eth0},
			"ip link add link eth0 name vip-1 address 02:00:00:00:00:09 type macvlan mode bridge && ip link set vip-1 alias vipod::a.b\n",
			map[string]Refusal{"vip-1": KernelError}},
		{"and set down", Desired{Wants: []Want{down}}, []Link{eth0, made(macvlan(), 7, "a.b")},
			"ip link set vip-1 down\n", map[string]Refusal{"vip-1": HeldDown}},
		{"a parent comes before what is on it", Desired{Wants: []Want{on, vlan("a.b")}}, []Link{eth0},
			"ip link add link eth0 name eth0.200 type vlan id 200 && ip link set eth0.200 alias vipod::a.b up\n" +
				"ip link add link eth0.200 name vip-1 address 02:00:00:00:00:09 type macvlan mode bridge && ip link set vip-1 alias vipod::a.b up\n",
			map[string]Refusal{"eth0.200": KernelError, "vip-1": ParentMissing}},
		{"without a parent nothing is made", Desired{Wants: []Want{vlan("a.b")}}, []Link{eth1}, "",
			map[string]Refusal{"eth0.200": ParentMissing}},
		{"what is as it shall be stays", Desired{Sweep: true, Wants: []Want{vlan("a.b")}}, []Link{eth0, made(vlan(), 7, "a.b")}, "",
			map[string]Refusal{"eth0.200": ""}},
		{"owned and not used any more goes", Desired{Sweep: true}, []Link{eth0, made(vlan(), 7, "a.b")}, "ip link delete eth0.200\n", nil},
		{"not before the picture is complete", Desired{}, []Link{eth0, made(vlan(), 7, "a.b")}, "", nil},
		{"unless a withdrawn document names it", Desired{Gone: []string{"eth0.200"}}, []Link{eth0, made(vlan(), 7, "a.b")}, "ip link delete eth0.200\n", nil},
		{"adopted and not used any more stays", Desired{Sweep: true, Gone: []string{"eth0.200"}}, []Link{eth0, foreign(made(vlan(), 7, ""))}, "", nil},
		{"adopted is used as it is", Desired{Sweep: true, Wants: []Want{macvlan("a.b")}},
			[]Link{eth0, with(foreign(made(macvlan(), 7, "")), func(l *Link) { l.MAC, l.MTU, l.Conf = "02:00:00:00:00:aa", 1400, Conf{RPFilter: 2} })}, "",
			map[string]Refusal{"vip-1": ""}},
		{"and not set up", Desired{Wants: []Want{vlan("a.b")}}, []Link{eth0, with(foreign(made(vlan(), 7, "")), func(l *Link) { l.Admin = false })}, "",
			map[string]Refusal{"eth0.200": LinkDown}},
		{"owned, and its owner went: it is handed over", Desired{Sweep: true, Wants: []Want{vlan("c.d", "e.f")}}, []Link{eth0, made(vlan(), 7, "a.b")},
			"ip link set eth0.200 alias vipod::c.d\n", map[string]Refusal{"eth0.200": ""}},
		{"another vipod's is adopted", Desired{Instance: "green", Sweep: true, Wants: []Want{vlan("c.d")}}, []Link{eth0, made(vlan(), 7, "a.b")}, "",
			map[string]Refusal{"eth0.200": ""}},
		{"a bridge is refused", Desired{Sweep: true, Wants: []Want{{Name: "cni0", Kind: Macvlan, Parent: "eth0", Users: []string{"a.b"}}}}, []Link{eth0, bridge}, "",
			map[string]Refusal{"cni0": WrongLink}},
		{"the uplink is refused", Desired{Sweep: true, Wants: []Want{{Name: "eth0", Kind: Macvlan, Parent: "eth1", Users: []string{"a.b"}}}}, []Link{eth0, eth1}, "",
			map[string]Refusal{"eth0": WrongLink}},
		{"another VLAN's id is refused", Desired{Wants: []Want{vlan("a.b")}}, []Link{eth0, with(foreign(made(vlan(), 7, "")), func(l *Link) { l.VLAN = 201 })}, "",
			map[string]Refusal{"eth0.200": WrongLink}},
		{"another protocol is refused", Desired{Wants: []Want{vlan("a.b")}}, []Link{eth0, with(foreign(made(vlan(), 7, "")), func(l *Link) { l.VLANProtocol = 0x88a8 })}, "",
			map[string]Refusal{"eth0.200": WrongLink}},
		{"another parent is refused", Desired{Wants: []Want{vlan("a.b")}}, []Link{eth0, eth1, with(foreign(made(vlan(), 7, "")), func(l *Link) { l.ParentIndex = 3 })}, "",
			map[string]Refusal{"eth0.200": WrongLink}},
		{"another mode is refused", Desired{Wants: []Want{macvlan("a.b")}}, []Link{eth0, with(foreign(made(macvlan(), 7, "")), func(l *Link) { l.MacvlanMode = 1 })}, "",
			map[string]Refusal{"vip-1": WrongLink}},
		{"ours on another parent is made anew", Desired{Wants: []Want{macvlan("a.b")}}, []Link{eth0, eth1, with(made(macvlan(), 7, "a.b"), func(l *Link) { l.ParentIndex = 3 })},
			"ip link delete vip-1 && ip link add link eth0 name vip-1 address 02:00:00:00:00:09 type macvlan mode bridge && ip link set vip-1 alias vipod::a.b up\n",
			map[string]Refusal{"vip-1": KernelError}},
		{"ours is set right", Desired{Wants: []Want{macvlan("a.b")}},
			[]Link{eth0, with(made(macvlan(), 7, "a.b"), func(l *Link) {
				l.MAC, l.MTU, l.Conf, l.Admin = "02:00:00:00:00:aa", 1400, Conf{RPFilter: 2, ARPIgnore: 1}, false
			})},
			"ip link set vip-1 address 02:00:00:00:00:09\nsysctl net.ipv4.conf.vip-1.rp_filter=0 net.ipv4.conf.vip-1.arp_ignore=1 net.ipv4.conf.vip-1.arp_announce=2\nip link set vip-1 mtu 1500\nip link set vip-1 up\n",
			map[string]Refusal{"vip-1": KernelError}},
		{"what was left half made goes", Desired{Sweep: true}, []Link{eth0, {Name: TempName("", "vip-1"), Index: 7, Kind: Macvlan, ParentIndex: 2}},
			"ip link delete " + TempName("", "vip-1") + "\n", nil},
		{"another vipod's half made stays", Desired{Sweep: true}, []Link{eth0, {Name: TempName("blue", "vip-1"), Index: 7, Kind: Macvlan, ParentIndex: 2}}, "", nil},
		{"what is on top goes first", Desired{Sweep: true}, []Link{eth0, made(vlan(), 7, "a.b"), with(made(macvlan(), 8, "a.b"), func(l *Link) { l.ParentIndex = 7 })},
			"ip link delete vip-1\nip link delete eth0.200\n", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			actual := Actual{Links: test.actual}
			if diff := cmp.Diff(test.ops, text(Plan(test.desired, actual))); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
			why := map[string]Refusal{}
			for name, v := range Judge(test.desired, actual) {
				why[name] = v.Why
			}
			if test.why == nil {
				test.why = map[string]Refusal{}
			}
			if diff := cmp.Diff(test.why, why); diff != "" {
				t.Errorf("reasons (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAliasFitsIntoTheKernel(t *testing.T) {
	long := strings.Repeat("k", 200)
	for _, instance := range []string{"", "blue", strings.Repeat("i", 243)} {
		a := Alias(instance, long)
		if len(a) > maxAlias {
			t.Errorf("%d bytes", len(a))
		}
		if len(instance) < 200 && (!ours(instance, a) || ours(instance+"x", a) || a == Alias(instance, long+"1")) {
			t.Errorf("alias %q", a)
		}
	}
	if n := len(TempName("blue", "eth0.200")); n > 15 {
		t.Errorf("temporary name has %d bytes", n)
	}
}

// random returns a situation of few names, so that things meet.
func random(r *rand.Rand) (Desired, Actual) {
	a := Actual{Links: []Link{eth0, eth1, bridge}}
	names := []string{"eth0.200", "eth0.201", "vip-1", "vip-2", "cni0", "eth1", TempName("", "vip-1")}
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	for i := range r.IntN(5) {
		l := Link{
			Name: pick(names...), Index: 10 + i, Kind: pick(VLAN, Macvlan, "bridge"), ParentIndex: 2 + r.IntN(2), VLAN: 200 + r.IntN(2),
			VLANProtocol: protocol8021Q, MacvlanMode: modeBridge, MAC: pick("02:00:00:00:00:09", "02:00:00:00:00:0a"), MTU: 1500,
			Alias: pick("", "", "text", Alias("", "a.a"), Alias("", "b.b"), Alias("blue", "a.a")), Admin: r.IntN(2) == 0, Conf: Conf{r.IntN(2), r.IntN(2), r.IntN(3)},
		}
		if !slices.ContainsFunc(a.Links, func(o Link) bool { return o.Name == l.Name }) {
			a.Links = append(a.Links, l)
		}
	}
	d := Desired{Sweep: r.IntN(2) == 0}
	for range r.IntN(4) {
		w := Want{Name: pick(names[:6]...), Kind: pick(VLAN, Macvlan), Parent: pick("eth0", "eth0", "eth1", "none", "eth0.200"), VLAN: 200 + r.IntN(2),
			Down: r.IntN(3) == 0, Users: []string{pick("a.a", "b.b", "c.c")}}
		if w.Kind == Macvlan {
			w.MAC, w.RPFilter = pick("", "02:00:00:00:00:09"), r.IntN(2)
		}
		if w.Parent != w.Name {
			d.Wants = append(d.Wants, w)
		}
	}
	if r.IntN(3) == 0 {
		d.Gone = append(d.Gone, pick(names...))
	}
	return d, a
}

// check holds a plan against what every plan keeps.
func check(t *testing.T, d Desired, a Actual) {
	t.Helper()
	ops := Plan(d, a)
	after := Apply(a, ops...)
	if again := Plan(d, after); len(again) > 0 {
		t.Fatalf("no fixed point: first\n%sthen\n%s", text(ops), text(again))
	}
	for _, l := range a.Links {
		if !d.owned(l) && !slices.Contains(after.Links, l) && !onOurs(d, a, l) {
			t.Fatalf("link %+v is not ours and was changed by\n%s", l, text(ops))
		}
	}
	for name, v := range Judge(d, after) {
		if v.Why == KernelError {
			t.Fatalf("%s did not come about by\n%s", name, text(ops))
		}
	}
	for n := range ops {
		part := Apply(a, ops[:n]...)
		if got, want := sortedLinks(Apply(part, Plan(d, part)...)), sortedLinks(after); !cmp.Equal(got, want) {
			t.Fatalf("stopped after %d of\n%sand planned again: %s", n, text(ops), cmp.Diff(want, got))
		}
	}
	slices.Reverse(a.Links)
	wants := slices.Clone(d.Wants)
	if got := text(Plan(Desired{d.Instance, d.Sweep, wants, d.Gone}, a)); got != text(ops) {
		t.Fatalf("another order of links, another plan:\n%s\n%s", text(ops), got)
	}
}

// onOurs says whether a foreign link is on top of one of ours, with which the
// kernel removes it.
func onOurs(d Desired, a Actual, l Link) bool {
	return slices.ContainsFunc(a.Links, func(p Link) bool { return p.Index == l.ParentIndex && d.owned(p) })
}

// sortedLinks leaves out indices, which depend on how often a link was made.
func sortedLinks(a Actual) []string {
	var list []string
	for _, l := range a.Links {
		l.Index, l.ParentIndex = 0, 0
		list = append(list, fmt.Sprintf("%+v", l))
	}
	slices.Sort(list)
	return list
}

func TestEveryPlanConvergesAndTouchesNothingForeign(t *testing.T) {
	for seed := range uint64(4000) {
		d, a := random(rand.New(rand.NewPCG(seed, 1)))
		check(t, d, a)
	}
}

func FuzzPlan(f *testing.F) {
	f.Add(uint64(1), uint64(2))
	f.Fuzz(func(t *testing.T, a, b uint64) {
		d, actual := random(rand.New(rand.NewPCG(a, b)))
		check(t, d, actual)
	})
}
