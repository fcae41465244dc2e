package linkd

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/vipod/vipod/linkd/internal/reconcile"
	"github.com/vipod/vipod/shared/schema"
	"github.com/vipod/vipod/shared/statetest"
)

// keaTimes are what the servers say of a lease, in seconds.
type keaTimes struct{ renew, rebind, valid int }

// kea runs Kea's servers of both families, which remember leases in files of
// the world. They lend the first address of a pool each to the first client;
// that of vip gets what is reserved for it, if anything is.
func (w *world) kea(times keaTimes, reserved ...string) (four, six *server) {
	w.t.Helper()
	return w.keaServer("4", times, "198.51.100.0/24", "198.51.100.150-198.51.100.160", "ip-address", reserved),
		w.keaServer("6", times, "2001:db8::/64", "2001:db8::150-2001:db8::160", "ip-addresses", reserved)
}

func (w *world) keaServer(family string, times keaTimes, subnet, pool, address string, reserved []string) *server {
	w.t.Helper()
	interfaces := map[string]any{
		"interfaces": []string{"lan0"}, "service-sockets-require-all": true,
		"service-sockets-max-retries": 25, "service-sockets-retry-wait-time": 200, // the link's own address may be new
	}
	net := map[string]any{"id": 1, "subnet": subnet, "pools": []any{map[string]any{"pool": pool}}, "interface": "lan0"}
	for i, ip := range reserved {
		switch {
		case family == "4" && i == 0:
			net["reservations"] = []any{map[string]any{"hw-address": "02:00:00:00:00:09", address: ip}}
		case family == "6" && i == 1:
			net["reservations"] = []any{map[string]any{"hw-address": "02:00:00:00:00:09", address: []string{ip}}}
		}
	}
	service := map[string]any{
		"interfaces-config": interfaces, "subnet" + family: []any{net},
		"lease-database": map[string]any{"type": "memfile", "name": filepath.Join(w.dir, "kea"+family+".csv"), "lfc-interval": 0},
		"valid-lifetime": times.valid, "renew-timer": times.renew, "rebind-timer": times.rebind,
		"loggers": []any{map[string]any{
			"name": "kea-dhcp" + family, "severity": "INFO",
			"output_options": []any{map[string]any{"output": "stdout"}},
		}},
	}
	if family == "4" {
		service["authoritative"] = true
	} else {
		service["preferred-lifetime"] = times.valid
		// Else it would keep one in a directory of the machine.
		service["server-id"] = map[string]any{"type": "LL", "htype": 1, "identifier": "020000000001", "persist": false}
	}
	text, err := json.Marshal(map[string]any{"Dhcp" + family: service})
	w.must(err)
	config := filepath.Join(w.dir, "kea"+family+".conf")
	w.must(os.WriteFile(config, text, 0o600))
	s := w.run("env", "KEA_LOCKFILE_DIR="+w.dir, "KEA_PIDFILE_DIR="+w.dir, "kea-dhcp"+family, "-c", config)
	statetest.Eventually(w.t, "Kea serves DHCPv"+family, func() bool { return s.said("DHCP"+family+"_STARTED") > 0 })
	return s
}

// clientsOf are the clients of a link, by whether their addresses are of IPv4;
// one without an address is not among them.
func (w *world) clientsOf(link string) map[bool]reconcile.ClientReport {
	w.t.Helper()
	found := map[bool]reconcile.ClientReport{}
	out, err := w.Ask("/status")
	if err != nil {
		return found // not started yet
	}
	var r reconcile.Report
	w.must(decode(out, &r))
	for _, l := range r.Links {
		for _, c := range l.Clients {
			if ip, err := netip.ParseAddr(c.Address); err == nil && l.Name == link {
				found[ip.Is4()] = c
			}
		}
	}
	return found
}

var bothFamilies = schema.DHCPSpec{IPv4: true, IPv6: true}

