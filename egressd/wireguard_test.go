package main

import (
	"crypto/ecdh"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/vipod/vipod/egressd/internal/tunnel"
	"github.com/vipod/vipod/egressd/internal/wg"
	"github.com/vipod/vipod/egressd/internal/wg/wgtest"
	"github.com/vipod/vipod/shared/netsafe"
	"github.com/vipod/vipod/shared/netsafe/nstest"
	"github.com/vipod/vipod/shared/ownership"
	"github.com/vipod/vipod/shared/schema"
	"github.com/vipod/vipod/shared/statetest"
)

// Addresses of tunnels: the far end's own behind them, and a pod on another
// node, which knows no way back but by the node that has the tunnel.
const (
	far4, far6       = "192.0.2.9", "2001:db8:0:9::9"
	near4, near6     = "203.0.113.193", "2001:db8:0:3::1"
	remote4, remote6 = "203.0.113.194", "2001:db8:0:3::2"
	closed           = 7001
)

// public is the public key of a private one.
func public(t *testing.T, k tunnel.Key) (p tunnel.Key) {
	t.Helper()
	key, err := ecdh.X25519().NewPrivateKey(k[:])
	if err != nil {
		t.Fatal(err)
	}
	copy(p[:], key.PublicKey().Bytes())
	return p
}

func text(k tunnel.Key) string { return base64.StdEncoding.EncodeToString(k[:]) }

// tunnelRig is a node with two tunnels, a pod on it and one elsewhere, and the
// tunnels' far end.
type tunnelRig struct {
	*rig
	file string
	pod4 string
	pod6 string
}

