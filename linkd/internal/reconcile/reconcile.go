// Package reconcile makes links and DHCP clients match the documents: read,
// observe, plan, do, report, whatever woke it.
//
// Within a pass clients of links that go are ended first, so that a lease is
// given back while there is a link to send by; then links are changed; then
// clients are started on what is there.
package reconcile

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/vipod/vipod/linkd/internal/client"
	"github.com/vipod/vipod/linkd/internal/desired"
	"github.com/vipod/vipod/linkd/internal/kernel"
	"github.com/vipod/vipod/linkd/internal/lease"
	"github.com/vipod/vipod/linkd/internal/plan"
	"github.com/vipod/vipod/shared/bootclock"
	"github.com/vipod/vipod/shared/intent"
	"github.com/vipod/vipod/shared/ownership"
	"github.com/vipod/vipod/shared/pulse"
	"github.com/vipod/vipod/shared/report"
	"github.com/vipod/vipod/shared/schema"
	"github.com/vipod/vipod/shared/statefile"
	"github.com/vipod/vipod/shared/trigger"
)

const (
	// gap is the least time between two passes that only the kernel's events
	// asked for, of which a busy node has many.
	gap = 20 * time.Millisecond
	// never is a wait that some other event ends, the resync at the latest.
	never = time.Hour
)

// DHCP is a client at work; client.Client is the real one.
type DHCP interface {
	Status() client.Status
	Move(client.Port)
	Decline(addr)
	Release()
	Stop()
}

// Config is what a Reconciler needs.
type Config struct {
	Log      *slog.Logger
	StateDir string
	Boot     string // this boot's id
	Kernel   kernel.Kernel
	// Client starts a DHCP client.
	Client  func(client.Options) DHCP
	Metrics *Metrics
}

// Reconciler is linkd's loop. Its methods may be called from anywhere, except
// that Run may run only once.
type Reconciler struct {
	Config

	// Renewed wakes it for node.json and grant.json, which are written at every
	// renewal, Netlink for netlink events, Changed for anything else.
	Renewed, Changed, Netlink *trigger.Trigger
	// Pulse asks the loop whether it lives.
	Pulse *pulse.Pulse

	answer atomic.Pointer[Report]

	// What follows belongs to the goroutine of Run.
	reader   *intent.Reader
	docs     intent.Documents
	desired  desired.Desired
	state    kernel.State
	verdicts map[string]plan.Verdict
	failed   map[string]error // by link
	clients  map[clientKey]*running
	// kept are leases without a client: those of an earlier process, and those
	// of links that are held down.
	kept     map[clientKey]keptLease
	acted    bool // the last pass acted on the documents
	self     *report.Reporter
	links    *statefile.Writer
	last     map[string]schema.LinkStatus // reports by key
	lastPass time.Time
	next     time.Time
	grantEnd time.Duration
	passErr  error
	backoff  trigger.Backoff
	retry    trigger.Backoff // of single links
	wake     *time.Timer
}

// clientKey names a client.
type clientKey struct {
	link string
	is4  bool
}

// running is a client and what it was started with.
type running struct {
	DHCP
	config lease.Config // without its functions
	port   client.Port
}

type keptLease struct {
	lease.Lease
	// index is the link's when the lease was last in use there, 0 if the link
	// was down since.
	index int
}

// New returns a Reconciler that has looked at nothing yet. It takes over the
// leases of an earlier process.
func New(c Config) (*Reconciler, error) {
	self, err := report.New(c.Log, c.StateDir, ownership.Linkd, c.Boot)
	if err != nil {
		return nil, err
	}
	links, err := statefile.NewWriter(ownership.Links(c.StateDir), statefile.Instance(c.Boot))
	if err != nil {
		return nil, err
	}
	r := &Reconciler{
		Config:  c,
		Renewed: trigger.New(), Changed: trigger.New(), Netlink: trigger.New(),
		Pulse: pulse.New("reconcile loop"), reader: intent.NewReader(c.Log, c.StateDir, c.Boot),
		failed: map[string]error{}, clients: map[clientKey]*running{}, kept: map[clientKey]keptLease{},
		self: self, links: links, last: map[string]schema.LinkStatus{},
		backoff: trigger.Backoff{Min: 20 * time.Millisecond, Max: 5 * time.Second},
		retry:   trigger.Backoff{Min: 100 * time.Millisecond, Max: 10 * time.Second},
		wake:    time.NewTimer(0),
	}
	r.reader.Refused = c.Metrics.rejected.Inc
	r.answer.Store(&Report{})
	return r, r.adopt()
}

// Run works until ctx ends. ready is called after the first pass.
func (r *Reconciler) Run(ctx context.Context, ready func()) error {
	defer r.stopClients()
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
		case <-r.Netlink.C():
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

// prolong takes a renewal of the grant, and says whether that is all there is
// to it.
func (r *Reconciler) prolong() bool {
	now := bootclock.Now()
	before := r.docs.Grants.Held(now)
	grants, changed := r.reader.LoadGrants()
	if changed || r.grantEnd == 0 || now >= r.grantEnd {
		return false
	}
	for name := range grants.Held(now) {
		if !before[name] {
			return false
		}
	}
	r.docs.Grants = grants
	in := r.input()
	r.grantEnd = in.GrantEnd()
	r.wake.Reset(min(time.Until(r.next), r.untilGrantEnd(now)))
	return r.grantEnd != 0
}

func (r *Reconciler) untilGrantEnd(now time.Duration) time.Duration {
	if r.grantEnd == 0 {
		return never
	}
	return max(r.grantEnd-now, 0) + time.Millisecond
}