func TestNetnsKeaLeasesOfTwentySecondsAreRenewedTenTimes(t *testing.T) {
	t.Parallel() // it waits most of the time
	w := newWorld(t)
	w.radvd()
	four, six := w.kea(keaTimes{1, 12, 20})
	sniffer := w.run("tcpdump", "-i", "lan0", "-nn", "-e", "-l", "udp port 67 or udp port 547")
	statetest.Eventually(t, "frames are watched", func() bool { return sniffer.said("listening on") > 0 })
	// Two Services share the macvlan, and so its leases.
	w.WriteVIP(vip("default.one", bothFamilies))
	w.WriteVIP(vip("default.two", bothFamilies))
	for _, is4 := range []bool{true, false} {
		one := w.leased("default.one", is4, nil)
		w.use(one)
		two := w.leased("default.two", is4, func(l schema.Lease) bool { return l.IP == one.IP })
		if two.Interface != one.Interface {
			t.Errorf("leases %+v and %+v of two Services that share a link", one, two)
		}
	}
	for _, n := range []uint64{3, 6, 10} {
		statetest.Eventually(t, fmt.Sprint(n, " renewals of each family"), func() bool {
			c := w.clientsOf("vip-1")
			return c[true].Counts.Renewed >= n && c[false].Counts.Renewed >= n
		})
	}
	for is4, c := range w.clientsOf("vip-1") {
		if c.Counts.Rebound+c.Counts.Expired+c.Counts.Refused+c.Counts.Failed != 0 {
			t.Errorf("IPv4 %t: counts %+v", is4, c.Counts)
		}
		if c.Counts.Sent > 2+c.Counts.Renewed+1 {
			t.Errorf("IPv4 %t: %d messages for %d renewals", is4, c.Counts.Sent, c.Counts.Renewed)
		}
	}
	if a, b := four.said("DHCP4_LEASE_ADVERT"), six.said("DHCP6_LEASE_ADVERT"); a != 1 || b != 1 {
		t.Errorf("addresses were offered %d and %d times, want once for both Services", a, b)
	}
	lent := regexp.QuoteMeta(w.leased("default.one", true, nil).IP.String())
	for what, pattern := range map[string]string{
		"renewals by unicast from the macvlan's own addresses": `02:00:00:00:00:09 > [0-9a-f:]+, ethertype IPv4.* ` + lent + `\.68 > 198\.51\.100\.1\.67`,
		"messages of DHCPv6 from its hardware address":         `02:00:00:00:00:09 > 33:33:00:01:00:02, ethertype IPv6`,
	} {
		seen := regexp.MustCompile(pattern)
		statetest.Eventually(t, "10 "+what, func() bool { return len(seen.FindAllString(sniffer.log.String(), -1)) >= 10 })
	}
	if !strings.Contains(w.ip("-6", "route", "show", "default"), "proto ra") {
		t.Error("no router advertisement has come")
	}
}

func TestNetnsKeaThatVanishesIsFoundAgain(t *testing.T) {
	t.Parallel() // it waits most of the time
	w := newWorld(t)
	times := keaTimes{1, 2, 7}
	servers := func() (s []*server) {
		four, six := w.kea(times)
		return []*server{four, six}
	}
	stop := func(list []*server) {
		for _, s := range list {
			s.stop()
		}
	}
	running := servers()
	w.WriteVIP(vip("default.web", bothFamilies))
	addrs := map[bool]netip.Addr{}
	for _, is4 := range []bool{true, false} {
		l := w.leased("default.web", is4, nil)
		w.use(l)
		addrs[is4] = l.IP
	}
	stop(running)
	statetest.Eventually(t, "everybody is asked", func() bool {
		c := w.clientsOf("vip-1")
		return c[true].State == "rebinding" && c[false].State == "rebinding"
	})
	running = servers()
	statetest.Eventually(t, "both are rebound", func() bool {
		c := w.clientsOf("vip-1")
		return c[true].Counts.Rebound > 0 && c[false].Counts.Rebound > 0
	})
	for is4, c := range w.clientsOf("vip-1") {
		if c.Address != addrs[is4].String() || c.Counts.Expired != 0 {
			t.Errorf("%s after %d expiries, before it was %s", c.Address, c.Counts.Expired, addrs[is4])
		}
	}
	stop(running)
	statetest.Eventually(t, "the leases end with their time", func() bool { return len(w.report("default.web").Leases) == 0 })
	servers()
	for is4, ip := range addrs {
		w.leased("default.web", is4, func(l schema.Lease) bool { return l.IP == ip })
	}
}

func TestNetnsKeaRefusesAndLendsAnotherAddress(t *testing.T) {
	w := newWorld(t)
	four, six := w.kea(keaTimes{1, 30, 60})
	w.WriteVIP(vip("default.web", bothFamilies))
	w.use(w.leased("default.web", true, nil))
	w.use(w.leased("default.web", false, nil))
	four.stop()
	six.stop()
	w.kea(keaTimes{1, 30, 60}, "198.51.100.170", "2001:db8::170")
	for is4, ip := range map[bool]string{true: "198.51.100.170", false: "2001:db8::170"} {
		w.leased("default.web", is4, func(l schema.Lease) bool { return l.IP.String() == ip })
	}
	if n := len(w.report("default.web").Leases); n != 2 {
		t.Errorf("%d leases, want the new ones alone", n)
	}
	if c := w.clientsOf("vip-1")[true]; c.Counts.Refused == 0 {
		t.Errorf("counts %+v without a NAK", c.Counts)
	}
}

func TestNetnsKeaIsToldOfAnAddressThatAnotherHostHas(t *testing.T) {
	t.Parallel() // it waits most of the time
	w := newWorld(t)
	four, six := w.kea(keaTimes{10, 15, 20})
	web := vip("default.web", bothFamilies)
	w.WriteVIP(web)
	taken := []netip.Addr{w.leased("default.web", true, nil).IP, w.leased("default.web", false, nil).IP}
	web.Links[0].DHCP.Declined = taken // as elector does, when arpd found the other host
	w.WriteVIP(web)
	for i, is4 := range []bool{true, false} {
		w.leased("default.web", is4, func(l schema.Lease) bool { return l.IP != taken[i] })
	}
	if a, b := four.said("DHCP4_DECLINE_LEASE ", taken[0].String()), six.said("DHCP6_DECLINE_LEASE ", taken[1].String()); a != 1 || b != 1 {
		t.Errorf("the servers were told %d and %d times", a, b)
	}
}
