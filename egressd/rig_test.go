package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"regexp"
	"testing"
	"time"

	"github.com/vipod/vipod/shared/netsafe/nstest"
	"github.com/vipod/vipod/shared/ownership"
	"github.com/vipod/vipod/shared/schema"
	"github.com/vipod/vipod/shared/statetest"
)

func TestMain(m *testing.M) { statetest.Main(m, func() int { main(); return 0 }) }

// Addresses of the rig. The node has the VIPs, as vipd would have put them.
const (
	node4, node6       = "198.51.100.1", "2001:db8:0:1::1"
	outside4, outside6 = "198.51.100.2", "2001:db8:0:1::2"
	vip4, vip6         = "198.51.100.200", "2001:db8:0:1::200"
	pods4, pods6       = "203.0.113.0/25", "2001:db8:0:2::/64"
	web                = "default.web"
	// port is where the outside server listens, over TCP and UDP.
	port = 7000
)

// rig is a node: a namespace with pods behind it and an outside server beside
// it, a state directory, and egressd as a process of its own.
type rig struct {
	*statetest.Pod
	*statetest.Process
	t       *testing.T
	ns      *nstest.NS
	outside *nstest.NS
	node    *schema.Node
	pods    map[string]*nstest.NS
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{Pod: statetest.New(t), t: t, ns: nstest.New(t), outside: nstest.Peer(t), pods: map[string]*nstest.NS{}}
	r.Process = r.Pod.Process(ownership.Egressd)
	r.node = r.Node(func(n *schema.Node) {
		n.Settings.InternalNetworks = []netip.Prefix{netip.MustParsePrefix(pods4), netip.MustParsePrefix(pods6)}
	})
	for _, file := range []string{"ipv4/ip_forward", "ipv6/conf/all/forwarding"} {
		r.check(os.WriteFile("/proc/sys/net/"+file, []byte("1"), 0))
	}
	nstest.Veth(t, r.ns, "v0", r.outside, "v1")
	for _, ip := range []string{node4 + "/24", node6 + "/64", vip4 + "/32", vip6 + "/128"} {
		r.ns.Add(t, "v0", ip)
	}
	r.outside.Add(t, "v1", outside4+"/24")
	r.outside.Add(t, "v1", outside6+"/64")
	// A node masquerades what its pods send out, as network plugins have it.
	r.run("nft", "add table inet plugin; add chain inet plugin post { type nat hook postrouting priority 100; };"+
		"add rule inet plugin post oifname v0 snat ip to "+node4+"; add rule inet plugin post oifname v0 snat ip6 to "+node6)
	r.serve(r.outside)
	return r
}

func (r *rig) check(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// pod makes a pod, with an address of each family ending in n.
func (r *rig) pod(n int) (v4, v6 string) {
	r.t.Helper()
	ns, link := nstest.Peer(r.t), fmt.Sprintf("pod%d", n)
	v4, v6 = fmt.Sprintf("203.0.113.%d", n), fmt.Sprintf("2001:db8:0:2::%d", n)
	nstest.Veth(r.t, r.ns, link, ns, "eth0")
	r.ns.Add(r.t, link, "203.0.113.126/32")
	r.ns.Add(r.t, link, "2001:db8:0:2::ffff/128")
	r.run("ip", "route", "add", v4, "dev", link)
	r.run("ip", "route", "add", v6, "dev", link)
	ns.Add(r.t, "eth0", v4+"/32")
	ns.Add(r.t, "eth0", v6+"/128")
	for _, gateway := range []string{"203.0.113.126", "2001:db8:0:2::ffff"} {
		r.check(ns.Do(func() error { return exec.Command("ip", "route", "add", gateway, "dev", "eth0").Run() }))
		ns.AddDefault(r.t, "eth0", netip.MustParseAddr(gateway))
	}
	r.pods[v4], r.pods[v6] = ns, ns
	r.serve(ns)
	return v4, v6
}

// serve answers everybody who comes with the address that he came from.
func (r *rig) serve(ns *nstest.NS) {
	r.t.Helper()
	var l net.Listener
	var u net.PacketConn
	r.check(ns.Do(func() (err error) {
		if l, err = net.Listen("tcp", fmt.Sprintf(":%d", port)); err != nil {
			return err
		}
		u, err = net.ListenPacket("udp", fmt.Sprintf(":%d", port))
		return err
	}))
	r.t.Cleanup(func() { _, _ = l.Close(), u.Close() }) // ends the goroutines
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = c.Close() }()
				buf := make([]byte, 16)
				for {
					if _, err := c.Read(buf); err != nil {
						return
					}
					_, _ = io.WriteString(c, c.RemoteAddr().String()) // the client looks
				}
			}()
		}
	}()
	go func() {
		buf := make([]byte, 16)
		for {
			_, from, err := u.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = u.WriteTo([]byte(from.String()), from) // the client looks
		}
	}()
}

