package reconcile

import (
	"context"
	"strings"
	"sync/atomic"
	"time"

	"github.com/vipod/vipod/shared/bootclock"
	"github.com/vipod/vipod/shared/ownership"
	"github.com/vipod/vipod/shared/schema"
	"github.com/vipod/vipod/shared/trigger"
)

// asked is whether something that is asked again and again answers. It is
// safe for concurrent use.
type asked struct {
	last     atomic.Int64 // of the last good answer, CLOCK_BOOTTIME, 0 for never
	failures atomic.Int32 // in a row
	problem  atomic.Pointer[string]
	missed   atomic.Bool // the last good answer was found to be too old
}

// follow asks at the given interval until ctx ends and fires wake when the
// answers change.
func (p *asked) follow(ctx context.Context, every, timeout time.Duration, ask func(context.Context) error, wake *trigger.Trigger) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		askCtx, cancel := context.WithTimeout(ctx, timeout)
		err := ask(askCtx)
		cancel()
		if ctx.Err() != nil {
			return
		}
		if p.note(err) {
			wake.Fire()
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// note takes one answer and says whether it is news: the first one, one that
// was missed, and every failure, since somebody may count them.
func (p *asked) note(err error) bool {
	if err != nil {
		text := err.Error()
		p.problem.Store(&text)
		p.failures.Add(1)
		return true
	}
	first := p.last.Swap(int64(bootclock.Now())) == 0
	p.problem.Store(nil)
	missed := p.missed.Swap(false)
	return p.failures.Swap(0) != 0 || first || missed
}

// until returns until when the last good answer counts if it counts for d.
func (p *asked) until(d time.Duration) time.Duration {
	last := time.Duration(p.last.Load())
	if last == 0 {
		return 0
	}
	return last + d
}

func (p *asked) why() string {
	switch s := p.problem.Load(); {
	case s != nil:
		return *s
	case p.last.Load() != 0: // this process was paused, or asks too late
		return "its last answer is too old"
	}
	return "it has not answered yet"
}

// gate is whether one of the daemons that an L2 VIP needs can be relied on.
type gate struct {
	daemon string
	answer asked
	// patience is for how long it may be silent or behind: a daemon that is
	// restarted must not move a VIP.
	patience time.Duration
	// behind is since when its report is not about the newest node document
	// or says that it does not do its work, 0 while it is well.
	behind time.Duration
	// reported: its report was well once.
	reported bool
	// proven: it could be relied on once.
	proven bool
}

// trust takes the daemon for well as of now, after a restart of elector alone.
func (g *gate) trust(now time.Duration) {
	g.answer.last.Store(int64(now))
	g.behind, g.reported, g.proven = 0, true, true
}

// open says whether the daemon can be relied on, why not, and until when the
// answer holds if nothing happens.
func (g *gate) open(now time.Duration, on bool, report schema.Daemon, node schema.Observed) (ok bool, why string, until time.Duration) {
	if !on {
		return false, g.daemon + " is switched off on this node", never
	}
	switch well := report.Observed == node && works(report); {
	case well:
		g.behind, g.reported = 0, true
	case g.behind == 0:
		g.behind = now
	}
	until = g.answer.until(g.patience)
	switch {
	case now >= until:
		g.answer.missed.Store(true) // that none has failed means nothing after a pause of this process
		return false, g.daemon + " does not answer: " + g.answer.why(), never
	case !g.reported || g.behind != 0 && now-g.behind >= g.patience:
		return false, g.complaint(report, node), never
	case g.behind != 0:
		until = min(until, g.behind+g.patience)
	}
	g.proven = true
	return true, "", until
}

// complaint says what is wrong with a report.
func (g *gate) complaint(report schema.Daemon, node schema.Observed) string {
	if report.Observed != node {
		return g.daemon + " has not applied the current settings"
	}
	c, _ := schema.FindCondition(report.Conditions, schema.ConditionReady)
	return strings.TrimSuffix(g.daemon+" does not do its work: "+c.Message, ": ")
}

// works says whether a daemon says of itself that it does its work.
func works(d schema.Daemon) bool { return schema.IsTrue(d.Conditions, schema.ConditionReady) }

// newGates returns the gates of vipd and arpd. vipd's is the shorter one:
// without it nobody mutes an address, so that the Lease has to run out, which
// takes its whole duration; it may come back within that time. Without arpd
// the kernel still answers.
func newGates(duration, renew time.Duration) (vipd, arpd *gate) {
	vipd = &gate{daemon: ownership.Vipd, patience: max(2*renew, 500*time.Millisecond)}
	arpd = &gate{daemon: ownership.Arpd, patience: duration}
	return vipd, arpd
}
