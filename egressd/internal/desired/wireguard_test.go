package desired_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vipod/vipod/egressd/internal/desired"
	"github.com/vipod/vipod/egressd/internal/plan"
	"github.com/vipod/vipod/egressd/internal/tunnel"
	"github.com/vipod/vipod/shared/schema"
)

var tunnels = []tunnel.Tunnel{
	{Name: "wg4", VIP: netip.MustParsePrefix("198.51.100.200/32"), Port: 51820},
	{Name: "wg6", VIP: netip.MustParsePrefix("2001:db8::200/64"), Port: 51821},
}

// through is a document of a VIP that is reached through the tunnels.
func through(key string, state schema.State, grant schema.GrantName, forwards ...schema.Forward) schema.VIP {
	return schema.VIP{
		Key: key, State: state, Grant: grant, WireGuard: &schema.WireGuard{Forwards: forwards},
		Addresses: []schema.Address{{IP: netip.MustParseAddr("198.51.100.200")}, {IP: netip.MustParseAddr("2001:db8::200")}},
	}
}

func forward(p schema.Protocol, port uint16, keep bool, backends ...string) schema.Forward {
	f := schema.Forward{Port: schema.Port{Protocol: p, Port: port}, KeepSource: keep}
	for _, b := range backends {
		f.Backends = append(f.Backends, netip.MustParseAddrPort(b))
	}
	return f
}

func input(vips ...schema.VIP) desired.Input {
	in := desired.Input{Tunnels: tunnels, VIPs: map[string]schema.VIP{}, Held: map[schema.GrantName]bool{schema.GrantNode: true}}
	for _, v := range vips {
		in.VIPs[v.Key] = v
	}
	return in
}

func TestTunnelIsUsedByAllItsDocumentsTogether(t *testing.T) {
	const node, control = schema.GrantNode, schema.GrantControlPlane
	for _, c := range []struct {
		name string
		vips []schema.VIP
		used bool
		idle bool
	}{
		{"none", nil, false, false},
		{"active", []schema.VIP{through("a.a", schema.StateActive, node)}, true, false},
		{"active without a grant", []schema.VIP{through("a.a", schema.StateActive, control)}, false, true},
		{"draining", []schema.VIP{through("a.a", schema.StateDraining, node)}, false, true},
		{"standby", []schema.VIP{through("a.a", schema.StateStandby, node)}, false, true},
		{"withdrawn", []schema.VIP{through("a.a", schema.StateWithdrawn, node)}, false, true},
		{"two active", []schema.VIP{through("a.a", schema.StateActive, node), through("b.b", schema.StateActive, node)}, true, false},
		{"one of two drains", []schema.VIP{through("a.a", schema.StateActive, node), through("b.b", schema.StateDraining, node)}, false, true},
		{"one of two has gone", []schema.VIP{through("a.a", schema.StateActive, node), through("b.b", schema.StateWithdrawn, node)}, true, false},
		{"one of two lacks its grant", []schema.VIP{through("a.a", schema.StateActive, node), through("_control-plane", schema.StateActive, control)}, false, true},
		{"no tunnels asked for", []schema.VIP{{Key: "a.a", State: schema.StateActive, Grant: node, Addresses: through("", "", "").Addresses}}, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			used, idle := desired.Of(input(c.vips...)).Tunnels()
			if got := len(used) == 2; got != c.used || len(used) == 1 {
				t.Errorf("%d of 2 tunnels are used, want them: %t", len(used), c.used)
			}
			if got := idle["wg4"] && idle["wg6"]; got != c.idle {
				t.Errorf("idle are %v, want them: %t", idle, c.idle)
			}
		})
	}
}

