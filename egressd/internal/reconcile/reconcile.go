// Package reconcile makes the kernel's tables match the documents: read,
// observe, plan, do, forget connections that have become wrong, report,
// whatever woke it.
package reconcile

import (
	"context"
	"log/slog"
	"maps"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/vipod/vipod/egressd/internal/desired"
	"github.com/vipod/vipod/egressd/internal/kernel"
	"github.com/vipod/vipod/egressd/internal/plan"
	"github.com/vipod/vipod/shared/bootclock"
	"github.com/vipod/vipod/shared/intent"
	"github.com/vipod/vipod/shared/ownership"
	"github.com/vipod/vipod/shared/pulse"
	"github.com/vipod/vipod/shared/report"
	"github.com/vipod/vipod/shared/schema"
	"github.com/vipod/vipod/shared/statefile"
	"github.com/vipod/vipod/shared/trigger"
)

// Config is what a Reconciler needs.
type Config struct {
	Log      *slog.Logger
	StateDir string
	Boot     string // this boot's id
	// Open returns the kernel with the tables of the instance.
	Open func(instance string) kernel.Kernel
	// Ways returns what leads packets to other nodes.
	Ways func(instance string, protocol int) Ways
	// Mirror returns what copies a link's traffic.
	Mirror func(instance string) Mirror
	// Leftovers are the commands that would remove what kube-vip left.
	Leftovers []string
	Metrics   *Metrics
	Tunnels   TunnelConfig
}

// Mirror copies a link's traffic; mirror.Linux is the real one.
type Mirror interface {
	// Set copies what goes over one link to another, or nothing without
	// names, and says whether that changed anything.
	Set(from, to string) (changed bool, err error)
}

// Ways leads packets to other nodes; way.Linux is the real one.
type Ways interface {
	// Make makes the way to a node and returns the mark of its packets.
	Make(gateway netip.Addr) (uint32, error)
	// Sweep removes all ways but those to the nodes.
	Sweep(keep []netip.Addr) error
}

// Reconciler is egressd's loop. Its methods may be called from anywhere,
// except that Run may run only once.
type Reconciler struct {
	Config

	// Renewed wakes it for node.json and grant.json, which are written at every
	// renewal, Resync from time to time, Changed for anything else.
	Renewed, Resync, Changed *trigger.Trigger
	// Pulse asks the loop whether it lives.
	Pulse *pulse.Pulse

	answer  atomic.Pointer[Report]
	touched atomic.Bool // the tables are not as this process left them

	// What follows belongs to the goroutine of Run.
	kernel   kernel.Kernel
	instance string
	reader   *intent.Reader
	egress   *statefile.Set[schema.Egress, *schema.Egress]
	docs     documents
	wanted   *desired.Wanted
	// actual is what the tables hold, known is whether that is so: nobody else
	// changes them without a notification.
	actual   plan.Actual
	known    bool
	failures int // of transactions, in a row
	// mirrorErr is why nothing is copied.
	mirrorErr error
	// lost says why there is no way to a node.
	lost map[netip.Addr]string
	// stale are the connections that must be looked through.
	stale   stale
	tunnels *tunnels
	report  *report.Reporter
	passErr error
	refused map[string]string // problems with egress documents that were logged
	backoff trigger.Backoff
	wake    *time.Timer
	next    time.Time // when the last pass wanted another one
}

// documents are all that are known of elector.
type documents struct {
	intent.Documents
	egress map[string]schema.Egress
	held   map[schema.GrantName]bool
}

// New returns a Reconciler that has looked at nothing yet.
func New(c Config) (*Reconciler, error) {
	reports, err := report.New(c.Log, c.StateDir, ownership.Egressd, c.Boot)
	if err != nil {
		return nil, err
	}
	r := &Reconciler{
		Config:  c,
		Renewed: trigger.New(), Resync: trigger.New(), Changed: trigger.New(), Pulse: pulse.New("reconcile loop"),
		reader: intent.NewReader(c.Log, c.StateDir, c.Boot),
		egress: statefile.NewSet[schema.Egress](ownership.Egress(c.StateDir), ownership.UID(ownership.Elector)),
		report: reports, refused: map[string]string{},
		backoff: trigger.Backoff{Min: 20 * time.Millisecond, Max: 5 * time.Second},
		wake:    time.NewTimer(0),
		stale:   stale{everything: true},
		tunnels: newTunnels(c.Tunnels, c.Log, func(name string) { c.Metrics.tunnels.handshakes.WithLabelValues(name).Inc() }),
	}
	r.reader.Refused = c.Metrics.rejected.Inc
	r.answer.Store(&Report{})
	return r, nil
}

// Touched says that somebody may have changed the tables.
func (r *Reconciler) Touched() {
	r.touched.Store(true)
	r.Changed.Fire()
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
		case <-r.Resync.C():
			r.touched.Store(true)
		case <-r.Changed.C():
		case <-r.wake.C:
		}
		r.pass()
		ready()
	}
}

// prolong is the way of most wake-ups: elector has renewed, and every grant
// that was held is held still. It returns false when there is more to do.
func (r *Reconciler) prolong() bool {
	grants, changed := r.reader.LoadGrants()
	now := bootclock.Now()
	if changed || r.passErr != nil || !maps.Equal(grants.Held(now), r.docs.held) {
		return false
	}
	r.docs.Grants = grants
	if err := r.permit(); err != nil {
		r.touched.Store(true) // somebody took the table away
		return false
	}
	r.atEndOfGrant(time.Now(), now)
	return true
}

// atEndOfGrant makes a pass come when the first grant ends, if none does
// before.
func (r *Reconciler) atEndOfGrant(wall time.Time, now time.Duration) {
	at := r.next
	if end := r.docs.Grants.End(now); end != 0 && wall.Add(end-now).Before(at) {
		at = wall.Add(end - now)
	}
	r.wake.Reset(time.Until(at))
}
