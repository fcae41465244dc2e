package reconcile_test

import (
	"errors"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/vishvananda/netlink"

	"github.com/vipod/vipod/linkd/internal/client"
	"github.com/vipod/vipod/linkd/internal/kernel"
	"github.com/vipod/vipod/linkd/internal/kernel/kerneltest"
	"github.com/vipod/vipod/linkd/internal/lease"
	"github.com/vipod/vipod/linkd/internal/plan"
	"github.com/vipod/vipod/linkd/internal/reconcile"
	"github.com/vipod/vipod/shared/netsafe/nstest"
	"github.com/vipod/vipod/shared/ownership"
	"github.com/vipod/vipod/shared/schema"
	"github.com/vipod/vipod/shared/statefile"
	"github.com/vipod/vipod/shared/statetest"
)

// host is a machine with the links eth0 and eth1, as an administrator handles
// it: the same for the fake kernel and the real one.
type host interface {
	kernel.Kernel
	// put makes a link as the administrator would, or changes it.
	put(t *testing.T, l plan.Link)
	// remove removes a link as the administrator would.
	remove(t *testing.T, name string)
}

type fakeHost struct{ *kerneltest.Fake }

func (h fakeHost) put(_ *testing.T, l plan.Link)    { l.Index = h.unused(); h.Set(l) }
func (h fakeHost) remove(_ *testing.T, name string) { h.Remove(name) }

func (h fakeHost) unused() int {
	s, _ := h.Observe()
	n := 500
	for _, l := range s.Links {
		n = max(n, l.Index+1)
	}
	return n
}

func newFakeHost(*testing.T) host {
	return fakeHost{kerneltest.New(
		plan.Link{Name: "eth0", Index: 2, MTU: 1500, MAC: "02:00:00:00:00:02", Admin: true},
		plan.Link{Name: "eth1", Index: 3, MTU: 1500, MAC: "02:00:00:00:00:03", Admin: true},
	)}
}

type realHost struct{ kernel.Linux }

func newRealHost(t *testing.T) host {
	ns := nstest.New(t)
	nstest.Veth(t, ns, "eth0", ns, "peer0")
	nstest.Veth(t, ns, "eth1", ns, "peer1")
	return realHost{}
}

func (realHost) put(t *testing.T, l plan.Link) {
	t.Helper()
	attrs := netlink.NewLinkAttrs()
	attrs.Name = l.Name
	var made netlink.Link = &netlink.Bridge{LinkAttrs: attrs}
	if l.Kind != "bridge" {
		attrs.ParentIndex = l.ParentIndex
		made = &netlink.Vlan{LinkAttrs: attrs, VlanId: l.VLAN, VlanProtocol: netlink.VLAN_PROTOCOL_8021Q}
	}
	if l.Kind == plan.Macvlan {
		made = &netlink.Macvlan{LinkAttrs: attrs, Mode: netlink.MACVLAN_MODE_BRIDGE}
	}
	must(t, netlink.LinkAdd(made))
	if l.Admin {
		must(t, netlink.LinkSetUp(made))
	}
}

