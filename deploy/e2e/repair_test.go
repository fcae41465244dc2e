package e2e

import (
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vipod/vipod/deploy/lab"
	"github.com/vipod/vipod/shared/netsafe"
)

// repairTime is how long a repair may take: a moment, and what a busy machine
// adds.
const repairTime = 3 * time.Second

// The address and the table of somebody else.
var foreign = netip.MustParsePrefix("203.0.113.120/32")

const foreignTable = "inet somebody"

func TestE2EOutsideDamageIsRepairedAndTheForeignLeftAlone(t *testing.T) {
	e := begin(t)
	vip, name := e.vip(), "damaged"
	owner := e.served(name, vip)
	e.run(owner, fmt.Sprintf("ip addr add %s dev eth0", foreign))
	t.Cleanup(func() { e.run(owner, fmt.Sprintf("ip addr del %s dev eth0", foreign)) })
	e.run(owner, "nft add table "+foreignTable)
	t.Cleanup(func() { e.run(owner, "nft delete table "+foreignTable) })
	for _, c := range []struct {
		what   string
		damage func()
	}{
		{"ip addr del", func() {
			e.run(owner, fmt.Sprintf("ip addr del %s/32 dev eth0", vip.V4))
			e.run(owner, fmt.Sprintf("ip addr del %s/128 dev eth0", vip.V6))
		}},
		{"ip addr flush", func() {
			e.run(owner, "ip addr flush dev eth0")
			e.must(e.Heal(e.ctx, owner)) // the node's own are its own business
			e.run(owner, fmt.Sprintf("ip addr add %s dev eth0", foreign))
		}},
		{"nft delete table", func() { e.run(owner, "nft delete table netdev vipod_fence") }},
		{"nft flush ruleset", func() {
			tables := e.saveTables(owner)
			e.run(owner, "nft flush ruleset")
			e.restoreTables(owner, tables)
		}},
	} {
		e.during(vip, func() {
			damaged := time.Now()
			c.damage()
			e.within(repairTime, "repair of "+c.what, func() error { return e.whole(owner, vip) })
			t.Logf("%s: repaired after %v", c.what, time.Since(damaged))
			time.Sleep(settle)
		}).changedHands(0)
		for _, ip := range vip.Slice() {
			e.answers(ip, 80)
		}
		if _, ok := e.address(owner, foreign.Addr()); !ok {
			t.Errorf("%s: the foreign address is gone", c.what)
		}
		if !slices.Contains(e.tables(owner), foreignTable) {
			t.Errorf("%s: the foreign table is gone: %q", c.what, e.tables(owner))
		}
	}
	e.stays(name, owner)
	e.unharmed()
}

// whole returns nil when a node has the addresses behind a fence.
func (e *env) whole(node string, vip lab.Addrs) error {
	for _, ip := range vip.Slice() {
		a, ok := e.address(node, ip)
		if !ok || a.Protocol != protocol {
			return fmt.Errorf("%s is not there, or not marked", ip)
		}
		set := "vips4_node"
		if ip.Is6() {
			set = "vips6_node"
		}
		out, err := e.Exec(e.ctx, node, "nft", "list", "set", "netdev", "vipod_fence", set)
		if err != nil || !strings.Contains(string(out), ip.String()) {
			return errors.Join(fmt.Errorf("%s is not behind the fence", ip), err)
		}
	}
	return nil
}

// saveTables returns what loads everybody else's tables of a node.
func (e *env) saveTables(node string) string {
	e.t.Helper()
	var script strings.Builder
	for _, table := range e.tables(node) {
		if !strings.Contains(table, "vipod") {
			script.WriteString(e.run(node, "nft list table "+table))
		}
	}
	return script.String()
}

func (e *env) restoreTables(node, script string) {
	e.t.Helper()
	cmd := exec.CommandContext(e.ctx, "ip", "netns", "exec", e.NS(node), "nft", "-f", "-")
	cmd.Stdin = strings.NewReader(script)
	if out, err := cmd.CombinedOutput(); err != nil {
		e.t.Fatalf("restoring tables of %s: %v: %s", node, err, out)
	}
}

func TestE2ELeftoversOfOursAreRemovedAndNoOthers(t *testing.T) {
	e := begin(t)
	ours, theirs := netip.MustParsePrefix("203.0.113.121/32"), netip.MustParsePrefix("203.0.113.122/32")
	index := 0
	for _, a := range e.addresses("n1") {
		if a.Prefix.Addr() == mustNode(e, "n1").V4 {
			index = a.LinkIndex
		}
	}
	e.must(e.InNS("n1", func() error {
		for p, proto := range map[netip.Prefix]uint8{ours: protocol, theirs: protocol - 1} {
			err := netsafe.AddAddress(netsafe.Address{LinkIndex: index, Prefix: p, Protocol: proto,
				Valid: netsafe.Forever, Preferred: netsafe.Forever, Flags: unix.IFA_F_NOPREFIXROUTE})
			if err != nil {
				return err
			}
		}
		return nil
	}))
	t.Cleanup(func() { e.run("n1", fmt.Sprintf("ip addr del %s dev eth0", theirs)) })
	e.within(repairTime, "an address with vipod's mark that nothing asks for is removed", func() error { return e.nowhere(ours.Addr()) })
	e.holds(calm, "another's is not", func() error { return e.only("n1", theirs.Addr()) })
}

func mustNode(e *env, node string) lab.Addrs {
	e.t.Helper()
	addrs, err := lab.NodeAddrs(node)
	e.must(err)
	return addrs
}
