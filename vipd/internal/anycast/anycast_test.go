package anycast_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/vishvananda/netlink"

	"github.com/vipod/vipod/shared/netsafe/nstest"
	"github.com/vipod/vipod/shared/schema"
	"github.com/vipod/vipod/vipd/internal/anycast"
)

const protocol = 248

var compare = cmpopts.EquateComparable(netip.Addr{})

func addrs(texts ...string) (out []netip.Addr) {
	for _, text := range texts {
		out = append(out, netip.MustParseAddr(text))
	}
	return out
}

func route(ip string, via ...string) anycast.Route {
	return anycast.Route{IP: netip.MustParseAddr(ip), Via: addrs(via...)}
}

func text(ops []anycast.Op) (out []string) {
	for _, op := range ops {
		out = append(out, op.String())
	}
	return out
}

func TestPlan(t *testing.T) {
	one, two := route("203.0.113.9", "192.0.2.3"), route("203.0.113.9", "192.0.2.3", "192.0.2.20")
	six := route("2001:db8:9::9", "2001:db8::3")
	for name, c := range map[string]struct {
		desired anycast.Desired
		actual  []anycast.Route
		want    []string
	}{
		"nothing to do": {anycast.Desired{Routes: []anycast.Route{two, six}, Sweep: true}, []anycast.Route{two, six}, nil},
		"added": {anycast.Desired{Routes: []anycast.Route{one, six}}, nil, []string{
			"ip route add 203.0.113.9 proto 248 via 192.0.2.3", "ip route add 2001:db8:9::9 proto 248 via 2001:db8::3"}},
		"one more pod": {anycast.Desired{Routes: []anycast.Route{two}}, []anycast.Route{one}, []string{
			"ip route replace 203.0.113.9 proto 248 nexthop via 192.0.2.3 nexthop via 192.0.2.20"}},
		"one pod less":          {anycast.Desired{Routes: []anycast.Route{one}}, []anycast.Route{two}, []string{"ip route replace 203.0.113.9 proto 248 via 192.0.2.3"}},
		"gone":                  {anycast.Desired{Sweep: true, Routes: []anycast.Route{six}}, []anycast.Route{one, six}, []string{"ip route delete 203.0.113.9 proto 248"}},
		"gone, not all is said": {anycast.Desired{}, []anycast.Route{one}, nil},
	} {
		c.desired.Protocol = protocol
		if diff := cmp.Diff(c.want, text(anycast.Plan(c.desired, c.actual))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestDocumentsOfPodsAreRoutes(t *testing.T) {
	doc := func(state schema.State, ip string, via ...string) schema.VIP {
		return schema.VIP{State: state, Addresses: []schema.Address{{IP: netip.MustParseAddr(ip)}}, Via: addrs(via...)}
	}
	got := anycast.Of(protocol, map[string]schema.VIP{
		"a": doc(schema.StateActive, "2001:db8:9::9", "2001:db8::3"), "b": doc(schema.StateDraining, "203.0.113.9", "192.0.2.3"),
		"c": doc(schema.StateActive, "203.0.113.9", "192.0.2.2", "192.0.2.3"), "d": doc(schema.StateWithdrawn, "203.0.113.10", "192.0.2.3"),
		"e": doc(schema.StateActive, "203.0.113.11"),
	}, true)
	want := anycast.Desired{Protocol: protocol, Sweep: true, Routes: []anycast.Route{
		route("203.0.113.9", "192.0.2.2", "192.0.2.3"), route("2001:db8:9::9", "2001:db8::3"),
	}}
	if diff := cmp.Diff(want, got, compare); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// wish is a random want over a few addresses and pods.
func wish(r *rand.Rand) anycast.Desired {
	d := anycast.Desired{Protocol: protocol, Sweep: r.IntN(4) > 0}
	for _, family := range []struct{ ip, pod string }{{"203.0.113.%d", "192.0.2.1%d"}, {"2001:db8:9::%d", "2001:db8::1%d"}} {
		for i := range 4 {
			one := anycast.Route{IP: netip.MustParseAddr(fmt.Sprintf(family.ip, i+1))}
			for n := range 4 {
				if r.IntN(3) == 0 {
					one.Via = append(one.Via, netip.MustParseAddr(fmt.Sprintf(family.pod, n)))
				}
			}
			if len(one.Via) > 0 {
				d.Routes = append(d.Routes, one)
			}
		}
	}
	return d
}

// model is a Kernel without a kernel.
type model struct{ routes []anycast.Route }

func (m *model) Observe(uint8) ([]anycast.Route, error) { return m.routes, nil }
func (m *model) Spread() error                          { return nil }
func (m *model) Do(ops []anycast.Op) []error {
	for _, op := range ops {
		m.routes = anycast.Apply(m.routes, op)
	}
	return make([]error, len(ops))
}

// steps leads a kernel through random wishes and holds it against the model.
func steps(t *testing.T, k anycast.Kernel) {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	for range 60 {
		d := wish(r)
		before, err := k.Observe(protocol)
		if err != nil {
			t.Fatal(err)
		}
		want, ops := before, anycast.Plan(d, before)
		for _, op := range ops {
			want = anycast.Apply(want, op)
		}
		for i, err := range k.Do(ops) {
			if err != nil {
				t.Fatalf("%s: %v", ops[i], err)
			}
		}
		after, err := k.Observe(protocol)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, after, compare, cmpopts.EquateEmpty(), cmpopts.SortSlices(func(a, b anycast.Route) bool { return a.IP.Less(b.IP) })); diff != "" {
			t.Fatalf("after %v (-model +kernel):\n%s", text(ops), diff)
		}
		if again := anycast.Plan(d, after); len(again) > 0 {
			t.Fatalf("more to do: %v", text(again))
		}
	}
}

func TestPlansConverge(t *testing.T) { steps(t, &model{}) }

func TestNetnsKernelAgreesWithTheModelAndForeignRoutesStay(t *testing.T) {
	ns := nstest.New(t)
	nstest.Veth(t, ns, "v0", ns, "v1")
	ns.Add(t, "v0", "192.0.2.1/24")
	ns.Add(t, "v0", "2001:db8::1/64")
	link, err := netlink.LinkByName("v0")
	if err != nil {
		t.Fatal(err)
	}
	for ip, gateway := range map[string]string{"203.0.113.66/32": "192.0.2.7", "2001:db8:9::66/128": "2001:db8::7"} {
		_, dst, err := net.ParseCIDR(ip)
		if err != nil {
			t.Fatal(err)
		}
		if err := netlink.RouteAdd(&netlink.Route{Dst: dst, Gw: net.ParseIP(gateway), LinkIndex: link.Attrs().Index, Protocol: 17}); err != nil {
			t.Fatal(err)
		}
	}
	k := anycast.Linux{}
	steps(t, k)
	for _, ip := range []string{"203.0.113.66", "2001:db8:9::66"} {
		via := map[bool]string{true: "192.0.2.10", false: "2001:db8::10"}[netip.MustParseAddr(ip).Is4()]
		if err := k.Do([]anycast.Op{anycast.Add{Route: route(ip, via), Protocol: protocol}})[0]; !errors.Is(err, anycast.ErrForeign) {
			t.Errorf("%s: %v", ip, err)
		}
		if err := k.Do([]anycast.Op{anycast.Delete{Route: route(ip, via), Protocol: protocol}})[0]; err != nil {
			t.Errorf("removing what is not there: %v", err)
		}
		if got, err := netlink.RouteGet(net.ParseIP(ip)); err != nil || len(got) != 1 || got[0].Gw == nil {
			t.Errorf("the foreign route of %s: %v, %v", ip, got, err)
		}
	}
	if err := k.Do([]anycast.Op{anycast.Add{Route: route("203.0.113.1", "198.51.100.99"), Protocol: protocol}})[0]; err == nil {
		t.Error("a route through a pod that cannot be reached was made")
	}
	if err := k.Spread(); err != nil {
		t.Error(err)
	}
	for _, family := range []string{"ipv4", "ipv6"} {
		if now, err := os.ReadFile("/proc/sys/net/" + family + "/fib_multipath_hash_policy"); err != nil || string(now) != "1\n" {
			t.Errorf("%s: %q, %v", family, now, err)
		}
	}
}
