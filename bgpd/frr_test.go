package main

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vipod/vipod/shared/netsafe"
	"github.com/vipod/vipod/shared/netsafe/nstest"
	"github.com/vipod/vipod/shared/schema"
	"github.com/vipod/vipod/shared/statetest"
)

// frr is FRR's zebra and bgpd in a namespace, listening for the node.
type frr struct {
	t   *testing.T
	ns  *nstest.NS
	dir string
}

// frrPeer is FRR's side of a session for both families.
func frrPeer(address string, as uint32, extra ...string) string {
	lines := fmt.Sprintf(" neighbor %[1]s remote-as %[2]d\n neighbor %[1]s passive\n", address, as)
	for _, line := range extra {
		lines += fmt.Sprintf(" neighbor %s %s\n", address, line)
	}
	for _, family := range []string{"ipv4", "ipv6"} {
		lines += fmt.Sprintf(" address-family %s unicast\n  neighbor %s activate\n exit-address-family\n", family, address)
	}
	return lines
}

// newFRR starts FRR with neighbors as configured.
func newFRR(t *testing.T, ns *nstest.NS, neighbors ...string) *frr {
	t.Helper()
	f := &frr{t: t, ns: ns}
	var err error
	if f.dir, err = os.MkdirTemp("", "frr"); err != nil { // t.TempDir's path is too long for a socket
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(f.dir) })
	if err := os.Chmod(f.dir, 0o777); err != nil { // its daemons have a user of their own
		t.Fatal(err)
	}
	f.start("zebra", "interface v1\n no ipv6 nd suppress-ra\n ipv6 nd ra-interval 1\n")
	f.start("bgpd", fmt.Sprintf(
		"router bgp %d\n bgp router-id %s\n no bgp ebgp-requires-policy\n no bgp default ipv4-unicast\n bgp graceful-restart\n%s",
		peerAS, peer4, strings.Join(neighbors, "")))
	return f
}

// start runs one of FRR's daemons until the test ends, and waits until it
// answers.
func (f *frr) start(name, conf string) {
	f.t.Helper()
	path := func(suffix string) string { return filepath.Join(f.dir, name+suffix) }
	if err := os.WriteFile(path(".conf"), []byte(conf), 0o644); err != nil {
		f.t.Fatal(err)
	}
	cmd := exec.Command("/usr/lib/frr/"+name, "-f", path(".conf"), "-i", path(".pid"), "-z", filepath.Join(f.dir, "zserv"),
		"--vty_socket", f.dir, "-P", "0", "--log", "file:"+path(".log"))
	if err := f.ns.Do(cmd.Start); err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGKILL) // the namespace goes
		_ = cmd.Wait()
		if f.t.Failed() {
			log, _ := os.ReadFile(path(".log"))
			f.t.Logf("FRR's %s said:\n%s", name, log)
		}
	})
	statetest.Eventually(f.t, name+" answers", func() bool {
		return exec.Command("vtysh", "--vty_socket", f.dir, "-d", name, "-c", "show version").Run() == nil
	})
}

// ask asks bgpd, "" while it does not answer.
func (f *frr) ask(command string) string {
	out, err := exec.Command("vtysh", "--vty_socket", f.dir, "-d", "bgpd", "-c", command).Output()
	if err != nil {
		return ""
	}
	return string(out)
}

// path returns FRR's path for one address.
func (f *frr) path(ip string) string {
	family := "ipv4"
	if strings.Contains(ip, ":") {
		family = "ipv6"
	}
	return f.ask("show bgp " + family + " unicast " + ip + host(ip))
}