func newTunnelRig(t *testing.T) *tunnelRig {
	t.Helper()
	wgtest.Need(t)
	r := &rig{Pod: statetest.New(t), t: t, ns: nstest.New(t), outside: nstest.Peer(t), pods: map[string]*nstest.NS{}}
	x := &tunnelRig{rig: r}
	dir, err := os.MkdirTemp("", "tunnels")
	r.check(err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // a test's leftovers
	r.check(os.Chmod(dir, 0o755))
	x.file = filepath.Join(dir, "tunnels")
	t.Setenv("VIPOD_WIREGUARD_TUNNELS", x.file)
	x.describe("")
	r.Process = r.Pod.Process(ownership.Egressd)
	r.node = r.Node(func(*schema.Node) {})
	for _, file := range []string{"ipv4/ip_forward", "ipv6/conf/all/forwarding", "ipv4/conf/all/rp_filter"} {
		r.check(os.WriteFile("/proc/sys/net/"+file, []byte("1"), 0))
	}
	// The far end takes no answer that comes beside its tunnel.
	r.check(r.outside.Do(func() error { return os.WriteFile("/proc/sys/net/ipv4/conf/all/rp_filter", []byte("1"), 0) }))
	nstest.Veth(t, r.ns, "v0", r.outside, "v1")
	for _, ip := range []string{node4 + "/24", node6 + "/64"} {
		r.ns.Add(t, "v0", ip)
	}
	r.outside.Add(t, "v1", outside4+"/24")
	r.outside.Add(t, "v1", outside6+"/64")
	r.ns.AddDefault(t, "v0", netip.MustParseAddr(outside4))
	r.ns.AddDefault(t, "v0", netip.MustParseAddr(outside6))
	x.pod4, x.pod6 = "203.0.113.2", "2001:db8:0:2::2"
	x.join("pod", x.pod4, x.pod6, "203.0.113.1", "2001:db8:0:2::1", true)
	x.join("elsewhere", remote4, remote6, near4, near6, false)
	x.farEnd()
	return x
}

// join makes a pod; way says whether it has a route to everywhere.
func (x *tunnelRig) join(link, v4, v6, gateway4, gateway6 string, way bool) {
	x.t.Helper()
	ns := nstest.Peer(x.t)
	nstest.Veth(x.t, x.ns, link, ns, "eth0")
	x.ns.Add(x.t, link, gateway4+"/30")
	x.ns.Add(x.t, link, gateway6+"/126")
	ns.Add(x.t, "eth0", v4+"/30")
	ns.Add(x.t, "eth0", v6+"/126")
	if way {
		ns.AddDefault(x.t, "eth0", netip.MustParseAddr(gateway4))
		ns.AddDefault(x.t, "eth0", netip.MustParseAddr(gateway6))
	}
	x.serve(ns)
	x.pods[v4], x.pods[v6] = ns, ns
}

// Ends of the tunnels: the node's and the far one's, per family.
var (
	own    = map[string]tunnel.Key{"wg4": wgtest.Key(11), "wg6": wgtest.Key(13)}
	theirs = map[string]tunnel.Key{"wg4": wgtest.Key(12), "wg6": wgtest.Key(14)}
	ports  = map[string]uint16{"wg4": 51820, "wg6": 51821}
)

// farEnd makes the far ends. They do not know where the node is: the node has
// to come to them.
func (x *tunnelRig) farEnd() {
	x.t.Helper()
	for name, vip := range map[string]string{"wg4": vip4 + "/32", "wg6": vip6 + "/128"} {
		far := tunnel.Tunnel{
			Name: name, VIP: netip.MustParsePrefix(vip), PrivateKey: theirs[name], PeerKey: public(x.t, own[name]), Port: ports[name],
			Endpoint: netip.MustParseAddrPort("198.51.100.99:9"), Allowed: []netip.Prefix{netip.MustParsePrefix(vip)},
		}
		x.check(x.outside.Do(func() error {
			for _, op := range []tunnel.Op{tunnel.Add{Name: name, Alias: "far"}, tunnel.Configure{Tunnel: far}, tunnel.SetUp{Name: name, Up: true}} {
				if err := (wg.Linux{}).Do(op); err != nil {
					return err
				}
			}
			l, err := netlink.LinkByName(name)
			if err != nil {
				return err
			}
			_, to, err := net.ParseCIDR(vip)
			if err != nil {
				return err
			}
			return netlink.RouteReplace(&netlink.Route{LinkIndex: l.Attrs().Index, Dst: to, Scope: netlink.SCOPE_LINK})
		}))
	}
	x.outside.Add(x.t, "wg4", far4+"/32")
	x.outside.Add(x.t, "wg6", far6+"/128")
}

// describe writes the file of tunnels.
func (x *tunnelRig) describe(more string) {
	x.t.Helper()
	var b strings.Builder
	for name, of := range map[string][3]string{
		"wg4": {vip4 + "/32", outside4 + ":51820", "192.0.2.0/24"}, "wg6": {vip6 + "/128", "[" + outside6 + "]:51821", "2001:db8:0:9::/64"},
	} {
		fmt.Fprintf(&b, "%s:\n  vip: %q\n  peerEndpoint: %q\n  allowedIPs: [%q]\n  privateKey: %s\n  peerPublicKey: %s\n  listenPort: %d\n",
			name, of[0], of[1], of[2], text(own[name]), text(public(x.t, theirs[name])), ports[name])
	}
	x.check(os.WriteFile(x.file, []byte(b.String()+more), 0o644))
}

// tunnelVIP writes the document of the Service's VIP, its ports going to the
// pods.
func (x *tunnelRig) tunnelVIP(state schema.State, keep bool, pods ...string) {
	x.t.Helper()
	x.vip(state, func(doc *schema.VIP) {
		doc.Announce, doc.WireGuard = []schema.Announce{schema.AnnounceWireGuard}, &schema.WireGuard{}
		for i := range doc.Addresses {
			doc.Addresses[i].Interface = map[bool]string{true: "wg4", false: "wg6"}[doc.Addresses[i].IP.Is4()]
		}
		for _, proto := range []schema.Protocol{schema.TCP, schema.UDP} {
			f := schema.Forward{Port: schema.Port{Protocol: proto, Port: port}, KeepSource: keep}
			for _, pod := range pods {
				f.Backends = append(f.Backends, netip.AddrPortFrom(netip.MustParseAddr(pod), port))
			}
			doc.WireGuard.Forwards = append(doc.WireGuard.Forwards, f)
		}
	})
}

// takeOver makes the node the owner.
func (x *tunnelRig) takeOver(keep bool, pods ...string) {
	x.t.Helper()
	x.WriteNode(x.node)
	x.Grant(time.Hour)
	x.tunnelVIP(schema.StateActive, keep, pods...)
	x.Start()
	x.becomes(schema.ConditionTunnelled, schema.TunnelConnected)
}

// vipd puts the VIPs on the tunnels that are there.
func (x *tunnelRig) vipd() {
	x.t.Helper()
	for name := range x.links() {
		prefix, ok := map[string]string{"wg4": vip4 + "/32", "wg6": vip6 + "/128"}[name]
		if !ok {
			continue // a link in the making
		}
		address, err := netlink.ParseAddr(prefix)
		x.check(err)
		address.Flags = unix.IFA_F_NODAD
		l, err := netlink.LinkByName(name)
		if err == nil {
			err = netlink.AddrReplace(l, address)
		}
		if err != nil {
			x.t.Logf("no address for %s: %v", name, err)
		}
	}
}

// expectFrom checks whom a pod sees when the far end comes to the VIP.
func (x *tunnelRig) expectFrom(seen4, seen6 string) {
	x.t.Helper()
	x.vipd()
	for _, network := range []string{"tcp", "udp"} {
		x.expect("", network, vip4, seen4)
		x.expect("", network, vip6, seen6)
	}
}

// links are the node's links of WireGuard by name.
func (x *tunnelRig) links() map[string]int {
	x.t.Helper()
	list, err := netsafe.Links()
	x.check(err)
	found := map[string]int{}
	for _, l := range list {
		if l.Kind == tunnel.Kind {
			found[l.Name] = l.Index
		}
	}
	return found
}

func (x *tunnelRig) rules() (n int) {
	x.t.Helper()
	for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
		list, err := netsafe.Rules(family)
		x.check(err)
		for _, r := range list {
			if r.Priority == tunnel.RulePriority {
				n++
			}
		}
	}
	return n
}

