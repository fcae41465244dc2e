package desired_test

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/vipod/vipod/egressd/internal/desired"
	"github.com/vipod/vipod/egressd/internal/plan"
	"github.com/vipod/vipod/shared/schema"
)

func addrs(list ...string) (out []netip.Addr) {
	for _, s := range list {
		out = append(out, netip.MustParseAddr(s))
	}
	return out
}

func nets(list ...string) (out []netip.Prefix) {
	for _, s := range list {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}

func vip(key string, state schema.State, ips ...string) schema.VIP {
	v := schema.VIP{Key: key, Kind: schema.KindService, State: state, Grant: schema.GrantNode}
	for _, ip := range addrs(ips...) {
		v.Addresses = append(v.Addresses, schema.Address{IP: ip, PrefixLength: ip.BitLen(), Interface: "eth0"})
	}
	return v
}

// world is a node that owns default.web.
func world(changes ...func(*desired.Input)) desired.Input {
	in := desired.Input{
		Internal: nets("203.0.113.0/28", "203.0.113.0/25", "2001:db8:0:2::/64", "203.0.113.16/28"),
		VIPs:     map[string]schema.VIP{"default.web": vip("default.web", schema.StateActive, "198.51.100.200", "2001:db8::200")},
		Egress: map[string]schema.Egress{
			"default.web": {Key: "default.web", Pods: addrs("203.0.113.2", "2001:db8:0:2::2")},
			"other.web":   {Key: "other.web", Pods: addrs("203.0.113.3")},
		},
		Held: map[schema.GrantName]bool{schema.GrantNode: true}, Complete: true,
	}
	for _, change := range changes {
		change(&in)
	}
	return in
}

// listName is what tests leave out of a list's name.
var listName = regexp.MustCompile("list_[0-9a-f]+")

// text prints tables, one element a line.
func text(tables plan.Tables) string {
	var lines []string
	for _, op := range plan.Plan(plan.Desired{Tables: tables, Sweep: true}, plan.Actual{}) {
		lines = append(lines, listName.ReplaceAllString(strings.NewReplacer("nft add ", "", "element inet vipod_", "", "table inet vipod_", "table ").Replace(op.String()), "LIST"))
	}
	return strings.Join(lines, "\n")
}

func expect(t *testing.T, in desired.Input, want string) {
	t.Helper()
	var lines []string
	for line := range strings.Lines(want) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	if diff := cmp.Diff(strings.Join(lines, "\n"), text(desired.Of(in).Tables)); diff != "" {
		t.Errorf("(-want +have):\n%s", diff)
	}
}

const internal = `
	table egress
	egress internal4 { 203.0.113.0/25 }
	egress internal6 { 2001:db8:0:2::/64 }
	`

func change(e func(*schema.Egress)) func(*desired.Input) {
	return func(in *desired.Input) {
		doc := in.Egress["default.web"]
		e(&doc)
		in.Egress = map[string]schema.Egress{"default.web": doc}
	}
}

func TestEgressTables(t *testing.T) {
	expect(t, world(), `
		table egress
		egress held4 { 203.0.113.3 }
		egress internal4 { 203.0.113.0/25 }
		egress internal6 { 2001:db8:0:2::/64 }
		egress pods4 { 203.0.113.2 }
		egress pods4 { 203.0.113.3 }
		egress pods6 { 2001:db8:0:2::2 }
		egress vips4 { 203.0.113.2 : 198.51.100.200 }
		egress vips6 { 2001:db8:0:2::2 : 2001:db8::200 }`)
	held := strings.Replace(internal, "table egress", "table egress\negress held4 { 203.0.113.2 }\negress held6 { 2001:db8:0:2::2 }", 1) + `
		egress pods4 { 203.0.113.2 }
		egress pods6 { 2001:db8:0:2::2 }`
	for name, in := range map[string]desired.Input{
		"no grant": world(change(func(*schema.Egress) {}), func(in *desired.Input) { in.Held = nil }),
		"standby": world(change(func(*schema.Egress) {}), func(in *desired.Input) {
			in.VIPs["default.web"] = vip("default.web", schema.StateStandby, "198.51.100.200", "2001:db8::200")
		}),
		"draining": world(change(func(*schema.Egress) {}), func(in *desired.Input) {
			in.VIPs["default.web"] = vip("default.web", schema.StateDraining, "198.51.100.200", "2001:db8::200")
		}),
		"no VIP":  world(change(func(*schema.Egress) {}), func(in *desired.Input) { in.VIPs = nil }),
		"refused": world(change(func(e *schema.Egress) { e.Hold = "no" })),
	} {
		t.Run(name, func(t *testing.T) { expect(t, in, held) })
	}
	expect(t, world(change(func(e *schema.Egress) {
		e.Pods = addrs("203.0.113.2")
		e.Denied, e.Allowed = nets("192.0.2.0/24", "192.0.2.0/25", "2001:db8:9::/48"), nets("0.0.0.0/0")
		e.Ports, e.Internal = []schema.Port{{Protocol: schema.UDP, Port: 53}}, true
	})), `
		table egress
		egress everywhere4 { 203.0.113.2 }
		egress internal4 { 203.0.113.0/25 }
		egress internal6 { 2001:db8:0:2::/64 }
		chain inet vipod_egress LIST { ip daddr { 192.0.2.0/24 } accept; ip daddr != { 0.0.0.0/0 } accept; ip6 daddr { 2001:db8:9::/48 } accept; meta nfproto ipv6 accept; meta l4proto . th dport != { udp . 53 } accept; }
		egress narrowed4 { 203.0.113.2 : jump LIST }
		egress pods4 { 203.0.113.2 }
		egress vips4 { 203.0.113.2 : 198.51.100.200 }`)
	expect(t, world(change(func(e *schema.Egress) { e.IPv6Only = true })), internal+`
		egress pods6 { 2001:db8:0:2::2 }
		egress vips6 { 2001:db8:0:2::2 : 2001:db8::200 }`)
	expect(t, world(func(in *desired.Input) { in.Egress = nil }), "")
}

func TestPodsThatAreNotKnownAreHeldBack(t *testing.T) {
	guard := schema.Egress{Key: schema.EgressGuardKey, Guard: &schema.Guard{
		Networks: nets("203.0.113.0/28"), Known: addrs("203.0.113.9", "203.0.113.2"),
	}}
	in := world(change(func(*schema.Egress) {}))
	in.Egress[guard.Key] = guard
	expect(t, in, `
		table egress
		egress internal4 { 203.0.113.0/25 }
		egress internal6 { 2001:db8:0:2::/64 }
		egress known4 { 203.0.113.9 }
		egress local4 { 203.0.113.0/28 }
		egress pods4 { 203.0.113.2 }
		egress pods6 { 2001:db8:0:2::2 }
		egress vips4 { 203.0.113.2 : 198.51.100.200 }
		egress vips6 { 2001:db8:0:2::2 : 2001:db8::200 }`)
	in.Egress = map[string]schema.Egress{guard.Key: guard}
	expect(t, in, internal+`
		egress known4 { 203.0.113.2 }
		egress known4 { 203.0.113.9 }
		egress local4 { 203.0.113.0/28 }`)
	if w := desired.Of(in); len(w.Services) > 0 || !w.Known[plan.OwnerGuard] {
		t.Errorf("services %v, known %v", w.Services, w.Known)
	}
}

func TestPodsLeaveThroughTheNodeThatOwnsTheVIP(t *testing.T) {
	across := change(func(e *schema.Egress) {
		e.Elsewhere, e.Gateways = addrs("203.0.113.18"), addrs("198.51.100.2", "2001:db8::2")
	})
	away := func(in *desired.Input) { in.VIPs = nil }
	ways := func(in *desired.Input) { in.Ways = map[netip.Addr]uint32{addrs("198.51.100.2")[0]: 7} }
	expect(t, world(across, away, ways), `
		table egress
		egress held6 { 2001:db8:0:2::2 }
		egress internal4 { 203.0.113.0/25 }
		egress internal6 { 2001:db8:0:2::/64 }
		egress pods4 { 203.0.113.2 }
		egress pods6 { 2001:db8:0:2::2 }
		egress via4 { 203.0.113.2 : 7 }
		egress vips4 { 203.0.113.2 : 203.0.113.2 }`)
	expect(t, world(across, ways), internal+`
		egress pods4 { 203.0.113.18 }
		egress pods4 { 203.0.113.2 }
		egress pods6 { 2001:db8:0:2::2 }
		egress vips4 { 203.0.113.18 : 198.51.100.200 }
		egress vips4 { 203.0.113.2 : 198.51.100.200 }
		egress vips6 { 2001:db8:0:2::2 : 2001:db8::200 }`)
	w := desired.Of(world(across, away, ways))
	if got := w.Services["default.web"].Forwarded(); !slices.Equal(got, addrs("198.51.100.2")) {
		t.Errorf("through %v", got)
	}
	inside := plan.Flow{Protocol: schema.TCP, Source: netip.MustParseAddrPort("203.0.113.2:4000"), Destination: netip.MustParseAddrPort("203.0.113.9:80"),
		ReplyFrom: netip.MustParseAddrPort("203.0.113.9:80"), ReplyTo: netip.MustParseAddrPort("203.0.113.2:4000")}
	if w.Stray(inside, inside.Source.Addr()) {
		t.Error("a connection inside of the cluster is stray, since the pod had its own address on the way to the owner")
	}
	if held := desired.Of(world(across, away, ways, func(in *desired.Input) {
		doc := in.Egress["default.web"]
		doc.Hold = "no"
		in.Egress["default.web"] = doc
	})); len(held.Tables[plan.Egress][plan.Via+"4"]) > 0 {
		t.Error("pods that are held back go to another node")
	}
}

func TestFirewallIsTheUnionOfThoseWhoShareTheVIP(t *testing.T) {
	with := func(v schema.VIP, open bool, ports ...uint16) schema.VIP {
		v.Firewall = &schema.Firewall{Open: open}
		for _, p := range ports {
			v.Firewall.Ports = append(v.Firewall.Ports, schema.Port{Protocol: schema.TCP, Port: p})
		}
		return v
	}
	expect(t, desired.Input{VIPs: map[string]schema.VIP{
		"a.web":  with(vip("a.web", schema.StateActive, "198.51.100.200", "2001:db8::200"), false, 80),
		"b.web":  with(vip("b.web", schema.StateStandby, "198.51.100.200"), true, 443),
		"c.open": with(vip("c.open", schema.StateActive, "198.51.100.201"), true, 22),
		"d.none": vip("d.none", schema.StateActive, "198.51.100.202"),
	}}, `
		table firewall
		firewall guarded4 { 198.51.100.200 }
		firewall guarded6 { 2001:db8::200 }
		firewall open4 { 198.51.100.200 . tcp . 443 }
		firewall open4 { 198.51.100.200 . tcp . 80 }
		firewall open6 { 2001:db8::200 . tcp . 80 }`)
}

func TestBackendsShareTheSlotsEvenly(t *testing.T) {
	cp := vip(schema.ControlPlaneKey, schema.StateActive, "198.51.100.250", "2001:db8::250")
	cp.Grant = schema.GrantControlPlane
	for n := range 6 {
		cp.Balance = &schema.Balance{Port: 6443}
		for i := range n {
			cp.Balance.Backends = append(cp.Balance.Backends, netip.AddrPortFrom(netip.AddrFrom4([4]byte{198, 51, 100, byte(11 + i)}), 6443))
		}
		in := desired.Input{VIPs: map[string]schema.VIP{cp.Key: cp}, Held: map[schema.GrantName]bool{schema.GrantControlPlane: true}}
		table := desired.Of(in).Tables[plan.Balance]
		if n == 0 {
			if table != nil {
				t.Errorf("without a backend: %v", table)
			}
			continue
		}
		share := map[string]int{}
		for _, backend := range table["slots4"] {
			share[backend]++
		}
		for backend, slots := range share {
			if d := slots - plan.SlotCount/n; len(share) != n || d < 0 || d > 1 {
				t.Errorf("%d backends: %s has %d slots", n, backend, slots)
			}
		}
		if len(table["slots4"]) != plan.SlotCount || table["frontends6"] != nil {
			t.Errorf("%d backends of IPv4: %v", n, table)
		}
		in.Held = nil
		if desired.Of(in).Tables[plan.Balance] != nil {
			t.Error("spread without the grant")
		}
	}
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

var (
	pods  = addrs("203.0.113.2", "203.0.113.3", "2001:db8:0:2::2", "2001:db8:0:2::3")
	goals = addrs("192.0.2.1", "198.51.100.2", "203.0.113.9", "2001:db8:9::1", "2001:db8:0:2::9", "203.0.113.2")
	masks = nets("192.0.2.0/24", "198.51.100.0/24", "0.0.0.0/0", "2001:db8:9::/48", "::/0", "203.0.113.0/25", "192.0.2.1/32")
	ports = []schema.Port{{Protocol: schema.TCP, Port: 443}, {Protocol: schema.UDP, Port: 53}, {Protocol: schema.TCP, Port: 80}}
)

func some[T any](s *source, list []T) (out []T) {
	for _, x := range list {
		if s.pick(4) == 1 {
			out = append(out, x)
		}
	}
	return out
}

func (s *source) world() desired.Input {
	in := world(func(in *desired.Input) {
		in.Held[schema.GrantNode] = s.pick(4) > 0
		in.Internal = some(s, nets("203.0.113.0/25", "2001:db8:0:2::/64"))
		in.Complete = s.pick(2) == 0
	})
	states := []schema.State{schema.StateActive, schema.StateDraining, schema.StateStandby, schema.StateWithdrawn}
	for i, key := range []string{"a.a", "b.b"} {
		if s.pick(4) > 0 {
			in.VIPs[key] = vip(key, states[s.pick(4)], fmt.Sprintf("198.51.100.20%d", i), fmt.Sprintf("2001:db8::20%d", i))
		}
		e := schema.Egress{
			Key: key, Pods: some(s, pods), Denied: some(s, masks), Allowed: some(s, masks), Ports: some(s, ports),
			Internal: s.pick(3) == 0, IPv6Only: s.pick(4) == 1,
		}
		if s.pick(6) == 1 {
			e.Hold = "a test"
		}
		in.Egress[key] = e
	}
	delete(in.Egress, "default.web")
	delete(in.Egress, "other.web")
	return in
}

// walk does to a new connection what the rules of the table egress do with
// its elements.
func walk(t plan.Table, f plan.Flow) (desired.Verdict, netip.Addr) {
	family := "6"
	if f.Source.Addr().Is4() {
		family = "4"
	}
	pod, to := f.Source.Addr().String(), f.ReplyFrom
	has := func(set, key string) bool { _, ok := t[set+family][key]; return ok }
	within := func(set, prefix string) bool {
		for key := range t[set+family] {
			if network, ok := strings.CutPrefix(key, prefix); ok && netip.MustParsePrefix(network).Contains(to.Addr()) {
				return true
			}
		}
		return false
	}
	switch {
	case f.Source.Addr().Is4() != f.Destination.Addr().Is4(), !has(plan.Pods, pod),
		!has(plan.Everywhere, pod) && within(plan.Internal, ""),
		!has(plan.Everywhere, pod) && f.Destination != f.ReplyFrom,
		narrowed(t, family, pod, f.Protocol, to):
		return desired.Free, netip.Addr{}
	case has(plan.Held, pod):
		return desired.Held, netip.Addr{}
	}
	return desired.Translated, netip.MustParseAddr(t[plan.VIPs+family][pod])
}

// narrowed does what the chain of the pod's list does: it says whether that
// lets the connection go.
func narrowed(t plan.Table, family, pod string, protocol schema.Protocol, to netip.AddrPort) bool {
	chain, ok := strings.CutPrefix(t[plan.Narrowed+family][pod], "jump ")
	if !ok {
		return false
	}
	rules, err := plan.ParseRules(t[plan.Lists][chain])
	if err != nil {
		panic(err)
	}
	return slices.ContainsFunc(rules, func(r plan.ListRule) bool {
		if r.Family != "" && r.Family != family {
			return false
		}
		in := slices.ContainsFunc(r.Elements, func(e string) bool {
			if r.Family == "" {
				return e == fmt.Sprintf("%s . %d", strings.ToLower(string(protocol)), to.Port())
			}
			return netip.MustParsePrefix(e).Contains(to.Addr())
		})
		return in != r.Not
	})
}

func FuzzJudgingIsWhatTheRulesDo(f *testing.F) {
	for i := range 64 {
		seed := make([]byte, 96)
		for j := range seed {
			seed[j] = byte(i*37 + j*(i+11))
		}
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s := source(data)
		in := s.world()
		w := desired.Of(in)
		for _, pod := range pods {
			for _, goal := range goals {
				for _, port := range ports {
					flow := plan.Flow{Protocol: port.Protocol, Source: netip.AddrPortFrom(pod, 4000),
						Destination: netip.AddrPortFrom(goal, port.Port), ReplyFrom: netip.AddrPortFrom(goal, port.Port), ReplyTo: netip.AddrPortFrom(pod, 4000)}
					if s.pick(5) == 1 {
						flow.Destination = netip.AddrPortFrom(netip.MustParseAddr("192.0.2.99"), 80)
					}
					verdict, source := w.Judge(flow)
					wantVerdict, wantSource := walk(w.Tables[plan.Egress], flow)
					if verdict != wantVerdict || source != wantSource {
						t.Fatalf("%v: judged %d %s, the rules do %d %s\n%s", flow, verdict, source, wantVerdict, wantSource, text(w.Tables))
					}
					// A connection as the rules make it is never a stray one.
					flow.ReplyTo = netip.AddrPortFrom(source, 4000)
					if verdict == desired.Translated && w.Stray(flow, netip.Addr{}) {
						t.Fatalf("%v is stray", flow)
					}
				}
			}
		}
		disjoint(t, w.Tables[plan.Egress])
		if diff := cmp.Diff(text(w.Tables), text(desired.Of(in).Tables)); diff != "" {
			t.Fatalf("two answers:\n%s", diff)
		}
	})
}

// disjoint fails the test if networks of one rule overlap, which the kernel
// does not take.
func disjoint(t *testing.T, table plan.Table) {
	for name, text := range table[plan.Lists] {
		rules, err := plan.ParseRules(text)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rules {
			for i, a := range r.Elements {
				for _, b := range r.Elements[:i] {
					if r.Family != "" && netip.MustParsePrefix(a).Overlaps(netip.MustParsePrefix(b)) {
						t.Fatalf("%s: %s and %s overlap", name, a, b)
					}
				}
			}
		}
	}
}

func TestStrayConnections(t *testing.T) {
	flow := func(pod, to, as string) plan.Flow {
		return plan.Flow{Protocol: schema.TCP, Source: netip.AddrPortFrom(netip.MustParseAddr(pod), 4000),
			Destination: netip.AddrPortFrom(netip.MustParseAddr(to), 80), ReplyFrom: netip.AddrPortFrom(netip.MustParseAddr(to), 80),
			ReplyTo: netip.AddrPortFrom(netip.MustParseAddr(as), 4000)}
	}
	const out, pod, old = "192.0.2.1", "203.0.113.2", "198.51.100.199"
	active, none := desired.Of(world()), netip.Addr{}
	draining := desired.Of(world(func(in *desired.Input) {
		in.VIPs["default.web"] = vip("default.web", schema.StateDraining, "198.51.100.200")
	}))
	gone := desired.Of(world(func(in *desired.Input) { in.Egress = nil }))
	for _, c := range []struct {
		name   string
		w      *desired.Wanted
		flow   plan.Flow
		before netip.Addr
		want   bool
	}{
		{"as the VIP", active, flow(pod, out, "198.51.100.200"), none, false},
		{"as the node", active, flow(pod, out, "198.51.100.1"), none, true},
		{"as an older VIP", active, flow(pod, out, old), none, true},
		{"inside", active, flow(pod, "203.0.113.9", pod), none, false},
		{"inside, translated by kube-proxy", active, flow(pod, "203.0.113.9", "198.51.100.1"), none, false},
		{"held", active, flow("203.0.113.3", out, "203.0.113.3"), none, true},
		{"another's", active, flow("203.0.113.9", out, "198.51.100.1"), none, false},
		{"draining, as the VIP", draining, flow(pod, out, "198.51.100.200"), none, false},
		{"draining, as the node", draining, flow(pod, out, "198.51.100.1"), none, true},
		{"of a pod that was", gone, flow(pod, out, "198.51.100.200"), addrs("198.51.100.200")[0], true},
		{"of a pod that was, as the node", gone, flow(pod, out, "198.51.100.1"), addrs("198.51.100.200")[0], false},
	} {
		if got := c.w.Stray(c.flow, c.before); got != c.want {
			t.Errorf("%s: %t, want %t", c.name, got, c.want)
		}
	}
	if diff := cmp.Diff(map[netip.Addr]bool{addrs("198.51.100.200")[0]: true}, draining.Leaving(), cmpopts.EquateComparable(netip.Addr{})); diff != "" {
		t.Errorf("leaving (-want +have):\n%s", diff)
	}
	if got := active.Services["default.web"].Sources(); !slices.Equal(got, addrs("198.51.100.200", "2001:db8::200")) {
		t.Errorf("sources: %v", got)
	}
}