func TestNetnsFRRTakesPathsOfBothFamiliesFromALargeASBySessionsWithPasswords(t *testing.T) {
	const as = 4200000001
	r := newRig(t)
	r.password("router", "s-p:,a")
	r.password("six", "another")
	own := netip.MustParseAddr(node6) // and not the one that FRR's advertisements make
	r.node.Settings.BGP = &schema.BGP{AS: as, RouterID: netip.MustParseAddr(node4), Peers: []schema.BGPPeer{
		peerOf(peer4, withPassword), peerOf(peer6, withPassword, func(p *schema.BGPPeer) { p.Name, p.SourceAddress = "six", own }),
	}}
	r.WriteNode(r.node)
	f := newFRR(t, r.peer, frrPeer(node4, as, "password s-p:,a"), frrPeer(node6, as, "password another"))
	r.Start()
	med := uint32(7)
	r.vipWith("default.web", schema.StateActive, &schema.PathAttributes{
		MED: &med, Communities: []schema.Community{65000<<16 | 100}, LargeCommunities: []schema.LargeCommunity{{65000, 1, 2}},
	}, "203.0.113.7", "2001:db8:7::7")
	for ip, hop := range map[string]string{"203.0.113.7": node4, "2001:db8:7::7": node6} {
		r.eventually("FRR has "+ip, func() bool {
			text := f.path(ip)
			for _, want := range []string{"4200000001", hop, "metric 7", "65000:100", "65000:1:2"} {
				if !strings.Contains(text, want) {
					return false
				}
			}
			return true
		})
		r.eventually("the router's kernel has "+ip, func() bool { return kernelHas(r.peer, ip) })
	}
	r.DropVIP("default.web")
	r.eventually("both are withdrawn", func() bool {
		return !kernelHas(r.peer, "203.0.113.7") && !kernelHas(r.peer, "2001:db8:7::7")
	})
}

func TestNetnsFRRTakesBothFamiliesOverOneSessionAndKeepsThemWhileTheDaemonRestarts(t *testing.T) {
	r := newRig(t, peerOf(peer4, restarting, func(p *schema.BGPPeer) { p.IPv6 = true }))
	f := newFRR(t, r.peer, frrPeer(node4, nodeAS))
	r.Start()
	ips := []string{"203.0.113.7", "2001:db8:7::7"}
	r.vip("default.web", schema.StateActive, ips...)
	for _, ip := range ips {
		r.eventually("the router's kernel has "+ip, func() bool { return kernelHas(r.peer, ip) })
	}
	r.Kill()
	r.eventually("FRR has noticed", func() bool { return !strings.Contains(f.ask("show bgp neighbors "+node4), "BGP state = Established") })
	for _, ip := range ips {
		if !kernelHas(r.peer, ip) {
			t.Errorf("%s is gone", ip)
		}
	}
	r.Start()
	r.eventually("FRR has the session again", func() bool { return strings.Contains(f.ask("show bgp neighbors "+node4), "BGP state = Established") })
	r.announced("default.web", schema.True)
	time.Sleep(300 * time.Millisecond)
	for _, ip := range ips {
		if !kernelHas(r.peer, ip) {
			t.Errorf("%s is gone after the restart", ip)
		}
	}
}

// TestNetnsFRRByALinkLocalSession has the router found by its advertisements,
// and IPv4 paths by an IPv6 next hop (RFC 8950).
func TestNetnsFRRByALinkLocalSession(t *testing.T) {
	r := newRig(t, schema.BGPPeer{
		Name: "unnumbered-v0", Interface: "v0", Port: 179, HoldSeconds: 9, KeepaliveSeconds: 3, RetrySeconds: 1, IPv4: true, IPv6: true,
	})
	own := linkLocal(t, r.ns, "v0")
	f := newFRR(t, r.peer, frrPeer(own, nodeAS, "interface v1", "capability extended-nexthop"))
	r.Start()
	r.vip("default.web", schema.StateActive, "203.0.113.7", "2001:db8:7::7")
	r.announced("default.web", schema.True)
	for _, ip := range []string{"203.0.113.7", "2001:db8:7::7"} {
		r.eventually("FRR has "+ip, func() bool { return strings.Contains(f.path(ip), own) || strings.Contains(f.path(ip), node6) })
		r.eventually("the router's kernel has "+ip, func() bool { return kernelHas(r.peer, ip) })
	}
}

// linkLocal returns the address that a link gave itself, once it has it.
func linkLocal(t *testing.T, ns *nstest.NS, link string) (ip string) {
	t.Helper()
	index := ns.Index(t, link)
	statetest.Eventually(t, link+" has a link-local address", func() bool {
		err := ns.Do(func() error {
			all, err := netsafe.Addresses()
			for _, a := range all {
				if a.LinkIndex == index && a.Prefix.Addr().Is6() && a.Prefix.Addr().IsLinkLocalUnicast() {
					ip = a.Prefix.Addr().String()
				}
			}
			return err
		})
		return err == nil && ip != ""
	})
	return ip
}
