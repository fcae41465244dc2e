package daemon

import (
	"context"
	"log/slog"
	"time"

	"github.com/vipod/vipod/shared/bootclock"
	"github.com/vipod/vipod/shared/intent"
	"github.com/vipod/vipod/shared/ownership"
	"github.com/vipod/vipod/shared/schema"
	"github.com/vipod/vipod/shared/sock"
)

// Leave is what a daemon does about its kernel objects when it exits.
type Leave int

const (
	// Keep leaves everything in place: only this container is being replaced,
	// and the successor adopts what it finds.
	Keep Leave = iota
	// CleanUp removes everything of ours: the whole pod goes.
	CleanUp
)

// Times of the stop order.
const (
	// replaceWait is how long elector has to say that the whole pod stops.
	replaceWait = 1500 * time.Millisecond
	// stopWait is the longest that a daemon works on after its SIGTERM.
	stopWait = 20 * time.Second
	stopPoll = 20 * time.Millisecond
)

// AwaitStop is called by every daemon but elector after its SIGTERM, while it
// still works. All containers of a pod get SIGTERM at once, so elector's
// document decides: while it is handing over VIPs the others must go on
// serving it.
//
// It returns CleanUp once elector stopped, or is silent and no grant is left,
// or after 20 s; and Keep when elector goes on running.
func AwaitStop(ctx context.Context, log *slog.Logger, stateDir string) Leave {
	s := stopper{stateDir: stateDir, elector: sock.NewClient(stateDir, ownership.Elector), start: bootclock.Now()}
	tick := time.NewTicker(stopPoll)
	defer tick.Stop()
	for {
		leave, why := s.decide(ctx)
		if ctx.Err() != nil {
			return Keep // elector's silence means nothing then
		}
		if why != "" {
			log.Info("stopping", "reason", why, "cleanUp", leave == CleanUp)
			return leave
		}
		select {
		case <-ctx.Done():
			return Keep
		case <-tick.C:
		}
	}
}

type stopper struct {
	stateDir string
	elector  *sock.Client
	start    time.Duration
}

// decide returns a reason once the decision is made.
func (s *stopper) decide(ctx context.Context) (Leave, string) {
	waited := bootclock.Now() - s.start
	if waited > stopWait {
		return CleanUp, "waited long enough"
	}
	phase := s.phase()
	if phase == schema.PhaseStopped {
		return CleanUp, "elector stopped"
	}
	if phase == schema.PhaseRunning && waited < replaceWait {
		return Keep, "" // elector may not have got its own SIGTERM yet
	}
	if s.answers(ctx) {
		if phase == schema.PhaseRunning {
			return Keep, "container replaced"
		}
		return Keep, "" // elector is handing over
	}
	if !s.granted() {
		return CleanUp, "elector is silent and the grant has ended"
	}
	return Keep, ""
}

func (s *stopper) phase() schema.Phase {
	n, err := intent.ReadNode(s.stateDir)
	if err != nil {
		return ""
	}
	return n.Phase
}

func (s *stopper) answers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_, err := s.elector.Get(ctx, "/healthz")
	return err == nil
}

func (s *stopper) granted() bool {
	boot, err := bootclock.ID()
	if err != nil {
		return false
	}
	grants, err := intent.ReadGrants(s.stateDir, boot)
	return err == nil && len(grants.Held(bootclock.Now())) > 0
}
