package way_test

import (
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"strings"
	"testing"

	"github.com/vipod/vipod/egressd/internal/way"
	"github.com/vipod/vipod/shared/netsafe/nstest"
)

func ip(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command("ip", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("ip %v: %v\n%s", args, err, out)
	}
	return string(out)
}

func hex(mark uint32) string { return fmt.Sprintf("%#x", mark) }

func text(table uint32) string { return fmt.Sprint(table) }

func TestNetnsMarkedPacketsGoThroughTheGateway(t *testing.T) {
	ns, peer := nstest.New(t), nstest.Peer(t)
	nstest.Veth(t, ns, "v0", peer, "v1")
	ns.Add(t, "v0", "198.51.100.1/24")
	ns.Add(t, "v0", "2001:db8:0:1::1/64")
	ip(t, "route", "add", "default", "via", "198.51.100.254")
	ip(t, "rule", "add", "fwmark", "0x76000001", "lookup", "100", "priority", "31000") // somebody else's
	foreign := ip(t, "rule", "list") + ip(t, "-6", "rule", "list")

	l, other := way.Linux{Protocol: 248}, way.Linux{Instance: "blue", Protocol: 248}
	gateways := []netip.Addr{netip.MustParseAddr("198.51.100.2"), netip.MustParseAddr("2001:db8:0:1::2")}
	for range 2 { // making it again changes nothing
		for _, g := range gateways {
			for _, x := range []way.Linux{l, other} {
				mark, err := x.Make(g)
				if err != nil || mark != way.Mark(x.Instance, g) {
					t.Fatalf("%s: mark %#x, error %v", g, mark, err)
				}
			}
		}
	}
	get := func(to string, g netip.Addr) string {
		return ip(t, "route", "get", to, "mark", hex(way.Mark("", g)))
	}
	if out := get("192.0.2.1", gateways[0]); !strings.Contains(out, "via 198.51.100.2 dev v0") {
		t.Errorf("IPv4 goes %s", out)
	}
	if out := get("2001:db8:9::1", gateways[1]); !strings.Contains(out, "via 2001:db8:0:1::2 dev v0") {
		t.Errorf("IPv6 goes %s", out)
	}
	if _, err := l.Make(netip.MustParseAddr("192.0.2.9")); !errors.Is(err, way.ErrFar) {
		t.Errorf("a gateway behind a router: %v", err)
	}
	if _, err := l.Make(netip.MustParseAddr("198.51.100.1")); err == nil {
		t.Error("this node itself is a gateway")
	}
	if err := l.Sweep(gateways[:1]); err != nil {
		t.Fatal(err)
	}
	if rules := ip(t, "-6", "rule", "list"); strings.Count(rules, "fwmark 0x76") != 1 {
		t.Errorf("one rule of the other instance must be left:\n%s", rules)
	}
	ip(t, "route", "del", "default", "via", "198.51.100.2", "table", text(way.Mark("", gateways[0])))
	if out, err := exec.Command("ip", "route", "get", "192.0.2.1", "mark", hex(way.Mark("", gateways[0]))).CombinedOutput(); err == nil {
		t.Errorf("without the route it goes %s", out)
	}
	if _, err := l.Make(gateways[0]); err != nil {
		t.Fatal(err)
	}
	for _, x := range []way.Linux{l, other} {
		if err := x.Sweep(nil); err != nil {
			t.Fatal(err)
		}
	}
	if now := ip(t, "rule", "list") + ip(t, "-6", "rule", "list"); now != foreign {
		t.Errorf("rules were\n%s\nand are\n%s", foreign, now)
	}
	if out, _ := exec.Command("ip", "route", "list", "table", text(way.Mark("", gateways[0]))).CombinedOutput(); strings.Contains(string(out), "default") {
		t.Errorf("routes are left: %s", out)
	}
}
