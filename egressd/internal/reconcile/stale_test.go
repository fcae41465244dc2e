package reconcile

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/vipod/vipod/egressd/internal/desired"
	"github.com/vipod/vipod/egressd/internal/kernel/kerneltest"
	"github.com/vipod/vipod/egressd/internal/plan"
	"github.com/vipod/vipod/shared/schema"
)

const outside = "192.0.2.1"

func flow(from, to, reached, as string) plan.Flow {
	at := func(ip string, port uint16) netip.AddrPort { return netip.AddrPortFrom(netip.MustParseAddr(ip), port) }
	return plan.Flow{Protocol: schema.TCP, Source: at(from, 4000), Destination: at(to, 6443), ReplyFrom: at(reached, 6443), ReplyTo: at(as, 4000)}
}

// node is a kernel and what documents say about one Service and the control
// plane.
type node struct {
	kerneltest.Fake
	in    desired.Input
	stale stale
	last  *desired.Wanted
}

func (n *node) pass(t *testing.T) (forgotten int, err error) {
	t.Helper()
	w := desired.Of(n.in)
	n.stale.ended(n.last, w)
	before := n.State
	ops := plan.Plan(w.Desired, before)
	if err := n.Do(ops); err != nil {
		t.Fatal(err)
	}
	if len(ops) > 0 {
		n.stale.add(ops, before, w)
	}
	n.last = w
	return n.stale.forget(&n.Fake, w)
}

func document(state schema.State, ip string) schema.VIP {
	a := netip.MustParseAddr(ip)
	return schema.VIP{Key: "default.web", State: state, Grant: schema.GrantNode, Addresses: []schema.Address{{IP: a, PrefixLength: a.BitLen(), Interface: "eth0"}}}
}

func TestOnlyConnectionsThatHaveBecomeWrongAreForgotten(t *testing.T) {
	n := &node{in: desired.Input{
		Internal: []netip.Prefix{netip.MustParsePrefix("203.0.113.0/25")}, Complete: true, Held: map[schema.GrantName]bool{schema.GrantNode: true},
		VIPs:   map[string]schema.VIP{"default.web": document(schema.StateActive, "198.51.100.200")},
		Egress: map[string]schema.Egress{"default.web": {Key: "default.web", Pods: []netip.Addr{netip.MustParseAddr("203.0.113.2")}}},
	}}
	kept := []plan.Flow{
		flow("203.0.113.2", "203.0.113.9", "203.0.113.9", "203.0.113.2"), // inside
		flow("203.0.113.9", outside, outside, "198.51.100.1"),            // nobody's pod
	}
	step := func(what string, want int, change func(), flows ...plan.Flow) {
		t.Helper()
		n.Flows = append(append([]plan.Flow{}, kept...), flows...)
		change()
		got, err := n.pass(t)
		if err != nil || got != want || len(n.Flows) != len(kept)+len(flows)-want {
			t.Errorf("%s: %d forgotten, %d left, error %v; want %d forgotten", what, got, len(n.Flows), err, want)
		}
	}
	asNode, asVIP := flow("203.0.113.2", outside, outside, "198.51.100.1"), flow("203.0.113.2", outside, outside, "198.51.100.200")
	step("the Service comes", 1, func() {}, asNode, asVIP)
	step("nothing changes", 0, func() {}, asNode, asVIP)
	step("the VIP changes", 1, func() { n.in.VIPs["default.web"] = document(schema.StateActive, "198.51.100.201") }, asVIP)
	step("the VIP drains", 1, func() { n.in.VIPs["default.web"] = document(schema.StateDraining, "198.51.100.201") },
		flow("203.0.113.2", outside, outside, "198.51.100.201"), asVIP)
	step("the VIP has drained", 1, func() { n.in.VIPs = nil }, flow("203.0.113.2", outside, outside, "198.51.100.201"))
	n.in.VIPs = map[string]schema.VIP{"default.web": document(schema.StateActive, "198.51.100.200")}
	step("the VIP comes back", 1, func() {}, asNode)
	step("the pod goes", 1, func() { n.in.Egress = nil }, asVIP, asNode)
	step("all is gone", 0, func() {}, asVIP)
}

func TestConnectionsToABackendThatHasLeftAreForgotten(t *testing.T) {
	cp := document(schema.StateActive, "198.51.100.250")
	cp.Key = schema.ControlPlaneKey
	cp.Balance = &schema.Balance{Port: 6443, Backends: []netip.AddrPort{netip.MustParseAddrPort("198.51.100.11:6443"), netip.MustParseAddrPort("198.51.100.12:6443")}}
	n := &node{in: desired.Input{Complete: true, Held: map[schema.GrantName]bool{schema.GrantNode: true}, VIPs: map[string]schema.VIP{cp.Key: cp}}}
	if _, err := n.pass(t); err != nil {
		t.Fatal(err)
	}
	n.Flows = []plan.Flow{
		flow("198.51.100.100", "198.51.100.250", "198.51.100.11", "198.51.100.1"),
		flow("198.51.100.100", "198.51.100.250", "198.51.100.12", "198.51.100.1"),
		flow("203.0.113.2", "203.0.113.129", "198.51.100.12", "203.0.113.2"), // through a Service
		flow("203.0.113.2", "198.51.100.12", "198.51.100.12", "203.0.113.2"), // straight
	}
	left := *cp.Balance
	left.Backends = left.Backends[:1]
	cp.Balance = &left
	n.in.VIPs = map[string]schema.VIP{cp.Key: cp}
	if got, err := n.pass(t); err != nil || got != 1 || len(n.Flows) != 3 {
		t.Errorf("%d forgotten, %d left, error %v", got, len(n.Flows), err)
	}
}

func TestWhatCouldNotBeLookedThroughIsLookedThroughAgain(t *testing.T) {
	w := desired.Of(desired.Input{Egress: map[string]schema.Egress{"default.web": {Key: "default.web", Pods: []netip.Addr{netip.MustParseAddr("203.0.113.2")}}}})
	s := stale{everything: true}
	broken := &failing{}
	if _, err := s.forget(broken, w); err == nil || !s.everything {
		t.Errorf("error %v, still in doubt: %t", err, s.everything)
	}
	k := &kerneltest.Fake{Flows: []plan.Flow{flow("203.0.113.2", outside, outside, "198.51.100.1")}}
	if n, err := s.forget(k, w); n != 1 || err != nil || s.everything {
		t.Errorf("%d forgotten, error %v, still in doubt: %t", n, err, s.everything)
	}
}

// failing is a kernel that cannot be asked for connections.
type failing struct{ kerneltest.Fake }

func (*failing) Forget([]netip.Addr, func(plan.Flow) bool) (int, error) {
	return 0, errors.New("broken")
}
