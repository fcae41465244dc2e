package linkd

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vipod/vipod/shared/ownership"
	"github.com/vipod/vipod/shared/schema"
	"github.com/vipod/vipod/shared/statetest"
)

func decode(text string, into any) error { return json.Unmarshal([]byte(text), into) }

const range4 = "--dhcp-range=198.51.100.150,198.51.100.160,255.255.255.0,"

func TestNetnsALeaseIsRenewedByUnicastWhileAnotherProcessHasThePort(t *testing.T) {
	w := newWorld(t)
	// Whoever it is: it is bound to the port for all addresses of the node.
	w.must(w.node.Do(func() error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		t.Cleanup(func() { _ = unix.Close(fd) })
		return unix.Bind(fd, &unix.SockaddrInet4{Port: 68})
	}))
	server := w.dnsmasq(range4+"120", "--dhcp-option-force=58,3", "--dhcp-option-force=59,60")
	w.WriteVIP(vip("default.web", schema.DHCPSpec{IPv4: true, Hostname: "web"}))
	l := w.leased("default.web", true, nil)
	w.use(l)
	if l.Source != schema.SourceDHCP4 || l.Interface != "vip-1" || l.PrefixLength != 24 || l.Server != "198.51.100.1" {
		t.Errorf("lease %+v", l)
	}
	for _, n := range []uint64{5, 10} { // one every 3 s, the least that dnsmasq can be told
		statetest.Eventually(t, fmt.Sprint(n, " renewals"), func() bool { return w.client().Counts.Renewed >= n })
	}
	c := w.client().Counts
	if c.Rebound != 0 || c.Refused != 0 || c.Expired != 0 || server.said("DHCPDISCOVER") != 1 {
		t.Errorf("counts %+v", c)
	}
	// One message per renewal: each was answered by the server at once.
	if c.Sent > 2+c.Renewed+1 {
		t.Errorf("%d messages for %d renewals", c.Sent, c.Renewed)
	}
	if server.said("client provides name: web") == 0 {
		t.Error("the server was not told the name")
	}
}

func TestNetnsLinkdKilledAndStartedGoesOnWithItsLease(t *testing.T) {
	w := newWorld(t)
	server := w.dnsmasq(range4 + "120")
	w.WriteVIP(vip("default.web", schema.DHCPSpec{IPv4: true}))
	l := w.leased("default.web", true, nil)
	before := w.report("default.web")
	index := w.link("vip-1").Attrs().Index
	w.Kill()
	w.start()
	statetest.Eventually(t, "the next process reports", func() bool { return w.report("default.web").Instance != before.Instance })
	if after := w.report("default.web"); len(after.Leases) != 1 || after.Leases[0] != l {
		t.Errorf("leases %+v, want %+v", after.Leases, l)
	}
	if link := w.link("vip-1"); link == nil || link.Attrs().Index != index {
		t.Error("the link was made anew")
	}
	if n := server.said("DHCPREQUEST"); n != 1 {
		t.Errorf("the server was asked %d times", n)
	}
}

func TestNetnsLinkdKilledAtEveryMomentLosesNothing(t *testing.T) {
	w := newWorld(t)
	w.dnsmasq(range4 + "120")
	w.WriteVIP(vip("default.web", schema.DHCPSpec{IPv4: true}))
	var first netip.Addr
	for i := range 12 {
		time.Sleep(time.Duration(i) * 15 * time.Millisecond) // from before the link is made to after the lease
		w.Kill()
		w.start()
		if i == 6 {
			first = w.leased("default.web", true, nil).IP
		}
	}
	if l := w.leased("default.web", true, nil); l.IP != first {
		t.Errorf("address %s, before it was %s", l.IP, first)
	}
	names := 0
	for _, name := range w.names() {
		if name != "lo" && name != "eth0" && name != "vip-1" {
			t.Errorf("link %s was left", name)
		}
		names++
	}
	if names != 3 {
		t.Errorf("%d links", names)
	}
}

func TestNetnsAVanishedServerIsAskedAgainAndTheLeaseKept(t *testing.T) {
	w := newWorld(t)
	server := w.dnsmasq(range4+"120", "--dhcp-option-force=58,2", "--dhcp-option-force=59,4")
	w.WriteVIP(vip("default.web", schema.DHCPSpec{IPv4: true}))
	l := w.leased("default.web", true, nil)
	w.use(l)
	server.stop()
	statetest.Eventually(t, "everybody is asked", func() bool { return w.client().State == "rebinding" })
	if w.leased("default.web", true, nil).IP != l.IP {
		t.Error("the lease is not kept")
	}
	w.dnsmasq(range4+"120", "--dhcp-authoritative")
	// The next attempt of a long lease may be a minute away; a restart of linkd
	// goes on with the same lease and asks at once.
	w.Kill()
	w.start()
	statetest.Eventually(t, "it is renewed", func() bool {
		c := w.client()
		return c.State == "bound" && c.Counts.Renewed+c.Counts.Rebound > 0
	})
	if again := w.leased("default.web", true, nil); again.IP != l.IP {
		t.Errorf("address %s, before it was %s", again.IP, l.IP)
	}
}

