package e2e

import (
	"bytes"
	"fmt"
	"net/netip"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipod/vipod/deploy/lab"
)

const (
	annotationMacvlan   = "kube-vip.io/macvlanName"
	annotationMAC       = "kube-vip.io/hwaddr"
	annotationRequested = "kube-vip.io/requestedIP"
	annotationVLAN      = "kube-vip.io/serviceVLAN"
)

// anyAddrs ask DHCP for an address of each family.
var anyAddrs = []netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()}

// Ranges of the LAN that its DHCP server lends.
var (
	lent4 = netip.MustParsePrefix("198.51.100.144/28")
	lent6 = netip.MustParsePrefix("2001:db8:0:1::d00/120")
)

// dhcpServer is a DHCP server on the LAN's bridge.
type dhcpServer struct {
	cmd *exec.Cmd
	mu  sync.Mutex
	log bytes.Buffer
}

// stop ends it.
func (s *dhcpServer) stop() {
	_ = s.cmd.Process.Kill() // it may have ended by itself
	_ = s.cmd.Wait()
}

func (s *dhcpServer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.Write(p)
}

// said counts the lines of the server's log with all of the words.
func (s *dhcpServer) said(words ...string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for line := range strings.Lines(s.log.String()) {
		all := true
		for _, w := range words {
			all = all && strings.Contains(line, w)
		}
		if all {
			n++
		}
	}
	return n
}

// serveDHCP runs dnsmasq until the test ends.
func (e *env) serveDHCP() *dhcpServer {
	e.t.Helper()
	return e.runServer("dnsmasq", "--keep-in-foreground", "--port=0", "--interface=br0", "--bind-interfaces", "--except-interface=lo",
		"--conf-file=/dev/null", "--log-facility=-", "--log-dhcp", "--no-ping", "--pid-file=", "--user=root",
		"--dhcp-leasefile="+filepath.Join(e.t.TempDir(), "leases"),
		"--dhcp-range=198.51.100.145,198.51.100.155,255.255.255.0,120", "--dhcp-range=2001:db8:0:1::d00,2001:db8:0:1::dbf,64,120")
}

// runServer runs a program on the LAN until the test ends.
func (e *env) runServer(name string, args ...string) *dhcpServer {
	e.t.Helper()
	s := &dhcpServer{cmd: exec.Command(name, args...)}
	s.cmd.Stdout, s.cmd.Stderr = s, s
	e.must(e.InNS("lan", s.cmd.Start))
	e.t.Cleanup(func() {
		s.stop()
		if e.t.Failed() {
			e.t.Logf("%s said:\n%s", s.cmd, s.log.String())
		}
	})
	return s
}

// lent waits until a Service's status has an address of each range, on that
// owner, and returns them.
func (e *env) lent(name, owner string) (addrs []netip.Addr) {
	e.t.Helper()
	e.within(soon, name+" has an address of each family", func() error {
		s := e.service(name)
		addrs = ingress(s)
		if len(addrs) != 2 || !lent4.Contains(addrs[0]) || !lent6.Contains(addrs[1]) || s.Annotations[annotationHost] != owner {
			return fmt.Errorf("status %v on %q", addrs, s.Annotations[annotationHost])
		}
		return nil
	})
	return addrs
}

// macvlans are the macvlans of a node.
func (e *env) macvlans(node string) (names []string) {
	e.t.Helper()
	for line := range strings.Lines(e.run(node, "ip -br link show type macvlan")) {
		name, _, _ := strings.Cut(strings.Fields(line)[0], "@")
		names = append(names, name)
	}
	return names
}

