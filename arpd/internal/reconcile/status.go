package reconcile

import (
	"fmt"

	"github.com/vipod/vipod/arpd/internal/plan"
	"github.com/vipod/vipod/arpd/internal/schedule"
	"github.com/vipod/vipod/shared/schema"
)

// statusOf makes the report about one document.
func statusOf(v plan.VIP, states schedule.States) schema.Status {
	s := schema.Status{Key: v.Key, Observed: v.Seen, Conditions: []schema.Condition{announced(v, states), conflict(v, states)}}
	if v.State == schema.StateStandby {
		s.Conditions = append(s.Conditions, unclaimed(v, states))
	}
	for _, a := range v.Addresses {
		stranger := states.Addresses[a.Key].Conflict
		if v.State == schema.StateStandby {
			stranger = states.Probes[v.Key][a.Key].MAC
		}
		out := schema.AddressStatus{IP: a.IP, Interface: a.Interface}
		if stranger != "" {
			out.ConflictMAC = stranger.String()
		}
		s.Addresses = append(s.Addresses, out)
	}
	return s
}

// announced is True when every address that shall be announced by frames has
// been.
func announced(v plan.VIP, states schedule.States) schema.Condition {
	c := schema.Condition{Type: schema.ConditionAnnounced, Status: schema.False, Reason: string(plan.NotAsked)}
	if v.State != schema.StateActive {
		c.Reason, c.Message = string(plan.NotActive), fmt.Sprintf("the document's state is %s", v.State)
		return c
	}
	for _, a := range v.Addresses {
		state := states.Addresses[a.Key]
		switch {
		case a.Reason == plan.NotAsked:
		case a.Reason != "":
			c.Status, c.Reason = schema.False, string(a.Reason)
			c.Message = fmt.Sprintf("%s on %s: %s", a.IP, a.Interface, explain[a.Reason])
			return c
		case !state.Announced:
			c.Status, c.Reason = schema.False, "NotSent"
			c.Message = fmt.Sprintf("%s on %s: no frame went out yet", a.IP, a.Interface)
			if state.Err != nil {
				c.Message += ": " + state.Err.Error()
			}
			return c
		default:
			c.Status, c.Reason = schema.True, "Announced"
		}
	}
	return c
}

// explain has a sentence for each reason.
var explain = map[plan.Reason]string{
	plan.Shared:     "another VIP with this address is draining",
	plan.NoGrant:    "this node holds no valid grant",
	plan.NoLink:     "there is no such interface",
	plan.LinkDown:   "the interface is down or has no carrier",
	plan.NoHardware: "the interface has no link-layer address",
	plan.NotPresent: "the address is not in the kernel with our protocol number",
}

func conflict(v plan.VIP, states schedule.States) schema.Condition {
	for _, a := range v.Addresses {
		if mac := states.Addresses[a.Key].Conflict; mac != "" && v.State == schema.StateActive {
			return schema.Condition{
				Type: schema.ConditionConflict, Status: schema.True, Reason: "Claimed",
				Message: fmt.Sprintf("%s on %s is also claimed by %s", a.IP, a.Interface, mac),
			}
		}
	}
	return schema.Condition{Type: schema.ConditionConflict, Status: schema.False, Reason: "NoClaim"}
}

// unclaimed is about a standby document. It stays Unknown until every address
// has a result, so that a reader may take an address without a ConflictMAC for
// free as soon as it is not; then one address with an answer makes it False.
func unclaimed(v plan.VIP, states schedule.States) schema.Condition {
	c := schema.Condition{Type: schema.ConditionUnclaimed, Status: schema.True, Reason: "NoAnswer"}
	for _, a := range v.Addresses {
		probe := states.Probes[v.Key][a.Key]
		switch {
		case a.Reason == plan.NotAsked || a.Reason == plan.NoHardware:
			// Nobody on this link could have it.
		case a.Reason != "":
			c.Status, c.Reason = schema.Unknown, string(a.Reason)
			c.Message = fmt.Sprintf("%s on %s: %s", a.IP, a.Interface, explain[a.Reason])
			return c
		case probe.Unclaimed == schema.False:
			c.Status, c.Reason = schema.False, "AnsweredBy"
			c.Message = fmt.Sprintf("%s answers for %s on %s", probe.MAC, a.IP, a.Interface)
		case probe.Unclaimed != schema.True:
			c.Status, c.Reason = schema.Unknown, "Probing"
			c.Message = fmt.Sprintf("asking on %s who has %s", a.Interface, a.IP)
			return c
		}
	}
	return c
}
