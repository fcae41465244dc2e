package e2e

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/vipod/vipod/deploy/lab"
)

func TestE2EAnAddressFromDHCPThatAnotherHostHasIsDeclined(t *testing.T) {
	e := begin(t)
	name := "declining"
	taken := []netip.Addr{netip.MustParseAddr("198.51.100.157"), netip.MustParseAddr("2001:db8:0:1::df0")}
	mac := e.newStranger()
	for _, ip := range taken {
		e.takes(ip)
	}
	// Addresses of its own: what was declined is for a minute.
	k := kea{env: e, dir: t.TempDir(), pool4: "198.51.100.157-198.51.100.158", pool6: "2001:db8:0:1::df0-2001:db8:0:1::dff"}
	four, six := k.four(""), k.six()
	e.create(lab.ServiceSpec{Name: name, VIPs: anyAddrs, Pods: e.allPods()})
	for _, ip := range taken {
		e.told(takeover+soon, name, "AddressRefused", ip.String(), "another host has it")
	}
	var addrs []netip.Addr
	took := e.within(40*time.Second, "the Service has another address of each family", func() error {
		addrs = ingress(e.service(name))
		if len(addrs) != 2 || !lent4.Contains(addrs[0]) || !lent6.Contains(addrs[1]) {
			return fmt.Errorf("status %v", addrs)
		}
		return nil
	})
	t.Logf("served %v after it was told that others have %v", took, taken)
	owner := e.owned(name)
	for i, ip := range addrs {
		if slices.Contains(taken, ip) {
			t.Errorf("served %s, which another host has", ip)
		}
		e.must(e.only(owner, ip))
		e.answers(ip, 80)
		e.must(e.nowhere(taken[i]))
	}
	if a, b := four.said("DHCP4_DECLINE_LEASE ", taken[0].String()), six.said("DHCP6_DECLINE_LEASE ", taken[1].String()); a != 1 || b != 1 {
		t.Errorf("the servers were told %d and %d times that %s has %v", a, b, mac, taken)
	}
}
