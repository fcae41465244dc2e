package main

import (
	"net/netip"
	"os/exec"
	"testing"
	"time"

	"github.com/vipod/vipod/shared/netsafe"
	"github.com/vipod/vipod/shared/netsafe/nstest"
	"github.com/vipod/vipod/shared/ownership"
	"github.com/vipod/vipod/shared/schema"
	"github.com/vipod/vipod/shared/statetest"
)

func TestMain(m *testing.M) { statetest.Main(m, func() int { main(); return 0 }) }

const (
	protocol = statetest.Protocol
	patience = statetest.Patience
)

// rig is a node: a namespace with link v0 to a peer's v1, a state directory,
// and vipd as a process of its own.
type rig struct {
	*statetest.Pod
	*statetest.Process
	t        *testing.T
	ns, peer *nstest.NS
	node     *schema.Node
	wrote    map[string]schema.Observed // the newest document of each VIP
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{Pod: statetest.New(t), t: t, ns: nstest.New(t), peer: nstest.Peer(t), wrote: map[string]schema.Observed{}}
	r.node, r.Process = r.Node(), r.Pod.Process(ownership.Vipd)
	nstest.Veth(t, r.ns, "v0", r.peer, "v1")
	r.ns.Add(t, "v0", "198.51.100.1/24")
	r.ns.Add(t, "v0", "2001:db8::1/64")
	r.peer.Add(t, "v1", "198.51.100.2/24")
	r.peer.Add(t, "v1", "2001:db8::2/64")
	return r
}

func (r *rig) check(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) writeNode(change func(*schema.Node)) {
	r.t.Helper()
	change(r.node)
	r.WriteNode(r.node)
}

func (r *rig) synced() { r.t.Helper(); r.writeNode(func(n *schema.Node) { n.Synced = true }) }

// vip writes a document for addresses on v0.
func (r *rig) vip(key string, state schema.State, ips ...string) {
	r.t.Helper()
	doc := statetest.VIP(key, state, "v0", ips...)
	r.WriteVIP(doc)
	r.wrote[key] = doc.Seen()
}

// eventually waits for a condition and returns how long it took.
func (r *rig) eventually(what string, ok func() bool) time.Duration {
	r.t.Helper()
	return statetest.Eventually(r.t, what, ok)
}

// address returns an address of the node's namespace.
func (r *rig) address(ip string) (netsafe.Address, bool) {
	r.t.Helper()
	list, err := netsafe.Addresses()
	r.check(err)
	for _, a := range list {
		if a.Prefix.Addr() == netip.MustParseAddr(ip) {
			return a, true
		}
	}
	return netsafe.Address{}, false
}

func (r *rig) has(ip string) bool {
	r.t.Helper()
	a, ok := r.address(ip)
	return ok && a.Protocol == protocol
}

func (r *rig) status(key string) (schema.Status, error) { return r.Status(ownership.Vipd, key) }

// is says whether the VIP's condition is True for its newest document.
func (r *rig) is(key, condition string) bool {
	s, err := r.status(key)
	return err == nil && s.Observed == r.wrote[key] && schema.IsTrue(s.Conditions, condition)
}

// absentBecause says whether the VIP is not present for the reason.
func (r *rig) absentBecause(reason string) bool {
	s, err := r.status("default.web")
	c, ok := schema.FindCondition(s.Conditions, schema.ConditionPresent)
	return err == nil && ok && c.Status == schema.False && c.Reason == reason
}

func (r *rig) self() schema.Daemon { return r.Self(ownership.Vipd) }

func (r *rig) link(name string) schema.Link {
	for _, l := range r.self().Links {
		if l.Name == name {
			return l
		}
	}
	return schema.Link{}
}

// run runs a command in the node's namespace.
func (r *rig) run(args ...string) string {
	r.t.Helper()
	out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
	if err != nil {
		r.t.Fatalf("%v: %v\n%s", args, err, out)
	}
	return string(out)
}
