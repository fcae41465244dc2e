package main

import (
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/vipod/vipod/shared/ownership"
	"github.com/vipod/vipod/shared/schema"
	"github.com/vipod/vipod/shared/statetest"
)

// routeVIP writes a document of routing-table mode.
func (r *rig) routeVIP(key string, state schema.State, ips ...string) {
	r.t.Helper()
	doc := statetest.VIP(key, state, "", ips...)
	doc.Grant, doc.Epoch = schema.GrantNone, ""
	doc.Announce, doc.Route = []schema.Announce{schema.AnnounceRoute}, &schema.Route{Type: 1, Interface: "v0"}
	r.WriteVIP(doc)
}

// table returns the routes of a table, one a line.
func (r *rig) table(family string) string {
	r.t.Helper()
	out, _ := exec.Command("ip", family, "route", "show", "table", "198").Output() // none is an error for ip
	return string(out)
}

func TestNetnsRoutesFollowTheDocuments(t *testing.T) {
	r := newRig(t)
	r.node.Settings.RoutingTable = 198
	r.synced()
	for _, args := range []string{"198.51.100.70/32 dev v0 table 198 proto 17", "198.51.100.9/32 dev v0 table 198 proto 248"} {
		r.check(exec.Command("ip", append([]string{"route", "add"}, strings.Fields(args)...)...).Run())
	}
	r.routeVIP("default.web", schema.StateActive, "203.0.113.7", "2001:db8:7::7")
	r.routeVIP("default.foreign", schema.StateActive, "198.51.100.70")
	r.Start()
	r.eventually("both routes are there", func() bool {
		return strings.Contains(r.table("-4"), "203.0.113.7 dev v0 proto 248") && strings.Contains(r.table("-6"), "2001:db8:7::7 dev v0 proto 248")
	})
	r.eventually("the stray is gone", func() bool { return !strings.Contains(r.table("-4"), "198.51.100.9 ") })
	r.eventually("it is reported", func() bool {
		s, err := r.Status(ownership.Vipd, "default.web")
		f, ferr := r.Status(ownership.Vipd, "default.foreign")
		c, _ := schema.FindCondition(f.Conditions, schema.ConditionPresent)
		return err == nil && ferr == nil && schema.IsTrue(s.Conditions, schema.ConditionPresent) && c.Reason == "ForeignRoute"
	})
	if _, ok := r.address("203.0.113.7"); ok {
		t.Error("the address is on a link")
	}
	r.check(exec.Command("ip", "route", "del", "203.0.113.7/32", "table", "198").Run())
	took := r.eventually("it is repaired", func() bool { return strings.Contains(r.table("-4"), "203.0.113.7 ") })
	t.Logf("repaired after %s", took)
	r.Kill()
	r.DropVIP("default.web")
	r.Start()
	r.eventually("what went meanwhile is gone", func() bool { return !strings.Contains(r.table("-4")+r.table("-6"), "proto 248") })
	r.routeVIP("default.web", schema.StateActive, "203.0.113.7")
	r.eventually("it comes back", func() bool { return strings.Contains(r.table("-4"), "203.0.113.7 ") })
	r.writeNode(func(n *schema.Node) { n.Phase = schema.PhaseStopped })
	r.Signal(syscall.SIGTERM)
	r.Exited()
	if got := r.table("-4"); strings.Contains(got, "248") || !strings.Contains(got, "198.51.100.70 dev v0 proto 17") {
		t.Errorf("left: %s", got)
	}
}