func (realHost) remove(t *testing.T, name string) {
	t.Helper()
	link, err := netlink.LinkByName(name)
	must(t, err)
	must(t, netlink.LinkDel(link))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// world is one node with linkd's loop, which the test goes through by hand.
type world struct {
	*statetest.Pod
	host
	t    *testing.T
	kind string
	r    *reconcile.Reconciler
}

func newWorld(t *testing.T, kind string, h host) *world {
	t.Helper()
	w := &world{Pod: statetest.New(t), host: h, t: t, kind: kind}
	dir := ownership.Links(w.Dir)
	must(t, os.Mkdir(dir, ownership.DirMode))
	must(t, os.Chown(dir, ownership.UID(ownership.Linkd), ownership.Group))
	w.WriteNode(w.Node())
	w.Grant(time.Hour)
	w.restart()
	return w
}

// restart is another process of linkd.
func (w *world) restart() {
	w.t.Helper()
	var err error
	w.r, err = reconcile.New(reconcile.Config{
		Log: slog.New(slog.DiscardHandler), StateDir: w.Dir, Boot: w.Boot, Kernel: w.host,
		Client:  func(o client.Options) reconcile.DHCP { return &idle{o} },
		Metrics: reconcile.NewMetrics(prometheus.NewRegistry()),
	})
	must(w.t, err)
}

// idle is a DHCP client that gets nothing.
type idle struct{ client.Options }

func (*idle) Status() client.Status { return client.Status{State: lease.Selecting} }
func (*idle) Move(client.Port)      {}
func (*idle) Decline(netip.Addr)    {}
func (*idle) Release()              {}
func (*idle) Stop()                 {}

// spec is what a document asks for.
func (w *world) spec() schema.LinkSpec {
	l := schema.LinkSpec{Kind: schema.LinkKind(w.kind), Name: "eth0.200", Parent: "eth0"}
	if w.kind == plan.VLAN {
		l.VLAN = 200
	} else {
		l.MAC = "02:00:00:00:00:09"
	}
	return l
}

// wants has elector write documents that need the link, and none else.
func (w *world) wants(keys ...string) {
	w.t.Helper()
	files, err := filepath.Glob(filepath.Join(ownership.VIPs(w.Dir, ownership.Elector), "*.json"))
	must(w.t, err)
	for _, f := range files {
		must(w.t, os.Remove(f))
	}
	for _, key := range keys {
		w.want(key, w.spec())
	}
	w.r.Pass()
}

func (w *world) want(key string, l schema.LinkSpec) {
	w.t.Helper()
	v := statetest.VIP(key, schema.StateActive, "eth0", "198.51.100.7")
	v.Links = []schema.LinkSpec{l}
	w.WriteVIP(v)
}

// link returns the link, or none.
func (w *world) link(name string) (plan.Link, bool) {
	w.t.Helper()
	s, err := w.Observe()
	must(w.t, err)
	for _, l := range s.Links {
		if l.Name == name {
			return l, true
		}
	}
	return plan.Link{}, false
}

// owner is the key in the link's alias, "" for none, and "gone" for no link.
func (w *world) owner() string {
	w.t.Helper()
	l, ok := w.link("eth0.200")
	if !ok {
		return "gone"
	}
	return strings.TrimPrefix(l.Alias, "vipod::")
}

func (w *world) expectOwner(want string) {
	w.t.Helper()
	if got := w.owner(); got != want {
		w.t.Errorf("link owned by %q, want %q", got, want)
	}
}

// linked is the reason of the condition.
func (w *world) linked(key string) (reason, message string) {
	w.t.Helper()
	s, err := statefile.Read[schema.LinkStatus](filepath.Join(ownership.Links(w.Dir), key+".json"), os.Geteuid())
	must(w.t, err)
	c, ok := schema.FindCondition(s.Conditions, schema.ConditionLinked)
	if !ok {
		w.t.Fatalf("no condition in %+v", s)
	}
	return c.Reason, c.Message
}

func (w *world) index() int { l, _ := w.link("eth0"); return l.Index }

var ownershipTests = map[string]func(t *testing.T, w *world){
	"shared: it goes with the last, and ownership passes on": func(_ *testing.T, w *world) {
		w.wants("a.one", "b.two", "c.three")
		w.expectOwner("a.one")
		first, _ := w.link("eth0.200")
		w.wants("b.two", "c.three")
		w.expectOwner("b.two")
		w.wants("a.one", "c.three") // one goes while another comes
		w.expectOwner("a.one")
		w.restart()
		w.wants("c.three")
		w.expectOwner("c.three")
		if last, _ := w.link("eth0.200"); last.Index != first.Index {
			w.t.Error("the link was made anew under its users")
		}
		w.wants()
		w.expectOwner("gone")
	},
	"adopted: used and never changed or removed": func(t *testing.T, w *world) {
		w.put(t, plan.Link{
			Name: "eth0.200", Kind: w.kind, ParentIndex: w.index(), VLAN: 200, VLANProtocol: 0x8100, MacvlanMode: 4, MTU: 1500, Admin: true,
		})
		before, _ := w.link("eth0.200")
		w.wants("a.one")
		if reason, message := w.linked("a.one"); reason != "Up" {
			t.Errorf("%s: %s", reason, message)
		}
		w.wants()
		if after, ok := w.link("eth0.200"); !ok || after != before {
			t.Errorf("link %+v, before it was %+v", after, before)
		}
	},
	"refused: a bridge, and the node's uplink": func(t *testing.T, w *world) {
		w.put(t, plan.Link{Name: "cni0", Kind: "bridge", MTU: 1500, Admin: true})
		for _, name := range []string{"cni0", "eth1"} {
			before, _ := w.link(name)
			l := w.spec()
			l.Name = name
			w.want("a.one", l)
			w.r.Pass()
			if reason, message := w.linked("a.one"); reason != string(plan.WrongLink) {
				t.Errorf("%s: %s", reason, message)
			}
			w.wants()
			if after, ok := w.link(name); !ok || after != before {
				t.Errorf("link %+v, before it was %+v", after, before)
			}
		}
	},
	"refused: one on another parent": func(t *testing.T, w *world) {
		eth1, _ := w.link("eth1")
		w.put(t, plan.Link{
			Name: "eth0.200", Kind: w.kind, ParentIndex: eth1.Index, VLAN: 200, VLANProtocol: 0x8100, MacvlanMode: 4, MTU: 1500, Admin: true,
		})
		w.wants("a.one")
		if reason, message := w.linked("a.one"); reason != string(plan.WrongLink) {
			t.Errorf("%s: %s", reason, message)
		}
		w.remove(t, "eth0.200")
		w.r.Pass()
		w.expectOwner("a.one")
	},
	"removed by somebody: made again": func(t *testing.T, w *world) {
		w.wants("a.one")
		before, _ := w.link("eth0.200")
		w.remove(t, "eth0.200")
		w.r.Pass()
		if after, ok := w.link("eth0.200"); !ok || after.Index == before.Index {
			t.Errorf("link %+v, before it was %+v", after, before)
		}
	},
	"without a parent: made when it comes": func(t *testing.T, w *world) {
		l := w.spec()
		l.Name, l.Parent = "cni0.200", "cni0"
		if w.kind == plan.VLAN {
			w.want("a.one", l)
			w.r.Pass()
			if reason, message := w.linked("a.one"); reason != string(plan.ParentMissing) {
				t.Errorf("%s: %s", reason, message)
			}
			w.put(t, plan.Link{Name: "cni0", Kind: "bridge", MTU: 1500, Admin: true})
			w.r.Pass()
			if _, ok := w.link("cni0.200"); !ok {
				t.Error("not made")
			}
		}
	},
	"not removed before the picture is complete": func(_ *testing.T, w *world) {
		w.wants("a.one")
		w.WriteNode(w.Node(func(n *schema.Node) { n.Synced = false }))
		w.restart()
		w.wants()
		w.expectOwner("a.one")
		w.WriteNode(w.Node())
		w.r.Pass()
		w.expectOwner("gone")
	},
	"two documents disagree: the first has its way": func(t *testing.T, w *world) {
		w.wants("a.one")
		l := w.spec()
		l.Parent = "eth1"
		w.want("b.two", l)
		w.r.Pass()
		if reason, _ := w.linked("b.two"); reason != "LinkConflict" {
			t.Errorf("reason %s", reason)
		}
		if reason, _ := w.linked("a.one"); reason != "Up" {
			t.Errorf("the first one: %s", reason)
		}
		w.expectOwner("a.one")
	},
	"cleaned up with the pod": func(t *testing.T, w *world) {
		w.wants("a.one")
		must(t, w.r.CleanUp())
		w.expectOwner("gone")
		if files, _ := filepath.Glob(filepath.Join(ownership.Links(w.Dir), "*.json")); len(files) > 0 {
			t.Errorf("reports %q are left", files)
		}
	},
}

func runOwnership(t *testing.T, kinds []string, open func(t *testing.T) host) {
	for _, kind := range kinds {
		for name, test := range ownershipTests {
			t.Run(kind+" "+name, func(t *testing.T) { test(t, newWorld(t, kind, open(t))) })
		}
	}
}

func TestNetnsOwnershipOnTheFakeKernel(t *testing.T) {
	runOwnership(t, []string{plan.VLAN, plan.Macvlan}, newFakeHost)
}

func TestNetnsOwnershipOnTheRealKernel(t *testing.T) {
	runOwnership(t, kerneltest.Kinds(t), newRealHost)
}

func TestNetnsAKernelThatCannotBeSeenHasNothingRemoved(t *testing.T) {
	h := newFakeHost(t).(fakeHost)
	w := newWorld(t, plan.Macvlan, h)
	w.wants("a.one")
	h.Blind = errors.New("interrupted")
	w.wants()
	h.Blind = nil
	w.expectOwner("a.one")
	w.r.Pass()
	w.expectOwner("gone")
}

func TestNetnsALinkThatFailsConcernsItsVIPAlone(t *testing.T) {
	h := newFakeHost(t).(fakeHost)
	w := newWorld(t, plan.Macvlan, h)
	h.Broken["eth0.200"] = errors.New("no buffer space")
	l := w.spec()
	l.Name, l.MAC = "vip-2", "02:00:00:00:00:0a"
	w.want("b.two", l)
	w.want("a.one", w.spec())
	w.r.Pass()
	if reason, message := w.linked("a.one"); reason != string(plan.KernelError) || !strings.Contains(message, "no buffer space") {
		t.Errorf("%s: %s", reason, message)
	}
	if reason, _ := w.linked("b.two"); reason != "Up" {
		t.Errorf("the other: %s", reason)
	}
	delete(h.Broken, "eth0.200")
	w.r.Pass()
	w.expectOwner("a.one")
}