// TestNetnsTunnel is one test, as a machine that has WireGuard may have to be
// started for it.
func TestNetnsTunnel(t *testing.T) {
	wgtest.Need(t)
	t.Run("policy Local keeps the client's address", func(t *testing.T) {
		x := newTunnelRig(t)
		x.takeOver(true, x.pod4, x.pod6)
		x.expectFrom(far4, far6)
	})
	t.Run("policy Cluster reaches pods of other nodes", func(t *testing.T) {
		x := newTunnelRig(t)
		x.takeOver(false, remote4, remote6)
		x.expectFrom(near4, near6)
	})
	t.Run("nothing else is reached", testTunnelIsNarrow)
	t.Run("a change of endpoints is followed", func(t *testing.T) {
		x := newTunnelRig(t)
		x.takeOver(false, remote4, remote6)
		x.expectFrom(near4, near6)
		x.tunnelVIP(schema.StateActive, true, x.pod4, x.pod6)
		x.eventually("the new endpoint answers", func() bool { return x.sees("", "udp", vip4) == far4 })
		x.expectFrom(far4, far6)
	})
	t.Run("an owner that is to be silent has no tunnel", testSilence)
	t.Run("a killed process is followed by one that changes nothing", testTunnelsAreAdopted)
	t.Run("what others break is repaired", testTunnelsAreRepaired)
	t.Run("a bad file changes nothing and no key is told", testNoKeyIsTold)
	t.Run("two Services of one VIP share its tunnel", testTunnelIsShared)
	t.Run("all goes with the pod", func(t *testing.T) {
		x := newTunnelRig(t)
		x.takeOver(true, x.pod4, x.pod6)
		x.Signal(syscall.SIGTERM)
		x.node.Phase = schema.PhaseStopped
		x.WriteNode(x.node)
		x.Exited()
		if l, n := x.links(), x.rules(); len(l) > 0 || n > 0 {
			t.Errorf("left: %v and %d rules", l, n)
		}
	})
}

func testTunnelIsNarrow(t *testing.T) {
	x := newTunnelRig(t)
	x.takeOver(true, x.pod4, x.pod6)
	x.vipd()
	var l net.Listener
	x.check(x.ns.Do(func() (err error) { l, err = net.Listen("tcp", fmt.Sprintf(":%d", closed)); return err }))
	t.Cleanup(func() { _ = l.Close() }) // it only listens
	far := func(to string) error {
		return x.outside.Do(func() error {
			c, err := net.DialTimeout("tcp", netip.AddrPortFrom(netip.MustParseAddr(to), closed).String(), answerTime)
			if err == nil {
				err = c.Close()
			}
			return err
		})
	}
	if err := far(node4); err != nil {
		t.Errorf("the node cannot be reached beside the tunnel: %v", err)
	}
	for _, to := range []string{vip4, vip6} {
		if far(to) == nil {
			t.Errorf("port %d of %s is reached through the tunnel", closed, to)
		}
	}
}

