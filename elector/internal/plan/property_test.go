package plan

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/vipod/vipod/shared/schema"
)

// pick returns one of the items.
func pick[T any](r *rand.Rand, items ...T) T { return items[r.IntN(len(items))] }

// randomWorld returns a small cluster in which everything meets everything;
// texts are further values that its annotations may have.
func randomWorld(r *rand.Rand, texts ...string) Input {
	var services []*corev1.Service
	for i := range 1 + r.IntN(8) {
		services = append(services, randomService(r, i, texts))
	}
	in := world(services...)
	in.Config.ControlPlane.Enabled = r.IntN(2) == 0
	in.Config.ControlPlane.Addresses = addrs("198.51.100.9")
	in.Config.ServicesInterface = pick(r, "", "", "auto", "eth1")
	in.Config.Subnet.Auto = r.IntN(4) == 0
	for i := range in.Nodes {
		in.Nodes[i].Excluded = r.IntN(6) == 0
		in.Nodes[i].ControlPlane = r.IntN(3) == 0
	}
	for i := range in.Links {
		in.Links[i].Up = r.IntN(5) > 0
	}
	for _, s := range in.Slices {
		s.Endpoints = nil
		for range r.IntN(4) {
			s.Endpoints = append(s.Endpoints, point(pick(r, "n1", "n2", "n3", ""), r.IntN(2) == 0, r.IntN(2) == 0, r.IntN(2) == 0))
		}
	}
	return in
}

func randomService(r *rand.Rand, i int, texts []string) *corev1.Service {
	few := append([]string{"198.51.100.80", "198.51.100.81", "203.0.113.80", "2001:db8::80", "198.51.100.1", "198.51.100.9", "10.96.0.1"}, texts...)
	var asked []string
	for range 1 + r.IntN(3) {
		asked = append(asked, pick(r, few...))
	}
	s := svc(fmt.Sprintf("%s/%c%d", pick(r, "shop", "pub"), 'a'+rune(r.IntN(3)), i), ips(strings.Join(asked, ",")), onPort(int32(80+r.IntN(6))))
	if r.IntN(3) == 0 {
		local(s)
	} else if r.IntN(3) == 0 {
		note(annotationLease, pick(r, append(texts, "x", "shop/x", "pub/x")...))(s)
	}
	if r.IntN(3) == 0 {
		note(annotationInterface, pick(r, append(texts, "eth0", "eth1", "eth2", "eth9", "auto")...))(s)
	}
	s.Spec.ClusterIP = pick(r, append(texts, "10.96.0.1", "10.96.0.2", corev1.ClusterIPNone)...)
	s.Spec.LoadBalancerIP = pick(r, append(texts, "", "198.51.100.82")...)
	return s
}

func shuffled(r *rand.Rand, in Input) Input {
	in.Services, in.Slices = slices.Clone(in.Services), slices.Clone(in.Slices)
	in.Nodes, in.Links = slices.Clone(in.Nodes), slices.Clone(in.Links)
	r.Shuffle(len(in.Services), func(i, j int) { in.Services[i], in.Services[j] = in.Services[j], in.Services[i] })
	r.Shuffle(len(in.Slices), func(i, j int) { in.Slices[i], in.Slices[j] = in.Slices[j], in.Slices[i] })
	r.Shuffle(len(in.Nodes), func(i, j int) { in.Nodes[i], in.Nodes[j] = in.Nodes[j], in.Nodes[i] })
	r.Shuffle(len(in.Links), func(i, j int) { in.Links[i], in.Links[j] = in.Links[j], in.Links[i] })
	for i, s := range in.Slices {
		in.Slices[i] = s.DeepCopy()
		points := in.Slices[i].Endpoints
		r.Shuffle(len(points), func(i, j int) { points[i], points[j] = points[j], points[i] })
	}
	return in
}

