package main

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vipod/vipod/shared/ownership"
	"github.com/vipod/vipod/shared/schema"
	"github.com/vipod/vipod/shared/statetest"
)

// reached says how the outside reaches a port of the node: "answer", "refused"
// or "nothing".
func (r *rig) reached(network, ip string, port int) string {
	r.t.Helper()
	var c net.Conn
	err := r.outside.Do(func() (err error) {
		c, err = net.DialTimeout(network, netip.AddrPortFrom(netip.MustParseAddr(ip), uint16(port)).String(), answerTime)
		return err
	})
	if err == nil {
		defer func() { _ = c.Close() }()
		_, err = (&conn{c}).ask()
	}
	switch {
	case err == nil:
		return "answer"
	case errors.Is(err, unix.ECONNREFUSED):
		return "refused"
	}
	return "nothing"
}

func firewall(open bool, ports ...schema.Port) func(*schema.VIP) {
	return func(v *schema.VIP) { v.Firewall = &schema.Firewall{Ports: ports, Open: open} }
}

func TestNetnsOnlyTheServicesPortsReachTheVIP(t *testing.T) {
	r := newRig(t)
	r.serve(r.ns) // at port 7000, on the node itself
	a4, a6 := r.pod(2)
	r.WriteNode(r.node)
	r.Grant(time.Hour)
	r.egress([]string{a4, a6})
	guarded := func(ports ...schema.Port) {
		t.Helper()
		r.vip(schema.StateActive, firewall(false, ports...))
		r.eventually("the firewall is as written", func() bool {
			rules := r.run("sh", "-c", "nft list table inet vipod_firewall || true")
			open := strings.Count(rules, vip4+" . ") + strings.Count(rules, vip6+" . ")
			return open == 2*len(ports) && strings.Contains(rules, vip4)
		})
	}
	for network, port := range map[string]int{"tcp": 7001, "udp": 7001} {
		if got := r.reached(network, vip4, port); got != "refused" {
			t.Fatalf("%s %d without a firewall: %s", network, port, got)
		}
	}
	r.Start()
	guarded(schema.Port{Protocol: schema.TCP, Port: port})
	for _, c := range []struct {
		network, ip string
		port        int
		want        string
	}{
		{"tcp", vip4, port, "answer"}, {"tcp", vip6, port, "answer"},
		{"udp", vip4, port, "nothing"}, {"udp", vip6, port, "nothing"},
		{"tcp", vip4, 7001, "nothing"}, {"tcp", vip6, 22, "nothing"}, {"udp", vip4, 7001, "nothing"},
		{"udp", vip4, 68, "refused"}, // DHCP servers answer there
		{"tcp", node4, 7001, "refused"}, {"udp", node4, port, "answer"}, {"tcp", node6, port, "answer"},
	} {
		if got := r.reached(c.network, c.ip, c.port); got != c.want {
			t.Errorf("%s %s port %d: %s, want %s", c.network, c.ip, c.port, got, c.want)
		}
	}
	for _, ip := range []string{vip4, vip6} {
		if err := r.outside.Do(func() error { return command("ping", "-c", "1", "-W", "1", ip) }); err != nil {
			t.Errorf("ping %s: %v", ip, err)
		}
	}
	r.expectAll(a4, a6, asVIP) // answers to what left with the VIP pass

	guarded(schema.Port{Protocol: schema.TCP, Port: 7001}, schema.Port{Protocol: schema.UDP, Port: port})
	if got := r.reached("tcp", vip4, port) + " " + r.reached("tcp", vip4, 7001) + " " + r.reached("udp", vip6, port); got != "nothing refused answer" {
		t.Errorf("after a change of ports: %s", got)
	}

	// Another program flushes everything; kube-proxy's translation changes nothing.
	r.run("nft", "flush ruleset")
	r.eventually("repaired", func() bool { return r.reached("tcp", vip4, 22) == "nothing" })

	// A Service that shares the VIP and opts out has its ports, and no more.
	other := statetest.VIP("other.web", schema.StateActive, "v0", vip4)
	firewall(true, schema.Port{Protocol: schema.TCP, Port: port})(other)
	r.WriteVIP(other)
	r.eventually("the other's port is open", func() bool { return r.reached("tcp", vip4, port) == "answer" })
	if got := r.reached("tcp", vip4, 22); got != "nothing" {
		t.Errorf("port 22 of the shared VIP: %s", got)
	}
	r.DropVIP("other.web")
	r.vip(schema.StateActive, firewall(true))
	r.eventually("no firewall", func() bool { return r.reached("tcp", vip4, 7001) == "refused" })
	if rules := r.run("nft", "list", "tables"); strings.Contains(rules, "vipod_firewall") {
		t.Errorf("left:\n%s", rules)
	}
}

