package main

import (
	"net/netip"
	"os/exec"
	"strings"
	"testing"

	"github.com/vipod/vipod/shared/ownership"
	"github.com/vipod/vipod/shared/schema"
	"github.com/vipod/vipod/shared/statetest"
)

// podsVIP writes a document about an address that pods have themselves.
func (r *rig) podsVIP(key, ip string, via ...string) {
	r.t.Helper()
	doc := statetest.VIP(key, schema.StateActive, "", ip)
	doc.Kind, doc.Grant, doc.Epoch, doc.Announce = schema.KindPods, schema.GrantNone, "", []schema.Announce{schema.AnnounceBGP}
	for _, pod := range via {
		doc.Via = append(doc.Via, netip.MustParseAddr(pod))
	}
	r.WriteVIP(doc)
}

// hops returns the routes of the main table to an address that are ours.
func (r *rig) hops(ip string) string {
	family := "-4"
	if strings.Contains(ip, ":") {
		family = "-6"
	}
	out, _ := exec.Command("ip", family, "route", "show", ip, "proto", "248").Output() // none is an error for ip
	return strings.Join(strings.Fields(string(out)), " ")
}

func TestNetnsAddressesOfPodsAreRoutedToThem(t *testing.T) {
	r := newRig(t)
	r.synced()
	r.check(exec.Command("ip", "route", "add", "203.0.113.99/32", "via", "198.51.100.2", "proto", "248").Run())
	r.podsVIP("_pods.203.0.113.9", "203.0.113.9", "198.51.100.2", "198.51.100.3")
	r.podsVIP("_pods.203.0.113.10", "203.0.113.10", "192.0.2.77")
	r.Start()
	r.eventually("both pods are next hops", func() bool {
		got := r.hops("203.0.113.9")
		return strings.Contains(got, "nexthop via 198.51.100.2 ") && strings.Contains(got, "nexthop via 198.51.100.3 ")
	})
	r.eventually("the stray is gone", func() bool { return r.hops("203.0.113.99") == "" })
	r.eventually("it is reported", func() bool {
		good, err := r.Status(ownership.Vipd, "_pods.203.0.113.9")
		bad, berr := r.Status(ownership.Vipd, "_pods.203.0.113.10")
		c, _ := schema.FindCondition(bad.Conditions, schema.ConditionPresent)
		return err == nil && berr == nil && schema.IsTrue(good.Conditions, schema.ConditionPresent) && c.Reason == "KernelError"
	})
	r.podsVIP("_pods.203.0.113.9", "203.0.113.9", "198.51.100.3")
	r.eventually("one pod is left", func() bool { return strings.HasPrefix(r.hops("203.0.113.9"), "203.0.113.9 via 198.51.100.3 ") })
	r.DropVIP("_pods.203.0.113.9")
	r.eventually("none is left", func() bool { return r.hops("203.0.113.9") == "" })
}
