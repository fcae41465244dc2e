package routes_test

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/vipod/vipod/shared/netsafe/nstest"
	"github.com/vipod/vipod/shared/schema"
	"github.com/vipod/vipod/vipd/internal/routes"
	"github.com/vipod/vipod/vipd/internal/routes/routestest"
)

const (
	table    = 198
	protocol = 248
)

var compare = cmpopts.EquateComparable(netip.Prefix{})

func route(ip, link string) routes.Route {
	a := netip.MustParseAddr(ip)
	return routes.Route{Prefix: netip.PrefixFrom(a, a.BitLen()), Link: link, Type: unix.RTN_UNICAST}
}

func text(ops []routes.Op) (out []string) {
	for _, op := range ops {
		out = append(out, op.String())
	}
	return out
}

func TestPlan(t *testing.T) {
	a, b := route("198.51.100.7", "v0"), route("2001:db8::7", "v0")
	stray := route("198.51.100.9", "v0")
	for name, c := range map[string]struct {
		desired routes.Desired
		actual  []routes.Route
		want    []string
	}{
		"nothing to do": {routes.Desired{Routes: []routes.Route{a, b}, Sweep: true}, []routes.Route{a, b}, nil},
		"added":         {routes.Desired{Routes: []routes.Route{a}}, nil, []string{"ip route add type 1 198.51.100.7/32 dev v0 table 198 proto 248"}},
		"moved": {routes.Desired{Routes: []routes.Route{a}}, []routes.Route{route("198.51.100.7", "v1")}, []string{
			"ip route delete type 1 198.51.100.7/32 dev v1 table 198 proto 248", "ip route add type 1 198.51.100.7/32 dev v0 table 198 proto 248"}},
		"stray":                  {routes.Desired{Sweep: true}, []routes.Route{stray}, []string{"ip route delete type 1 198.51.100.9/32 dev v0 table 198 proto 248"}},
		"stray and not all said": {routes.Desired{}, []routes.Route{stray}, nil},
		"withdrawn and not all said": {routes.Desired{Gone: []netip.Addr{stray.Prefix.Addr()}}, []routes.Route{stray},
			[]string{"ip route delete type 1 198.51.100.9/32 dev v0 table 198 proto 248"}},
		"reasserted": {routes.Desired{Routes: []routes.Route{a}, Reassert: true}, []routes.Route{a},
			[]string{"ip route replace type 1 198.51.100.7/32 dev v0 table 198 proto 248 realm 1"}},
	} {
		c.desired.Table, c.desired.Protocol = table, protocol
		if diff := cmp.Diff(c.want, text(routes.Plan(c.desired, c.actual))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// world makes a random want and a random table of a few routes.
func world(r *rand.Rand) (routes.Desired, []routes.Route) {
	d := routes.Desired{Table: table, Protocol: protocol, Sweep: r.IntN(2) == 0, Reassert: r.IntN(2) == 0}
	var actual []routes.Route
	for i := range 6 {
		one := route(fmt.Sprintf("198.51.100.%d", i), fmt.Sprintf("v%d", r.IntN(2)))
		if r.IntN(2) == 0 {
			d.Routes = append(d.Routes, one)
		} else if r.IntN(2) == 0 {
			d.Gone = append(d.Gone, one.Prefix.Addr())
		}
		if r.IntN(2) == 0 {
			one.Link, one.Realm = fmt.Sprintf("v%d", r.IntN(2)), uint32(r.IntN(3))
			actual = append(actual, one)
		}
	}
	return d, actual
}

func FuzzPlanConverges(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 0))
		d, actual := world(r)
		ops := routes.Plan(d, actual)
		shuffled := slices.Clone(actual)
		r.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		if diff := cmp.Diff(text(ops), text(routes.Plan(d, shuffled))); diff != "" {
			t.Errorf("the order of the input matters:\n%s", diff)
		}
		for n := range len(ops) + 1 { // a crash after any operation
			d.Reassert = false
			after := routes.Apply(actual, ops[:n]...)
			after = routes.Apply(after, routes.Plan(d, after)...)
			if rest := routes.Plan(d, after); len(rest) > 0 {
				t.Errorf("no fixed point after %d: %v", n, text(rest))
			}
			if there := routes.Addresses(d, after); len(there) != len(d.Routes) {
				t.Errorf("%d of %d routes after %d operations", len(there), len(d.Routes), n)
			}
		}
	})
}

