package schedule

import (
	"time"

	"github.com/vipod/vipod/arpd/internal/frame"
	"github.com/vipod/vipod/arpd/internal/plan"
	"github.com/vipod/vipod/shared/schema"
)

// State is what is known about an address that is being announced.
type State struct {
	// Announced: a first frame went out.
	Announced bool
	// Sent is when the last frame went out, on the caller's clock.
	Sent   time.Duration
	Frames uint64
	// Err is why the last frame did not go out, nil when it did.
	Err error
	// Conflict is the link-layer address of another host that claims it.
	Conflict frame.MAC
}

// ProbeState is what is known about an address that is probed: Unknown, True
// for unclaimed, False for claimed by MAC.
type ProbeState struct {
	Unclaimed schema.ConditionStatus
	MAC       frame.MAC
}

// States are all states at one moment.
type States struct {
	Addresses map[plan.Key]State
	// Probes are by document and address.
	Probes map[string]map[plan.Key]ProbeState
}

// States returns a copy of all states.
func (s *Schedule) States() States {
	out := States{
		Addresses: make(map[plan.Key]State, len(s.addresses)),
		Probes:    map[string]map[plan.Key]ProbeState{},
	}
	for key, a := range s.addresses {
		out.Addresses[key] = State{
			Announced: a.announced, Sent: a.sent, Frames: a.frames, Err: a.err, Conflict: a.conflict.mac,
		}
	}
	for key, p := range s.probes {
		if out.Probes[key.document] == nil {
			out.Probes[key.document] = map[plan.Key]ProbeState{}
		}
		out.Probes[key.document][key.Key] = ProbeState{Unclaimed: p.result, MAC: p.mac}
	}
	return out
}
