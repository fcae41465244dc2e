// Package reconcile makes what is announced and probed match elector's
// documents and the kernel's addresses, and reports it. A pass reads
// everything, plans and hands the plan to the engine; what woke it does not
// matter. Reports are written by a loop of their own, so that no disk stands
// between an address and its announcement.
package reconcile

import (
	"context"
	"log/slog"
	"maps"
	"net/netip"
	"sync"
	"time"

	"github.com/vipod/vipod/arpd/internal/engine"
	"github.com/vipod/vipod/arpd/internal/frame"
	"github.com/vipod/vipod/arpd/internal/plan"
	"github.com/vipod/vipod/shared/intent"
	"github.com/vipod/vipod/shared/netsafe"
	"github.com/vipod/vipod/shared/pulse"
	"github.com/vipod/vipod/shared/trigger"
)

// Kernel is what is read from the kernel; no capability is needed for it.
type Kernel interface {
	Links() ([]netsafe.Link, error)
	Addresses() ([]netsafe.Address, error)
	// Receives says whether packets to the address are for this node.
	Receives(netip.Addr) (bool, error)
}

// Result is the outcome of a pass.
type Result struct {
	Plan plan.Output
	// Documents are what the pass read.
	Documents intent.Documents
	// Err is why the plan could not be made or put in force completely.
	Err error
}

// Reconciler is the loop that plans.
type Reconciler struct {
	log    *slog.Logger
	kernel Kernel
	engine *engine.Engine
	now    func() time.Duration
	// Renewed wakes the loop for node.json and grant.json, which are written at
	// every renewal, Changed for anything else.
	Renewed, Changed *trigger.Trigger
	// Pulse asks the loop whether it lives.
	Pulse   *pulse.Pulse
	report  func()
	reader  *intent.Reader
	docs    intent.Documents
	backoff trigger.Backoff
	lastErr string
	arrivals

	mu     sync.Mutex
	result Result
}

// New returns a reconciler for the state directory. report is called, and
// must not block, after each full pass.
func New(log *slog.Logger, stateDir, boot string, k Kernel, e *engine.Engine, now func() time.Duration, report func()) *Reconciler {
	return &Reconciler{
		log: log, kernel: k, engine: e, now: now, report: report,
		Renewed: trigger.New(), Changed: trigger.New(), Pulse: pulse.New("planning loop"),
		reader:  intent.NewReader(log, stateDir, boot),
		backoff: trigger.Backoff{Min: 50 * time.Millisecond, Max: 10 * time.Second},
	}
}

// Result returns the outcome of the last pass.
func (r *Reconciler) Result() Result {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.result
}

// Run makes passes until ctx ends; ready is called after the first.
func (r *Reconciler) Run(ctx context.Context, ready func()) error {
	timer := time.NewTimer(r.pass())
	defer timer.Stop()
	ready()
	for {
		again := time.Duration(0)
		select {
		case <-ctx.Done():
			return nil
		case <-r.Pulse.C():
			continue
		case <-r.Renewed.C():
			again = r.grantPass()
		case <-r.Changed.C():
			again = r.pass()
		case <-timer.C:
			again = r.pass()
		}
		timer.Reset(again)
	}
}

// never is a wait that some other event ends.
const never = time.Hour

// pass reads everything and returns when to do so again at the latest: at the
// end of a grant or, after an error, after a while.
func (r *Reconciler) pass() time.Duration {
	seen := r.now()
	r.docs = r.reader.Load()
	p, links, awaited, err := r.plan(seen)
	if err == nil {
		err = r.engine.Set(p, r.settings(links, seen))
	} else {
		// Without the kernel's answer the last plan stays, as long as its
		// grants do.
		p = r.Result().Plan
		r.engine.SetGrants(r.docs.Grants)
	}
	r.mu.Lock()
	r.result = Result{Plan: p, Documents: r.docs, Err: err}
	r.mu.Unlock()
	r.report()
	r.logError(err)
	wait := r.untilGrantEnds(seen)
	if err != nil {
		return min(wait, r.backoff.Failed())
	}
	r.backoff.Reset()
	if awaited {
		return min(wait, receivePoll)
	}
	return wait
}

// logError logs an error when it differs from that of the last pass.
func (r *Reconciler) logError(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != r.lastErr && err != nil {
		r.log.Warn("pass incomplete", "err", err)
	}
	r.lastErr = text
}

// untilGrantEnds returns how long until a grant ends that was held when what
// is in force was planned. It may have ended since, which is to be acted on.
func (r *Reconciler) untilGrantEnds(planned time.Duration) time.Duration {
	end := r.docs.Grants.End(planned)
	if end == 0 {
		return never
	}
	return max(end-r.now(), time.Millisecond)
}

// grantPass takes over prolonged grants. Anything else that changed in the
// two documents makes it a full pass.
func (r *Reconciler) grantPass() time.Duration {
	grants, changed := r.reader.LoadGrants()
	now := r.now()
	if changed || r.Result().Err != nil || !maps.Equal(grants.Held(now), r.docs.Grants.Held(now)) {
		return r.pass()
	}
	r.docs.Grants = grants
	r.engine.SetGrants(grants)
	return r.untilGrantEnds(now)
}

// plan plans, and says whether an address is about to be received for.
func (r *Reconciler) plan(now time.Duration) (out plan.Output, known []plan.Link, awaited bool, err error) {
	links, err := r.kernel.Links()
	if err != nil {
		return plan.Output{}, nil, false, err
	}
	in := plan.Input{
		VIPs: r.docs.VIPs, Grants: r.docs.Grants.Held(now), Protocol: uint8(r.docs.Settings().Protocol),
	}
	if in.Present, awaited, err = r.present(now, in.Protocol); err != nil {
		return plan.Output{}, nil, false, err
	}
	for _, l := range links {
		in.Links = append(in.Links, plan.Link{Name: l.Name, Index: l.Index, Up: l.Up(), Hardware: frame.Hardware{
			Type: l.Type, MAC: frame.MAC(l.MAC), Broadcast: frame.MAC(l.Broadcast),
		}})
	}
	return plan.Plan(in), in.Links, awaited, nil
}

func (r *Reconciler) settings(links []plan.Link, seen time.Duration) engine.Settings {
	s := engine.Settings{
		Interval: time.Duration(r.docs.Settings().AnnounceIntervalMillis) * time.Millisecond,
		Grants:   r.docs.Grants,
		Own:      map[frame.MAC]bool{},
		Names:    map[int]string{},
		Seen:     seen,
	}
	for _, l := range links {
		s.Own[l.Hardware.MAC] = true
		s.Names[l.Index] = l.Name
	}
	return s
}