func TestNetnsNAKAndAnotherAddress(t *testing.T) {
	w := newWorld(t)
	server := w.dnsmasq(range4+"120", "--dhcp-option-force=58,3", "--dhcp-option-force=59,60")
	w.WriteVIP(vip("default.web", schema.DHCPSpec{IPv4: true}))
	l := w.leased("default.web", true, nil)
	w.use(l)
	server.stop()
	w.must(os.Remove(filepath.Join(w.dir, "leases")))
	w.dnsmasq("--dhcp-range=198.51.100.170,198.51.100.180,255.255.255.0,120", "--dhcp-authoritative")
	start := time.Now()
	again := w.leased("default.web", true, func(n schema.Lease) bool { return n.IP != l.IP })
	t.Logf("another address %v after the server changed its mind", time.Since(start))
	if c := w.client().Counts; c.Refused != 1 {
		t.Errorf("counts %+v", c)
	}
	if len(w.report("default.web").Leases) != 1 || !netip.MustParsePrefix("198.51.100.168/29").Contains(again.IP) &&
		!netip.MustParsePrefix("198.51.100.176/29").Contains(again.IP) {
		t.Errorf("leases %+v", w.report("default.web").Leases)
	}
}

func TestNetnsAnExpiredLeaseLeavesTheReport(t *testing.T) {
	w := newWorld(t)
	server := w.dnsmasq(range4 + "120")
	w.WriteVIP(vip("default.web", schema.DHCPSpec{IPv4: true}))
	w.leased("default.web", true, nil)
	server.stop()
	// dnsmasq lends for two minutes at least: let the report say that they
	// are nearly over.
	w.Kill()
	s := w.report("default.web")
	for i := range s.Leases {
		s.Leases[i].ValidUntil -= int64(118 * time.Second)
		s.Leases[i].RenewAt, s.Leases[i].RebindAt = s.Leases[i].ValidUntil-2e9, s.Leases[i].ValidUntil-1e9
	}
	w.Write(ownership.Linkd, "links/default.web", &s)
	w.start()
	statetest.Eventually(t, "it is gone", func() bool {
		s := w.report("default.web")
		c, ok := schema.FindCondition(s.Conditions, schema.ConditionLeased)
		return len(s.Leases) == 0 && ok && c.Status == schema.False
	})
	w.dnsmasq(range4+"120", "--dhcp-authoritative")
	w.leased("default.web", true, nil)
}

func TestNetnsBothFamiliesAndRapidRestart(t *testing.T) {
	w := newWorld(t)
	w.dnsmasq(range4+"120", "--dhcp-range=2001:db8::100,2001:db8::1ff,64,120", "--enable-ra")
	w.WriteVIP(vip("default.web", schema.DHCPSpec{IPv4: true, IPv6: true, Hostname: "web"}))
	four, six := w.leased("default.web", true, nil), w.leased("default.web", false, nil)
	if six.Source != schema.SourceDHCP6 || six.PrefixLength != 128 || !netip.MustParsePrefix("2001:db8::/64").Contains(six.IP) {
		t.Errorf("lease %+v", six)
	}
	statetest.Eventually(t, "the report says so", func() bool {
		return schema.IsTrue(w.report("default.web").Conditions, schema.ConditionLeased)
	})
	w.Kill()
	w.start()
	if w.leased("default.web", true, nil) != four || w.leased("default.web", false, nil) != six {
		t.Errorf("leases %+v after a restart", w.report("default.web").Leases)
	}
}

func TestNetnsReleaseOnlyWhenTheServiceGoes(t *testing.T) {
	w := newWorld(t)
	server := w.dnsmasq(range4 + "120")
	web := vip("default.web", schema.DHCPSpec{IPv4: true})
	w.WriteVIP(web)
	first := w.leased("default.web", true, nil)
	unlinked := func() bool {
		s := w.report("default.web")
		return s.Observed == web.Seen() && schema.IsTrue(s.Conditions, schema.ConditionUnlinked)
	}

	web.State = schema.StateDraining
	w.WriteVIP(web)
	statetest.Eventually(t, "the link is down for the next owner", unlinked)
	if link := w.link("vip-1"); link == nil || link.Attrs().RawFlags&unix.IFF_UP != 0 {
		t.Fatal("the link is up, or gone, while the VIP drains")
	}
	web.State = schema.StateActive
	w.WriteVIP(web)
	if again := w.leased("default.web", true, nil); again.IP != first.IP || server.said("DHCPRELEASE") != 0 {
		t.Errorf("leases %s, then %s; released %d times", first.IP, again.IP, server.said("DHCPRELEASE"))
	}

	other := vip("default.other", schema.DHCPSpec{IPv4: true})
	w.WriteVIP(other)
	w.leased("default.other", true, func(l schema.Lease) bool { return l.IP == first.IP })
	web.State, web.Links[0].DHCP.Release = schema.StateWithdrawn, true
	w.WriteVIP(web)
	statetest.Eventually(t, "the other owns the link", func() bool { return w.link("vip-1").Attrs().Alias == "vipod::default.other" })
	if server.said("DHCPRELEASE") != 0 {
		t.Error("released while another Service has it")
	}
	other.State, other.Links[0].DHCP.Release = schema.StateWithdrawn, true
	w.WriteVIP(other)
	statetest.Eventually(t, "it is released, and the link gone", func() bool { return server.said("DHCPRELEASE") == 1 && w.link("vip-1") == nil })
}