// properties checks what must hold of every plan.
func properties(t *testing.T, r *rand.Rand, in Input) {
	t.Helper()
	before := fmt.Sprint(in.Services, in.Slices, in.Nodes, in.Links)
	out := Plan(in)
	if fmt.Sprint(in.Services, in.Slices, in.Nodes, in.Links) != before {
		t.Fatal("the input was changed")
	}
	if diff := cmp.Diff(out, Plan(shuffled(r, in)), compareAddr); diff != "" {
		t.Fatalf("the order of the input counts (-one +other)\n%s", diff)
	}
	owner := groupOf(t, out)
	members := make([]int, len(out.Groups))
	forbidden := newForbidden(in)
	for _, v := range out.VIPs {
		if v.Eligible != (v.Why == "") || v.Group == NoGroup && v.Eligible {
			t.Fatalf("%s contradicts itself", v.text())
		}
		if v.Group != NoGroup {
			members[v.Group]++
			if v.Eligible != out.Groups[v.Group].Eligible {
				t.Fatalf("%s differs from its group\n%s", v.text(), out.text())
			}
		}
		for _, a := range v.Addresses {
			if err := forbidden.check(a.IP); err != nil {
				t.Fatalf("%s has %s, which %v", v.Key, a.IP, err)
			}
			if g, ok := owner[a.IP]; v.Group != NoGroup && (!ok || g != v.Group) {
				t.Fatalf("%s is not in the group of its address %s\n%s", v.text(), a.IP, out.text())
			}
		}
		if v.Eligible {
			valid(t, v)
		}
	}
	if slices.Contains(members, 0) {
		t.Fatalf("a group without a member\n%s", out.text())
	}
	for _, refusal := range out.Refusals {
		if len(refusal.Message) > 1000 || strings.ContainsFunc(refusal.Message, func(c rune) bool { return c < ' ' }) {
			t.Fatalf("message %q", refusal.Message)
		}
	}
}

// groupOf returns the group of every address and checks that it has one only.
func groupOf(t *testing.T, out Output) map[netip.Addr]int {
	t.Helper()
	owner := map[netip.Addr]int{}
	for i, g := range out.Groups {
		if len(g.Addresses) == 0 || g.Candidates != nil && len(g.Candidates) == 0 {
			t.Fatalf("group %d has no addresses or no candidates\n%s", i, out.text())
		}
		for _, ip := range g.Addresses {
			if _, ok := owner[ip]; ok {
				t.Fatalf("%s is in two groups\n%s", ip, out.text())
			}
			owner[ip] = i
		}
	}
	return owner
}

// valid checks that the VIP's document would be accepted.
func valid(t *testing.T, v VIP) {
	t.Helper()
	doc := schema.VIP{Key: v.Key, UID: v.UID, Kind: v.Kind, State: schema.StateActive, Grant: schema.GrantNode, Addresses: v.Addresses}
	if err := doc.Validate(); err != nil {
		t.Fatalf("%s: %v", v.text(), err)
	}
}

func TestPropertiesOfRandomPlans(t *testing.T) {
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 1))
		properties(t, r, randomWorld(r))
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func FuzzPlan(f *testing.F) {
	for i, text := range []string{"", "198.51.100.80", "::ffff:198.51.100.80", "fe80::1%eth0", "a.example", "\x00", "shop/x", ",,,,",
		"eth0", "../..", strings.Repeat("9", 5000), "198.51.100.80,198.51.100.255", "2001:db8::80/64", "\xff\xfe", "1.2.3.4, 5.6.7.8"} {
		f.Add(uint64(i), text, "203.0.113.80")
	}
	f.Fuzz(func(t *testing.T, seed uint64, a, b string) {
		r := rand.New(rand.NewPCG(seed, 2))
		properties(t, r, randomWorld(r, a, b))
	})
}

// BenchmarkPlan is a pass over 5000 Services, of which every tenth has policy
// Local and every fifth shares its address, on a node with 100 links.
func BenchmarkPlan(b *testing.B) {
	var services []*corev1.Service
	for i := range 5000 {
		n := i / 5 * 5
		if i%5 > 1 {
			n = i
		}
		s := svc(fmt.Sprintf("shop/web%d", i), ips(fmt.Sprintf("10.200.%d.%d,2001:db8:2::%x", n/250, n%250+1, n+1)), onPort(int32(80+i%5)))
		s.Spec.ClusterIP = fmt.Sprintf("10.96.%d.%d", i/250, i%250+1)
		if i%10 == 0 {
			local(s)
		}
		services = append(services, s)
	}
	in := world(services...)
	for i := range 100 {
		in.Links = append(in.Links, schema.Link{Name: fmt.Sprintf("veth%d", i), Index: 10 + i, Up: true, Addresses: prefixes("fe80::1/64")})
	}
	var points []discoveryv1.Endpoint
	for range 10 {
		points = append(points, at("n1"), at("n2"), at("n3"))
	}
	for _, s := range in.Slices {
		s.Endpoints = points
	}
	b.ReportAllocs()
	for b.Loop() {
		if out := Plan(in); len(out.VIPs) != 5000 || len(out.Refusals) != 0 {
			b.Fatal(len(out.VIPs), out.Refusals[0])
		}
	}
}