func TestE2EDHCPServiceFromTheFirstRequestToTheRelease(t *testing.T) {
	e := begin(t)
	name := "lent"
	start := time.Now()
	e.create(lab.ServiceSpec{Name: name, VIPs: anyAddrs, Pods: e.allPods()})
	e.told(20*time.Second, name, "DHCPNoServer", "no DHCP")
	server := e.serveDHCP()
	owner := e.owned(name)
	addrs := e.lent(name, owner)
	t.Logf("served %v after the Service was made and %v was without a server", time.Since(start), name)
	for _, ip := range addrs {
		e.must(e.only(owner, ip))
		e.answers(ip, 80)
	}
	s := e.service(name)
	if mac := s.Annotations[annotationMAC]; mac == "" || s.Annotations[annotationRequested] != join(addrs) {
		t.Errorf("annotations %q and %q, want a hardware address and %s", mac, s.Annotations[annotationRequested], join(addrs))
	}

	// Another Service on the same link has the same addresses.
	link := e.macvlans(owner)[0]
	e.annotate(name, annotationMacvlan, link)
	e.create(lab.ServiceSpec{Name: "lent-too", VIPs: anyAddrs, Pods: e.allPods(), Change: func(s *corev1.Service) {
		s.Annotations[annotationMacvlan] = link
		s.Spec.Ports = s.Spec.Ports[:1]
		s.Spec.Ports[0].Port = 81
	}})
	if got := join(e.lent("lent-too", owner)); got != join(addrs) {
		t.Errorf("the Service that shares the link has %s, want %s", got, join(addrs))
	}
	e.answers(addrs[0], 81)

	// The addresses move with their link.
	e.stop(owner, syscall.SIGTERM)
	if left := e.macvlans(owner); len(left) > 0 {
		t.Errorf("%s has %q left", owner, left)
	}
	next := e.moved(name, owner)
	if got := join(e.lent(name, next)); got != join(addrs) {
		t.Errorf("%s has %s, before it was %s", next, got, join(addrs))
	}
	for _, ip := range addrs {
		e.must(e.only(next, ip))
		e.answers(ip, 80)
	}
	if again := e.service(name).Annotations[annotationMAC]; again != s.Annotations[annotationMAC] {
		t.Errorf("hardware address %s, before it was %s", again, s.Annotations[annotationMAC])
	}
	e.start(owner)

	e.must(e.DeleteService(e.ctx, name))
	e.within(soon, "the other one owns the link", func() error {
		return want("alias", strings.Contains(e.run(next, "ip link show dev "+link), "alias vipod::default.lent-too"), true)
	})
	e.answers(addrs[0], 81)
	if n := server.said("DHCPRELEASE"); n != 0 {
		t.Errorf("released %d times by a move and while one still has it", n)
	}
	e.must(e.DeleteService(e.ctx, "lent-too"))
	e.within(soon, "both leases are given back and the link is gone", func() error {
		if n := server.said("DHCPRELEASE"); n != 2 {
			return fmt.Errorf("released %d times", n)
		}
		if left := e.macvlans(next); len(left) > 0 {
			return fmt.Errorf("%s has %q left", next, left)
		}
		return nil
	})
}

func TestE2EVLANServiceSaysWhatItWaitsFor(t *testing.T) {
	e := begin(t)
	vip := e.vip()
	e.create(lab.ServiceSpec{Name: "tagged", VIPs: vip.Slice()[:1], Pods: e.allPods(), Change: func(s *corev1.Service) {
		s.Annotations[annotationVLAN] = "eth9.200"
	}})
	e.told(takeover+soon, "tagged", "NoEligibleNode", "eth9")
	e.annotate("tagged", annotationVLAN, "eth0.4095")
	e.told(soon, "tagged", "InterfaceRefused", "4095")
	e.annotate("tagged", annotationVLAN, "eth0.200")
	e.within(takeover+soon, "the VLAN is made, or the Service is told that this kernel has none", func() error {
		for _, node := range e.Nodes() {
			if strings.Contains(e.run(node, "ip -o link show"), "alias vipod::default.tagged") {
				return nil
			}
		}
		return want("told of the kernel's error", strings.Contains(strings.Join(e.events("tagged"), "\n"), "LinkKernelError: "), true)
	})
}