func TestNetnsTheLinkIsDownOnceTheGrantHasEnded(t *testing.T) {
	w := newWorld(t)
	w.dnsmasq(range4 + "120")
	w.WriteVIP(vip("default.web", schema.DHCPSpec{IPv4: true}))
	l := w.leased("default.web", true, nil)
	w.Grant(300 * time.Millisecond)
	statetest.Eventually(t, "the link is down", func() bool { return w.link("vip-1").Attrs().RawFlags&unix.IFF_UP == 0 })
	w.Grant(time.Hour)
	w.leased("default.web", true, func(n schema.Lease) bool { return n.IP == l.IP })
}

func TestNetnsALinkThatSomebodyRemovesIsMadeAgainWithItsLease(t *testing.T) {
	w := newWorld(t)
	server := w.dnsmasq(range4 + "120")
	w.WriteVIP(vip("default.web", schema.DHCPSpec{IPv4: true}))
	l := w.leased("default.web", true, nil)
	index := w.link("vip-1").Attrs().Index
	w.node.Delete(t, "vip-1")
	statetest.Eventually(t, "it is there under another index, and used", func() bool {
		link, s := w.link("vip-1"), w.report("default.web")
		return link != nil && link.Attrs().Index != index && len(s.Links) == 1 && s.Links[0].Index == link.Attrs().Index
	})
	if again := w.leased("default.web", true, nil); again != l {
		t.Errorf("lease %+v, before it was %+v", again, l)
	}
	if server.said("DHCPDISCOVER") != 1 {
		t.Error("searched anew")
	}
}

func TestNetnsCleanUpOnlyWhenThePodGoes(t *testing.T) {
	w := newWorld(t)
	server := w.dnsmasq(range4 + "120")
	w.WriteVIP(vip("default.web", schema.DHCPSpec{IPv4: true}))
	w.leased("default.web", true, nil)
	w.WriteNode(w.Node(func(n *schema.Node) { n.Phase = schema.PhaseStopped }))
	w.Signal(syscall.SIGTERM)
	w.Exited()
	if w.link("vip-1") != nil || server.said("DHCPRELEASE") != 0 {
		t.Error("the link is left, or the lease was given back")
	}
}

func TestNetnsTwoHundredServicesAtOnceEachGetAnAddress(t *testing.T) {
	w := newWorld(t)
	server := w.dnsmasq("--dhcp-range=198.51.100.20,198.51.100.250,255.255.255.0,120", "--dhcp-lease-max=1000")
	const services = 200
	key := func(i int) string { return fmt.Sprintf("default.web-%d", i) }
	start := time.Now()
	for i := range services {
		v := vip(key(i), schema.DHCPSpec{IPv4: true})
		v.Links[0].Name, v.Links[0].MAC = fmt.Sprintf("vip-%d", i), fmt.Sprintf("02:00:00:00:01:%02x", i)
		w.WriteVIP(v)
	}
	written := time.Since(start)
	var one time.Duration
	addrs := map[netip.Addr]bool{}
	for i := range services {
		addrs[w.leased(key(i), true, nil).IP] = true
		if i == 0 {
			one = time.Since(start)
		}
	}
	t.Logf("%d documents written after %v; the first leased after %v, all after %v; the server saw %d DISCOVER",
		services, written, one, time.Since(start), server.said("DHCPDISCOVER"))
	if len(addrs) != services {
		t.Errorf("%d addresses for %d Services", len(addrs), services)
	}
	w.Kill()
	asked := server.said("DHCPREQUEST")
	w.start()
	start = time.Now()
	statetest.Eventually(t, "the next process goes on with all", func() bool { return w.report(key(0)).Instance != "" && w.client().State == "bound" })
	t.Logf("restarted after %v", time.Since(start))
	if n := server.said("DHCPREQUEST"); n != asked {
		t.Errorf("the server was asked %d times by a process that had all leases", n-asked)
	}
}
