// Package reconcile makes the speaker announce what elector's documents want:
// read, plan, set, whatever woke it. A goroutine of its own reports what was
// set and what became of it, at a rate that the changes do not have to wait for.
//
// Nothing is announced, and no session opened, before the documents are
// complete for the first time: what a peer still has of an earlier process is
// then confirmed or replaced as a whole.
package reconcile

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/vipod/vipod/bgpd/internal/plan"
	"github.com/vipod/vipod/bgpd/internal/secret"
	"github.com/vipod/vipod/bgpd/internal/session"
	"github.com/vipod/vipod/bgpd/internal/speaker"
	"github.com/vipod/vipod/shared/bootclock"
	"github.com/vipod/vipod/shared/intent"
	"github.com/vipod/vipod/shared/pulse"
	"github.com/vipod/vipod/shared/trigger"
)

// Config is what a Reconciler needs.
type Config struct {
	Log      *slog.Logger
	StateDir string
	Boot     string // this boot's id
	Speaker  speaker.Speaker
	Secrets  secret.Source
	Metrics  *Metrics
	// News fires when a session has news.
	News *trigger.Trigger
}

// Reconciler is bgpd's loop.
type Reconciler struct {
	Config

	// Renewed wakes it for node.json and grant.json, which are written at every
	// renewal, Changed for other documents.
	Renewed, Changed *trigger.Trigger
	// Pulses ask the loops whether they live.
	Pulses []*pulse.Pulse

	reporter *reporter

	// What follows belongs to the goroutine of Run.
	reader   *intent.Reader
	docs     intent.Documents
	set      bool // the speaker was given something
	wanted   speaker.Wanted
	problems map[string]string // of peers, by name, that have no session
	why      map[string]plan.Reason
}

// New returns a Reconciler that has looked at nothing yet.
func New(c Config) (*Reconciler, error) {
	reports, err := newReporter(c)
	if err != nil {
		return nil, err
	}
	return &Reconciler{
		Config: c, Renewed: trigger.New(), Changed: trigger.New(),
		Pulses: []*pulse.Pulse{pulse.New("reconcile loop"), reports.pulse}, reporter: reports,
		reader: intent.NewReader(c.Log, c.StateDir, c.Boot), problems: map[string]string{},
	}, nil
}

// never is a wait that some other event ends.
const never = time.Hour

// Run makes passes until ctx ends; ready is called after the first.
func (r *Reconciler) Run(ctx context.Context, ready func()) error {
	timer := time.NewTimer(r.pass())
	defer timer.Stop()
	wait := r.reporter.reportAll()
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { r.reporter.run(ctx, wait) })
	ready()
	for {
		again := time.Duration(0)
		select {
		case <-ctx.Done():
			return nil
		case <-r.Pulses[0].C():
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

// pass reads everything, sets it and returns when to do so again.
func (r *Reconciler) pass() time.Duration {
	r.docs = r.reader.Load()
	if r.set || r.docs.Complete {
		r.setAll()
	}
	r.reporter.show(&view{docs: r.docs, wanted: r.wanted, problems: r.problems, why: r.why, set: r.set})
	return r.untilGrantEnds()
}

// grantPass takes over prolonged grants. Anything else that changed in the two
// documents makes it a full pass.
func (r *Reconciler) grantPass() time.Duration {
	grants, changed := r.reader.LoadGrants()
	now := bootclock.Now()
	if changed || !maps.Equal(grants.Held(now), r.docs.Grants.Held(now)) {
		return r.pass()
	}
	r.docs.Grants = grants
	return r.untilGrantEnds()
}

// untilGrantEnds is how long what was set may stay.
func (r *Reconciler) untilGrantEnds() time.Duration {
	now := bootclock.Now()
	if end := r.docs.Grants.End(now); end != 0 {
		return max(end-now, time.Millisecond)
	}
	return never
}

// setAll gives the speaker what is wanted.
func (r *Reconciler) setAll() {
	in := plan.Input{VIPs: r.docs.VIPs, Held: r.docs.Grants.Held(bootclock.Now())}
	paths := plan.Of(in)
	if !r.docs.Complete {
		paths = r.carry(paths)
	}
	r.why = map[string]plan.Reason{}
	for key, v := range r.docs.VIPs {
		r.why[key] = in.Why(v)
	}
	peers := r.wanted.Peers // as they are, while elector has not said all
	if r.docs.Complete {
		peers = r.peers()
	}
	before := r.wanted.Paths
	listen := r.wanted.Listen
	if r.docs.Complete {
		listen = r.docs.Settings().BGP != nil && r.docs.Settings().BGP.Listen
	}
	r.wanted = speaker.Wanted{Peers: peers, Paths: paths, Listen: listen}
	r.Speaker.Set(r.wanted)
	r.logChanges(before)
	r.set = true
}

// carry adds what was announced and no document names any more: it stays
// until the documents are complete.
func (r *Reconciler) carry(paths []plan.Path) []plan.Path {
	named := map[netip.Prefix]bool{}
	for _, v := range r.docs.VIPs {
		for _, a := range v.Addresses {
			named[plan.Host(a.IP)] = true
		}
	}
	for _, p := range r.wanted.Paths {
		if !named[p.Prefix] {
			paths = append(paths, p)
		}
	}
	slices.SortFunc(paths, func(a, b plan.Path) int { return plan.Compare(a.Prefix, b.Prefix) })
	return paths
}

// logChanges logs which prefixes came and went.
func (r *Reconciler) logChanges(before []plan.Path) {
	plan.Changes(before, r.wanted.Paths,
		func(p plan.Path) { r.Log.Info("path withdrawn", "prefix", p.Prefix) },
		func(p plan.Path) { r.Log.Info("path wanted", "prefix", p.Prefix, "leaving", p.Leaving) })
}

// peers returns the sessions that shall be. A peer whose password is missing
// or cannot be read gets none, but keeps the one it has.
func (r *Reconciler) peers() []session.Config {
	before := map[string]session.Config{}
	for _, c := range r.wanted.Peers {
		before[c.Name] = c
	}
	problems := map[string]string{}
	var out []session.Config
	settings := r.docs.Settings()
	if settings.BGP == nil {
		r.problems = problems
		return nil
	}
	for _, p := range settings.BGP.Peers {
		c := session.Config{
			BGPPeer: p, LocalAS: settings.BGP.AS, RouterID: settings.BGP.RouterID, Protocol: uint8(settings.Protocol),
		}
		password, err := r.Secrets.Of(&p)
		switch old, had := before[p.Name]; {
		case err == nil:
			c.Secret = password
		case errors.Is(err, secret.ErrNone) && !p.Password:
		case had:
			c.Secret = old.Secret
			problems[p.Name] = err.Error()
		default:
			problems[p.Name] = err.Error()
			continue
		}
		out = append(out, c)
	}
	for name, text := range problems {
		if r.problems[name] != text {
			r.Log.Error("password", "peer", name, "err", text)
		}
	}
	r.problems = problems
	return out
}

// CleanUp removes all reports. It must not be called while Run runs.
func (r *Reconciler) CleanUp() error { return r.reporter.reports.CleanUp() }

// Report returns how things stood when they last changed.
func (r *Reconciler) Report() Report { return r.reporter.answer.Load().complete() }
