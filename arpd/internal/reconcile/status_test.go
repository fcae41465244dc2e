package reconcile

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vipod/vipod/arpd/internal/frame"
	"github.com/vipod/vipod/arpd/internal/plan"
	"github.com/vipod/vipod/arpd/internal/schedule"
	"github.com/vipod/vipod/shared/schema"
)

const stranger = frame.MAC("\x02\x00\x00\x00\x00\x66")

var (
	key4 = plan.Key{Link: 7, IP: netip.MustParseAddr("198.51.100.7")}
	key6 = plan.Key{Link: 7, IP: netip.MustParseAddr("2001:db8::7")}
)

func vipOf(state schema.State, reason4, reason6 plan.Reason) plan.VIP {
	return plan.VIP{Key: "default.web", State: state, Addresses: []plan.Address{
		{Key: key4, Interface: "lan0", Reason: reason4}, {Key: key6, Interface: "lan0", Reason: reason6},
	}}
}

// both are the states of the two addresses, announced or not, with a conflict
// of the second.
func both(a4, a6 bool, conflict frame.MAC) schedule.States {
	return schedule.States{Addresses: map[plan.Key]schedule.State{
		key4: {Announced: a4, Err: errors.New("no buffer space")}, key6: {Announced: a6, Conflict: conflict},
	}}
}

func probes(u4, u6 schema.ConditionStatus) schedule.States {
	of := func(u schema.ConditionStatus) schedule.ProbeState {
		if u == schema.False {
			return schedule.ProbeState{Unclaimed: u, MAC: stranger}
		}
		return schedule.ProbeState{Unclaimed: u}
	}
	return schedule.States{Probes: map[string]map[plan.Key]schedule.ProbeState{
		"default.web": {key4: of(u4), key6: of(u6)},
	}}
}

func TestConditionsSayWhatIsAndWhy(t *testing.T) {
	for name, c := range map[string]struct {
		vip    plan.VIP
		states schedule.States
		want   map[string]string // type to "status reason"
	}{
		"all announced": {vipOf(schema.StateActive, "", ""), both(true, true, ""), map[string]string{
			"Announced": "True Announced", "Conflict": "False NoClaim",
		}},
		"one not sent yet": {vipOf(schema.StateActive, "", ""), both(false, true, ""), map[string]string{
			"Announced": "False NotSent", "Conflict": "False NoClaim",
		}},
		"one not in the kernel": {vipOf(schema.StateActive, "", plan.NotPresent), both(true, false, ""), map[string]string{
			"Announced": "False NotPresent", "Conflict": "False NoClaim",
		}},
		"one not asked for": {vipOf(schema.StateActive, "", plan.NotAsked), both(true, false, ""), map[string]string{
			"Announced": "True Announced", "Conflict": "False NoClaim",
		}},
		"none asked for": {vipOf(schema.StateActive, plan.NotAsked, plan.NotAsked), both(false, false, ""), map[string]string{
			"Announced": "False NotAsked", "Conflict": "False NoClaim",
		}},
		"a conflict": {vipOf(schema.StateActive, "", ""), both(true, true, stranger), map[string]string{
			"Announced": "True Announced", "Conflict": "True Claimed",
		}},
		"draining": {vipOf(schema.StateDraining, plan.NotActive, plan.NotActive), both(true, true, ""), map[string]string{
			"Announced": "False NotActive", "Conflict": "False NoClaim",
		}},
		"free": {vipOf(schema.StateStandby, "", ""), probes(schema.True, schema.True), map[string]string{
			"Announced": "False NotActive", "Conflict": "False NoClaim", "Unclaimed": "True NoAnswer",
		}},
		"taken": {vipOf(schema.StateStandby, "", ""), probes(schema.False, schema.True), map[string]string{
			"Announced": "False NotActive", "Conflict": "False NoClaim", "Unclaimed": "False AnsweredBy",
		}},
		"taken while the other is still asked for": {vipOf(schema.StateStandby, "", ""), probes(schema.False, schema.Unknown), map[string]string{
			"Announced": "False NotActive", "Conflict": "False NoClaim", "Unclaimed": "Unknown Probing",
		}},
		"nothing started": {vipOf(schema.StateStandby, "", ""), schedule.States{}, map[string]string{
			"Announced": "False NotActive", "Conflict": "False NoClaim", "Unclaimed": "Unknown Probing",
		}},
		"link is down": {vipOf(schema.StateStandby, "", plan.LinkDown), probes(schema.True, ""), map[string]string{
			"Announced": "False NotActive", "Conflict": "False NoClaim", "Unclaimed": "Unknown LinkDown",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			got := map[string]string{}
			for _, c := range statusOf(c.vip, c.states).Conditions {
				got[c.Type] = string(c.Status) + " " + c.Reason
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheStrangersMACStandsBesideTheAddress(t *testing.T) {
	s := statusOf(vipOf(schema.StateActive, "", ""), both(true, true, stranger))
	if s.Addresses[0].ConflictMAC != "" || s.Addresses[1].ConflictMAC != "02:00:00:00:00:66" {
		t.Errorf("got %+v", s.Addresses)
	}
	s = statusOf(vipOf(schema.StateStandby, "", ""), probes(schema.False, schema.True))
	if s.Addresses[0].ConflictMAC != "02:00:00:00:00:66" || s.Addresses[1].ConflictMAC != "" {
		t.Errorf("got %+v", s.Addresses)
	}
}