func TestDocumentsSayWhichRoutesThereAre(t *testing.T) {
	doc := func(state schema.State, grant schema.GrantName, ips ...string) schema.VIP {
		v := schema.VIP{State: state, Grant: grant, Announce: []schema.Announce{schema.AnnounceRoute}, Route: &schema.Route{Type: 1, Interface: "v0"}}
		for _, ip := range ips {
			v.Addresses = append(v.Addresses, schema.Address{IP: netip.MustParseAddr(ip)})
		}
		return v
	}
	d := routes.Of(schema.Settings{RoutingTable: table, Protocol: protocol}, map[string]schema.VIP{
		"a": doc(schema.StateActive, schema.GrantNone, "198.51.100.7", "2001:db8::7"),
		"b": doc(schema.StateWithdrawn, schema.GrantNone, "198.51.100.7"), // shared: it stays for a
		"c": doc(schema.StateWithdrawn, schema.GrantNone, "198.51.100.8"),
		"d": doc(schema.StateActive, schema.GrantNode, "198.51.100.9"),
		"e": doc(schema.StateDraining, schema.GrantNone, "198.51.100.10"),
	}, nil, true)
	want := routes.Desired{
		Table: table, Protocol: protocol, Sweep: true,
		Routes: []routes.Route{route("198.51.100.7", "v0"), route("198.51.100.10", "v0"), route("2001:db8::7", "v0")},
		Gone:   []netip.Addr{netip.MustParseAddr("198.51.100.8"), netip.MustParseAddr("198.51.100.9")},
	}
	if diff := cmp.Diff(want, d, compare, cmpopts.EquateComparable(netip.Addr{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestNetnsKernelsAgreeWithTheModel holds the fake and the real kernel to the
// same.
func TestNetnsKernelsAgreeWithTheModel(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) routes.Kernel{
		"fake": func(*testing.T) routes.Kernel {
			return &routestest.Fake{Foreign: map[netip.Prefix]bool{netip.MustParsePrefix("198.51.100.66/32"): true}}
		},
		"linux": func(t *testing.T) routes.Kernel {
			ns := nstest.New(t)
			nstest.Veth(t, ns, "v0", ns, "v1")
			link, err := netlink.LinkByName("v0")
			if err != nil {
				t.Fatal(err)
			}
			_, foreign, err := net.ParseCIDR("198.51.100.66/32")
			if err != nil {
				t.Fatal(err)
			}
			if err := netlink.RouteAdd(&netlink.Route{Dst: foreign, LinkIndex: link.Attrs().Index, Table: table, Protocol: 17, Scope: netlink.SCOPE_LINK}); err != nil {
				t.Fatal(err)
			}
			return routes.Linux{}
		},
	} {
		t.Run(name, func(t *testing.T) {
			k := open(t)
			step := func(d routes.Desired) {
				t.Helper()
				d.Table, d.Protocol = table, protocol
				before, err := k.Observe(table, protocol)
				if err != nil {
					t.Fatal(err)
				}
				ops := routes.Plan(d, before)
				for i, err := range k.Do(ops) {
					if err != nil {
						t.Fatalf("%s: %v", ops[i], err)
					}
				}
				after, err := k.Observe(table, protocol)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(routes.Apply(before, ops...), after, compare, cmpopts.EquateEmpty()); diff != "" {
					t.Errorf("after %v (-model +kernel):\n%s", text(ops), diff)
				}
			}
			both := []routes.Route{route("198.51.100.7", "v0"), route("2001:db8::7", "v0")}
			step(routes.Desired{Routes: both})
			step(routes.Desired{Routes: both, Reassert: true})
			step(routes.Desired{Routes: both, Reassert: true})
			step(routes.Desired{Routes: []routes.Route{route("198.51.100.7", "v1"), both[1]}})
			step(routes.Desired{Sweep: true})
			foreign := routes.Add{Route: route("198.51.100.66", "v0"), Table: table, Protocol: protocol}
			if err := k.Do([]routes.Op{foreign})[0]; err == nil {
				t.Error("a foreign route's place was taken")
			}
			gone := routes.Delete{Route: both[0], Table: table, Protocol: protocol}
			if err := k.Do([]routes.Op{gone})[0]; err != nil {
				t.Errorf("removing what is gone: %v", err)
			}
		})
	}
}