// balanced writes the control plane's document.
func (r *rig) balanced(state schema.State, backends ...string) {
	r.t.Helper()
	r.balance(state, port, backends...)
}

// balancedAt is balanced at another port.
func (r *rig) balancedAt(port uint16, backends ...string) {
	r.t.Helper()
	r.balance(schema.StateActive, port, backends...)
}

func (r *rig) balance(state schema.State, port uint16, backends ...string) {
	r.t.Helper()
	doc := statetest.VIP(schema.ControlPlaneKey, state, "v0", vip4, vip6)
	doc.Balance = &schema.Balance{Port: port}
	for _, b := range backends {
		doc.Balance.Backends = append(doc.Balance.Backends, netip.AddrPortFrom(netip.MustParseAddr(b), port))
	}
	r.WriteVIP(doc)
	r.eventually("the document is applied", func() bool {
		s, err := r.Status(ownership.Egressd, doc.Key)
		return err == nil && s.Observed == doc.Seen()
	})
}

func TestNetnsConnectionsAreSpreadOverBackends(t *testing.T) {
	r := newRig(t)
	a4, a6 := r.pod(2)
	b4, b6 := r.pod(3)
	r.WriteNode(r.node)
	r.Write(ownership.Elector, "grant", &schema.Grant{Boot: r.Boot, ValidUntil: map[schema.GrantName]int64{schema.GrantControlPlane: 1 << 62}})
	r.Start()
	r.balanced(schema.StateActive, a4, b4, a6, b6)
	shares := func(n int, vip string) map[string]int {
		t.Helper()
		count := map[string]int{}
		for range n {
			c, err := r.dial("", "tcp", vip)
			if err != nil {
				count["nobody"]++
				continue
			}
			// Backends see the node, so that answers come back this way.
			from, err := c.ask()
			if err != nil || from == netip.MustParseAddr(outside4) || from == netip.MustParseAddr(outside6) {
				t.Fatalf("backends see %s, error %v", from, err)
			}
			_ = c.Close()
			count[r.backendOf(c)]++
		}
		return count
	}
	for vip, pair := range map[string][2]string{vip4: {a4, b4}, vip6: {a6, b6}} {
		if n := shares(60, vip); n[pair[0]] < 12 || n[pair[1]] < 12 || n[pair[0]]+n[pair[1]] != 60 {
			t.Errorf("connections to %s go to %v", vip, n)
		}
	}
	// The node's own connections are spread, too.
	var own net.Conn
	own, err := net.DialTimeout("tcp", fmt.Sprintf("%s:%d", vip4, port), answerTime)
	r.check(err)
	r.check(own.Close())

	// A backend that leaves gets no new connection, and what it had ends; the
	// other's go on.
	keep := map[string]*conn{}
	for len(keep) < 2 {
		c, err := r.dial("", "tcp", vip4)
		r.check(err)
		keep[r.backendOf(c)] = c
	}
	r.balanced(schema.StateActive, b4)
	if n := shares(20, vip4); n[b4] != 20 {
		t.Errorf("after one has left: %v", n)
	}
	if _, err := keep[b4].ask(); err != nil {
		t.Errorf("a connection to the backend that stays: %v", err)
	}
	r.eventually("the connection to the one that left ends", func() bool { _, err := keep[a4].ask(); return err != nil })
	r.balanced(schema.StateActive, a4, b4)
	if n := shares(40, vip4); n[a4] == 0 || n[b4] == 0 {
		t.Errorf("after it has come back: %v", n)
	}
	if _, err := keep[b4].ask(); err != nil {
		t.Errorf("a connection from before: %v", err)
	}
	r.balanced(schema.StateActive)
	if n := shares(3, vip4); n["nobody"] != 3 {
		t.Errorf("without a backend: %v", n)
	}
	if tables := r.run("nft", "list", "tables"); strings.Contains(tables, "vipod_balance") {
		t.Errorf("left:\n%s", tables)
	}
}

// backendOf returns the backend that a connection of the outside goes to.
func (r *rig) backendOf(c *conn) string {
	r.t.Helper()
	local, err := netip.ParseAddrPort(c.LocalAddr().String())
	r.check(err)
	family := "ipv4"
	if local.Addr().Is6() {
		family = "ipv6"
	}
	out := r.run("conntrack", "-L", "-f", family, "-p", "tcp", "--orig-port-src", fmt.Sprint(local.Port()), "-s", local.Addr().String())
	fields := strings.Split(out, "src=")
	if len(fields) < 3 {
		return "unknown"
	}
	return strings.Fields(fields[2])[0]
}
