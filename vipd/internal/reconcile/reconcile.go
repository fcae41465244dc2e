// Package reconcile makes the kernel match the documents: read, observe,
// plan, do, report, whatever woke it.
//
// The order inside a pass is what the fence's safety rests on. The grant is
// read before the documents (intent.Documents), and given to the kernel last.
// So a fence is never opened over a VIP that this node has lost.
package reconcile

import (
	"context"
	"log/slog"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/vipod/vipod/shared/bootclock"
	"github.com/vipod/vipod/shared/intent"
	"github.com/vipod/vipod/shared/ownership"
	"github.com/vipod/vipod/shared/pulse"
	"github.com/vipod/vipod/shared/report"
	"github.com/vipod/vipod/shared/schema"
	"github.com/vipod/vipod/shared/statefile"
	"github.com/vipod/vipod/shared/trigger"
	"github.com/vipod/vipod/vipd/internal/anycast"
	"github.com/vipod/vipod/vipd/internal/kernel"
	"github.com/vipod/vipod/vipd/internal/links"
	"github.com/vipod/vipod/vipd/internal/plan"
	"github.com/vipod/vipod/vipd/internal/routes"
)

const (
	// gap is the least time between two passes that only the kernel's events
	// asked for, of which a busy node has many.
	gap = 20 * time.Millisecond
	// chunk is how many operations on addresses are made before the grant is
	// looked at again.
	chunk = 256
)

// Config is what a Reconciler needs.
type Config struct {
	Log      *slog.Logger
	StateDir string
	Boot     string // this boot's id
	// Open returns the kernel with the fence's table of the given name, and
	// whether it can do a fence; an empty name is for looking only.
	Open    func(table string) (k kernel.Kernel, fence bool, err error)
	Metrics *Metrics
	// Added is told of every address that was added, and of those found at the
	// start; it must not block.
	Added func(netip.Addr)
	// Routes are those of routing-table mode; nil for none.
	Routes routes.Kernel
	// Anycast are those to pods that have an address themselves; nil for none.
	Anycast anycast.Kernel
}

// Reconciler is vipd's loop. Its methods may be called from anywhere, except
// that Run may run only once.
type Reconciler struct {
	Config

	// Renewed wakes it for node.json and grant.json, which are written at every
	// renewal, Kernel for netlink events, Changed for anything else.
	Renewed, Changed, Kernel *trigger.Trigger
	// Pulse asks the loop whether it lives.
	Pulse *pulse.Pulse

	// RouteProtocol is that of our routes, for who watches the kernel.
	RouteProtocol atomic.Uint32

	answer atomic.Pointer[Report]

	// What follows belongs to the goroutine of Run.
	kernel   kernel.Kernel
	fence    bool
	table    string
	reader   *intent.Reader
	docs     intent.Documents
	linkSet  *statefile.Set[schema.LinkStatus, *schema.LinkStatus]
	lent     map[string]schema.LinkStatus // linkd's reports by key
	given    schema.Grants                // as last given to the kernel
	actual   plan.Actual                  // as of the last pass, with what it did
	desired  plan.Desired
	links    *links.Tracker
	report   *report.Reporter
	lastPass time.Time
	next     time.Time // when the last pass wanted another one
	passErr  error
	adopted  bool // see adopt
	// acted: the last pass put everything behind the fence that belongs there
	// and removed everything that shall go. Only then may others read from
	// the reports that this node is silent.
	acted      bool
	backoff    trigger.Backoff // of passes
	retry      trigger.Backoff // of single addresses
	wake       *time.Timer
	failed     map[netip.Addr]error // operations on addresses in the last pass
	routing    routing
	anycasting anycasting
}

// New returns a Reconciler that has looked at nothing yet.
func New(c Config) (*Reconciler, error) {
	reports, err := report.New(c.Log, c.StateDir, ownership.Vipd, c.Boot)
	if err != nil {
		return nil, err
	}
	r := &Reconciler{
		Config:  c,
		Renewed: trigger.New(), Changed: trigger.New(), Kernel: trigger.New(),
		Pulse:   pulse.New("reconcile loop"),
		reader:  intent.NewReader(c.Log, c.StateDir, c.Boot),
		linkSet: statefile.NewSet[schema.LinkStatus](ownership.Links(c.StateDir), ownership.UID(ownership.Linkd)),
		given:   schema.Grants{},
		links:   links.New(),
		report:  reports,
		backoff: trigger.Backoff{Min: 20 * time.Millisecond, Max: 5 * time.Second},
		retry:   trigger.Backoff{Min: 100 * time.Millisecond, Max: 10 * time.Second},
		wake:    time.NewTimer(0),
	}
	if r.kernel, _, err = c.Open(""); err != nil {
		return nil, err
	}
	r.reader.Refused = c.Metrics.rejected.Inc
	r.answer.Store(&Report{})
	return r, nil
}

// Run works until ctx ends. ready is called after the first pass.
func (r *Reconciler) Run(ctx context.Context, ready func()) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.Pulse.C():
			continue
		case <-r.Renewed.C():
			if r.prolong() {
				continue
			}
		case <-r.Kernel.C():
			if since := time.Since(r.lastPass); since < gap {
				r.wake.Reset(min(gap-since, time.Until(r.next)))
				continue
			}
		case <-r.Changed.C():
		case <-r.wake.C:
		}
		r.pass()
		ready()
	}
}

// now is the boot clock, on which grants are.
func now() time.Duration { return bootclock.Now() }