// answerTime is how long an answer may take that is to come; one that is not
// is waited for as long.
const answerTime = 400 * time.Millisecond

// conn is a connection from a pod to a server.
type conn struct{ net.Conn }

// dial connects from a pod, or from the outside for an unknown one.
func (r *rig) dial(pod, network, to string) (*conn, error) {
	ns := r.pods[pod]
	if ns == nil {
		ns = r.outside
	}
	var c net.Conn
	err := ns.Do(func() (err error) {
		c, err = net.DialTimeout(network, netip.AddrPortFrom(netip.MustParseAddr(to), port).String(), answerTime)
		return err
	})
	if err != nil {
		return nil, err
	}
	r.t.Cleanup(func() { _ = c.Close() })
	return &conn{c}, nil
}

// ask sends a packet and returns whom the server saw.
func (c *conn) ask() (netip.Addr, error) {
	if err := c.SetDeadline(time.Now().Add(answerTime)); err != nil {
		return netip.Addr{}, err
	}
	if _, err := io.WriteString(c, "?"); err != nil {
		return netip.Addr{}, err
	}
	buf := make([]byte, 64)
	n, err := c.Read(buf)
	if err != nil {
		return netip.Addr{}, err
	}
	from, err := netip.ParseAddrPort(string(buf[:n]))
	return from.Addr().Unmap(), err
}

// sees returns whom a server sees when a pod connects, "nobody" if nothing
// comes through.
func (r *rig) sees(pod, network, to string) string {
	r.t.Helper()
	c, err := r.dial(pod, network, to)
	if err == nil {
		defer func() { _ = c.Close() }()
		var from netip.Addr
		if from, err = c.ask(); err == nil {
			return from.String()
		}
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		r.t.Logf("%s from %s to %s: %v", network, pod, to, err)
	}
	return "nobody"
}

// expect fails the test unless the server sees the source.
func (r *rig) expect(pod, network, to, source string) {
	r.t.Helper()
	if got := r.sees(pod, network, to); got != source {
		r.t.Errorf("%s from %s to %s comes from %s, want %s", network, pod, to, got, source)
	}
}

// egress writes elector's document about the Service's pods.
func (r *rig) egress(pods []string, changes ...func(*schema.Egress)) {
	r.t.Helper()
	doc := &schema.Egress{Key: web}
	for _, pod := range pods {
		doc.Pods = append(doc.Pods, netip.MustParseAddr(pod))
	}
	for _, change := range changes {
		change(doc)
	}
	r.Write(ownership.Elector, "egress/"+doc.Key, doc)
}

// vip writes the document of the Service's VIP.
func (r *rig) vip(state schema.State, changes ...func(*schema.VIP)) {
	r.t.Helper()
	doc := statetest.VIP(web, state, "v0", vip4, vip6)
	for _, change := range changes {
		change(doc)
	}
	r.WriteVIP(doc)
}

// active starts egressd on a node that owns the VIP.
func (r *rig) active(pods ...string) {
	r.t.Helper()
	r.WriteNode(r.node)
	r.Grant(time.Hour)
	r.vip(schema.StateActive)
	r.egress(pods)
	r.Start()
	r.becomes(schema.ConditionEgress, "Translated")
}

// condition returns egressd's condition about the Service's VIP.
func (r *rig) condition(kind string) schema.Condition {
	s, err := r.Status(ownership.Egressd, web)
	if err != nil {
		return schema.Condition{}
	}
	c, _ := schema.FindCondition(s.Conditions, kind)
	return c
}

// becomes waits for a condition's reason.
func (r *rig) becomes(kind, reason string) time.Duration {
	r.t.Helper()
	return r.eventually(kind+" is "+reason, func() bool { return r.condition(kind).Reason == reason })
}

func (r *rig) eventually(what string, ok func() bool) time.Duration {
	r.t.Helper()
	return statetest.Eventually(r.t, what, ok)
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

// command says whether a command works in the node's namespace.
func (r *rig) command(args ...string) bool { return command(args...) == nil }

// counters takes out of nft's output what changes with traffic.
var counters = counterReplacer{regexp.MustCompile(`packets \d+ bytes \d+`)}

type counterReplacer struct{ *regexp.Regexp }

// Replace returns the text without counts.
func (c counterReplacer) Replace(text string) string { return c.ReplaceAllString(text, "") }

// dropEgress removes elector's document about the Service's pods.
func (r *rig) dropEgress() { r.t.Helper(); r.Remove(ownership.Elector, "egress/"+web) }

// electorAnswers has elector answer on its socket, as one that goes on running.
func (r *rig) electorAnswers() (stop func()) {
	r.t.Helper()
	r.Serve(ownership.Elector, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }))
	return func() {}
}

// command runs a command in the namespace of the calling thread.
func command(args ...string) error {
	out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%v: %w\n%s", args, err, out)
	}
	return nil
}
