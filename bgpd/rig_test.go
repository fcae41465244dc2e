package main

import (
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vipod/vipod/shared/netsafe/nstest"
	"github.com/vipod/vipod/shared/ownership"
	"github.com/vipod/vipod/shared/schema"
	"github.com/vipod/vipod/shared/statetest"
)

func TestMain(m *testing.M) { statetest.Main(m, func() int { main(); return 0 }) }

const (
	nodeAS = 65000
	peerAS = 65001
	node4  = "198.51.100.1"
	node6  = "2001:db8::1"
	peer4  = "198.51.100.2"
	peer6  = "2001:db8::2"
)

// rig is a node: a namespace with link v0 to a router's v1, a state
// directory, and bgpd as a process of its own.
type rig struct {
	*statetest.Pod
	*statetest.Process
	t        testing.TB
	ns, peer *nstest.NS
	node     *schema.Node
}

func newRig(t testing.TB, peers ...schema.BGPPeer) *rig {
	t.Helper()
	r := &rig{Pod: statetest.New(t), t: t, ns: nstest.New(t), peer: nstest.Peer(t)}
	r.node, r.Process = r.Node(), r.Pod.Process(ownership.Bgpd)
	nstest.Veth(t, r.ns, "v0", r.peer, "v1")
	r.ns.Add(t, "v0", node4+"/24")
	r.ns.Add(t, "v0", node6+"/64")
	r.peer.Add(t, "v1", peer4+"/24")
	r.peer.Add(t, "v1", peer6+"/64")
	t.Setenv("VIPOD_BGP_PASSWORDS", filepath.Join(r.Dir, "passwords"))
	r.setPeers(peers...)
	return r
}

// peerOf is a peer with short times.
func peerOf(address string, change ...func(*schema.BGPPeer)) schema.BGPPeer {
	ip := netip.MustParseAddr(address)
	p := schema.BGPPeer{
		Name: "router", Address: ip, AS: peerAS, Port: 179, HoldSeconds: 9, KeepaliveSeconds: 3, RetrySeconds: 1,
		IPv4: ip.Is4(), IPv6: ip.Is6(),
	}
	for _, f := range change {
		f(&p)
	}
	return p
}

func (r *rig) setPeers(peers ...schema.BGPPeer) {
	r.t.Helper()
	r.node.Settings.BGP = &schema.BGP{AS: nodeAS, RouterID: netip.MustParseAddr(node4), Peers: peers}
	r.WriteNode(r.node)
}

// vip writes a document for addresses that BGP announces.
func (r *rig) vip(key string, state schema.State, ips ...string) *schema.VIP {
	r.t.Helper()
	return r.vipWith(key, state, nil, ips...)
}

func (r *rig) vipWith(key string, state schema.State, a *schema.PathAttributes, ips ...string) *schema.VIP {
	r.t.Helper()
	doc := statetest.VIP(key, state, "", ips...)
	doc.Grant, doc.Epoch, doc.Announce, doc.BGP = schema.GrantNone, "", []schema.Announce{schema.AnnounceBGP}, a
	r.WriteVIP(doc)
	return doc
}

func (r *rig) eventually(what string, ok func() bool) time.Duration {
	r.t.Helper()
	return statetest.Eventually(r.t, what, ok)
}