func TestWhatComesThroughTunnels(t *testing.T) {
	w := desired.Of(input(through("default.dns", schema.StateActive, schema.GrantNode,
		forward(schema.UDP, 53, true, "203.0.113.2:5353", "[2001:db8:0:2::2]:5353"), forward(schema.TCP, 53, false, "203.0.113.2:53", "203.0.113.3:53"),
		forward(schema.SCTP, 132, false))))
	got := w.Desired.Tables[plan.Wireguard]
	counts := map[string]int{}
	for _, target := range got["targets4"] {
		counts[target]++
	}
	if want := map[string]int{"203.0.113.2 . 5353": 64, "203.0.113.2 . 53": 32, "203.0.113.3 . 53": 32}; !cmp.Equal(want, counts) {
		t.Errorf("elements by endpoint: %v, want %v", counts, want)
	}
	delete(got, "targets4")
	if n := len(got["targets6"]); n != 64 || got["targets6"]["2001:db8::200 . udp . 53 . 63"] != "2001:db8:0:2::2 . 5353" {
		t.Errorf("%d elements of IPv6", n)
	}
	delete(got, "targets6")
	want := plan.Table{
		"tunnels":  {"wg4": "", "wg6": ""},
		"marks":    {"wg4": "117356", "wg6": "117357"},
		"marked":   {"117356": "", "117357": ""},
		"fenced":   {"51820": "", "51821": ""},
		"reached4": {"wg4 . 198.51.100.200": ""}, "reached6": {"wg6 . 2001:db8::200": ""},
		"doors4": {"198.51.100.200 . udp . 53": "default_dns_p53_udp", "198.51.100.200 . tcp . 53": "default_dns_p53_tcp", "198.51.100.200 . sctp . 132": "default_dns_p132_sctp"},
		"doors6": {"2001:db8::200 . udp . 53": "default_dns_p53_udp", "2001:db8::200 . tcp . 53": "default_dns_p53_tcp", "2001:db8::200 . sctp . 132": "default_dns_p132_sctp"},
		"kept4":  {"203.0.113.2 . udp . 5353": ""}, "kept6": {"2001:db8:0:2::2 . udp . 5353": ""},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestIDOfBeforeIsReplaced(t *testing.T) {
	in := input(through("default.dns", schema.StateActive, schema.GrantNode, forward(schema.UDP, 53, false)))
	w := desired.Of(in)
	old := plan.Apply(plan.Actual{}, plan.Plan(w.Desired, plan.Actual{})...)
	old.Tables[plan.Wireguard].Put("doors4", "198.51.100.200 . udp . 53", tunnel.LegacyID("default", "dns", 53))
	var ops []string
	for _, op := range plan.Plan(w.Desired, old) {
		ops = append(ops, op.String())
	}
	want := []string{
		"nft delete element inet vipod_wireguard doors4 { 198.51.100.200 . udp . 53 : default_dns_p53 }",
		"nft add element inet vipod_wireguard doors4 { 198.51.100.200 . udp . 53 : default_dns_p53_udp }",
	}
	if diff := cmp.Diff(want, ops); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTunnelsMaySendForAsLongAsTheShortestGrant(t *testing.T) {
	in := input(through("a.a", schema.StateActive, schema.GrantNode), through("_control-plane", schema.StateActive, schema.GrantControlPlane))
	in.Held[schema.GrantControlPlane] = true
	grants := schema.Grants{schema.GrantNode: 9 * time.Second, schema.GrantControlPlane: 7 * time.Second}
	got := desired.Of(in).Permissions(grants, 4*time.Second)
	if want := map[uint16]time.Duration{51820: 3 * time.Second, 51821: 3 * time.Second}; !cmp.Equal(want, got) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := desired.Of(in).Permissions(grants, 8*time.Second); len(got) > 0 {
		t.Errorf("without a grant: %v", got)
	}
}

func TestManyEndpointsAreCut(t *testing.T) {
	f := forward(schema.TCP, 80, false)
	for i := range 100 {
		f.Backends = append(f.Backends, netip.AddrPortFrom(netip.AddrFrom4([4]byte{203, 0, 113, byte(i)}), 80))
	}
	w := desired.Of(input(through("a.a", schema.StateActive, schema.GrantNode, f)))
	var used []string
	for _, target := range w.Desired.Tables[plan.Wireguard]["targets4"] {
		used = append(used, target)
	}
	slices.Sort(used)
	if n := len(slices.Compact(used)); n != schema.MaxBackends {
		t.Errorf("%d endpoints, want %d:\n%s", n, schema.MaxBackends, strings.Join(used, "\n"))
	}
}