func testSilence(t *testing.T) {
	x := newTunnelRig(t)
	x.takeOver(true, x.pod4, x.pod6)
	gone := func(why string) {
		t.Helper()
		if l, n := x.links(), x.rules(); len(l) > 0 || n > 0 {
			t.Errorf("%s: %v and %d rules are there", why, l, n)
		}
	}
	back := func() {
		t.Helper()
		x.Grant(time.Hour)
		x.tunnelVIP(schema.StateActive, true, x.pod4, x.pod6)
		x.becomes(schema.ConditionTunnelled, schema.TunnelConnected)
		x.expectFrom(far4, far6)
	}
	for _, state := range []schema.State{schema.StateDraining, schema.StateStandby, schema.StateWithdrawn} {
		x.tunnelVIP(state, true, x.pod4, x.pod6)
		x.becomes(schema.ConditionTunnelled, "NotActive")
		gone(string(state))
		back()
	}
	x.Grant(300 * time.Millisecond)
	x.becomes(schema.ConditionTunnelled, "NotActive")
	gone("the grant has ended")
	back()
	x.Remove(ownership.Elector, "vips/"+web)
	x.eventually("no tunnel is left", func() bool { return len(x.links()) == 0 && x.rules() == 0 })
}

func testTunnelsAreAdopted(t *testing.T) {
	x := newTunnelRig(t)
	x.takeOver(true, x.pod4, x.pod6)
	x.vipd()
	c, err := x.dial("", "tcp", vip4)
	x.check(err)
	before := x.links()
	x.Kill()
	x.Start()
	x.eventually("the new process is ready", func() bool { _, err := x.Ask("/readyz"); return err == nil })
	for name, index := range x.links() {
		if before[name] != index {
			t.Errorf("%s was made anew", name)
		}
	}
	if _, err := c.ask(); err != nil {
		t.Errorf("a connection from before: %v", err)
	}
	x.expectFrom(far4, far6)
}

func testTunnelsAreRepaired(t *testing.T) {
	x := newTunnelRig(t)
	x.takeOver(true, x.pod4, x.pod6)
	for name := range x.links() {
		x.ns.Delete(t, name)
	}
	x.eventually("the tunnels are back", func() bool {
		x.vipd()
		return x.sees("", "udp", vip4) == far4 && x.sees("", "udp", vip6) == far6
	})
	x.expectFrom(far4, far6)
}

func testNoKeyIsTold(t *testing.T) {
	x := newTunnelRig(t)
	x.takeOver(true, x.pod4, x.pod6)
	x.describe("wg9:\n  privateKey: " + text(wgtest.Key(99)) + "\n  " + text(wgtest.Key(98)) + ": x\n")
	x.eventually("the problem is reported", func() bool {
		c, _ := schema.FindCondition(x.Self(ownership.Egressd).Conditions, schema.ConditionDocuments)
		return c.Status == schema.False && strings.Contains(c.Message, "tunnels: tunnel wg9")
	})
	x.expectFrom(far4, far6)
	told := x.Output()
	for _, path := range []string{"/status", "/metrics", "/healthz", "/readyz"} {
		answer, err := x.Ask(path)
		x.check(err)
		told += answer
	}
	self, err := json.Marshal(x.Self(ownership.Egressd))
	x.check(err)
	status, err := x.Status(ownership.Egressd, web)
	x.check(err)
	more, err := json.Marshal(status)
	x.check(err)
	told += string(self) + string(more) + x.Run("status")
	if !strings.Contains(told, "wg set wg4") {
		t.Error("the log does not tell that the tunnel was configured")
	}
	for _, k := range []tunnel.Key{own["wg4"], own["wg6"], public(t, theirs["wg4"]), wgtest.Key(99), wgtest.Key(98)} {
		for _, form := range []string{text(k)[:12], fmt.Sprintf("%x", k[1:9:9]), strings.Trim(fmt.Sprintf("%d", k[1:9:9]), "[]")} {
			if strings.Contains(told, form) {
				t.Errorf("a key is told: %s", form)
			}
		}
	}
}

func testTunnelIsShared(t *testing.T) {
	x := newTunnelRig(t)
	x.takeOver(true, x.pod4, x.pod6)
	second := func(state schema.State) {
		doc := statetest.VIP("default.second", state, "wg4", vip4)
		doc.WireGuard = &schema.WireGuard{}
		x.WriteVIP(doc)
	}
	second(schema.StateActive)
	x.eventually("the second is reported", func() bool {
		s, err := x.Status(ownership.Egressd, "default.second")
		return err == nil && schema.IsTrue(s.Conditions, schema.ConditionTunnelled)
	})
	before := x.links()
	x.Remove(ownership.Elector, "vips/default.second")
	x.eventually("the second is gone", func() bool { _, err := x.Status(ownership.Egressd, "default.second"); return err != nil })
	if x.links()["wg4"] != before["wg4"] {
		t.Error("the tunnel went with the second Service")
	}
	x.expectFrom(far4, far6)
}