func (r *rig) check(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// announced waits for bgpd's report about a VIP to be of that status.
func (r *rig) announced(key string, want schema.ConditionStatus) schema.Condition {
	r.t.Helper()
	var c schema.Condition
	r.eventually(fmt.Sprintf("%s is announced: %s", key, want), func() bool {
		s, err := r.Status(ownership.Bgpd, key)
		if err != nil {
			return false
		}
		c, _ = schema.FindCondition(s.Conditions, schema.ConditionAnnounced)
		return c.Status == want
	})
	return c
}

// password puts a file into the directory of passwords.
func (r *rig) password(name, text string) {
	r.t.Helper()
	dir := filepath.Join(r.Dir, "passwords")
	r.check(os.MkdirAll(dir, 0o755))
	r.check(os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
}

// bird is a BIRD that runs in a namespace.
type bird struct {
	t    *testing.T
	ns   *nstest.NS
	dir  string
	conf string
	cmd  *exec.Cmd
}

// channel is a family of a session of BIRD's, with its routes in the kernel.
const kernels = `
protocol device { scan time 1; }
protocol kernel k4 { ipv4 { import none; export all; }; merge paths yes; }
protocol kernel k6 { ipv6 { import none; export all; }; merge paths yes; }
`

// newBird starts BIRD with sessions as configured.
func newBird(t *testing.T, ns *nstest.NS, sessions string) *bird {
	t.Helper()
	b := &bird{t: t, ns: ns, dir: t.TempDir()}
	b.conf = fmt.Sprintf("log %q all;\nrouter id %s;\n%s\n%s", b.path("log"), peer4, kernels, sessions)
	b.start()
	t.Cleanup(func() {
		b.stop(syscall.SIGKILL)
		if t.Failed() {
			log, _ := os.ReadFile(b.path("log"))
			t.Logf("BIRD said:\n%s", log)
		}
	})
	return b
}

func (b *bird) path(name string) string { return filepath.Join(b.dir, name) }

func (b *bird) start() {
	b.t.Helper()
	if err := os.WriteFile(b.path("conf"), []byte(b.conf), 0o644); err != nil {
		b.t.Fatal(err)
	}
	b.cmd = exec.Command("/usr/sbin/bird", "-f", "-c", b.path("conf"), "-s", b.path("ctl"), "-P", b.path("pid"))
	b.cmd.Stderr = os.Stderr
	if err := b.ns.Do(b.cmd.Start); err != nil {
		b.t.Fatal(err)
	}
	statetest.Eventually(b.t, "BIRD answers", func() bool { return b.ask("show status") != "" })
}

func (b *bird) stop(sig syscall.Signal) {
	if b.cmd == nil {
		return
	}
	_ = b.cmd.Process.Signal(sig) // it may have ended by itself
	_ = b.cmd.Wait()
	b.cmd = nil
}

// ask asks by BIRD's own client, "" while it does not answer.
func (b *bird) ask(words ...string) string {
	out, err := exec.Command("/usr/sbin/birdc", append([]string{"-s", b.path("ctl")}, words...)...).Output()
	if err != nil {
		return ""
	}
	return string(out)
}

// routes returns BIRD's routes with all attributes.
func (b *bird) routes() string { return b.ask("show route all") }

func (b *bird) has(prefix string) bool { return strings.Contains(b.routes(), prefix+" ") }

// kernel says whether the routing table of the router has the prefix.
func (b *bird) kernel(prefix string) bool { return kernelHas(b.ns, prefix) }

func kernelHas(ns *nstest.NS, prefix string) bool {
	family := "-4"
	if strings.Contains(prefix, ":") {
		family = "-6"
	}
	var out []byte
	err := ns.Do(func() (err error) {
		out, err = exec.Command("ip", family, "route", "show", prefix).Output()
		return err
	})
	return err == nil && len(out) > 0
}

// session is BIRD's side of a session with the node by IPv4 or IPv6.
func session(name, extra string) string {
	local, neighbor := peer4, node4
	if strings.HasSuffix(name, "6") {
		local, neighbor = peer6, node6
	}
	return fmt.Sprintf(`protocol bgp %s {
  local %s as %d; neighbor %s as %d; passive on; connect delay time 1; error wait time 1, 2;
  ipv4 { import all; export none; };
  ipv6 { import all; export none; };
  %s
}
`, name, local, peerAS, neighbor, nodeAS, extra)
}

// route returns BIRD's path for one address, "" for none.
func (b *bird) route(ip string) string {
	text := b.ask("show route all for " + ip + host(ip))
	if !strings.Contains(text, ip) {
		return ""
	}
	return strings.ReplaceAll(text, "\t", "")
}

func host(ip string) string {
	if strings.Contains(ip, ":") {
		return "/128"
	}
	return "/32"
}

// ok answers everything well.
type ok struct{}

func (ok) ServeHTTP(http.ResponseWriter, *http.Request) {}
