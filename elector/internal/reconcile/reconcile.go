package reconcile

import (
	"context"
	"math"
	"net/netip"
	"time"

	"github.com/vipod/vipod/elector/internal/claim"
	"github.com/vipod/vipod/elector/internal/config"
	"github.com/vipod/vipod/elector/internal/intent"
	"github.com/vipod/vipod/elector/internal/names"
	"github.com/vipod/vipod/shared/bootclock"
	"github.com/vipod/vipod/shared/daemon"
	"github.com/vipod/vipod/shared/ownership"
	"github.com/vipod/vipod/shared/report"
	"github.com/vipod/vipod/shared/schema"
	"github.com/vipod/vipod/shared/trigger"
)

// never is a time that does not come.
const never = time.Duration(math.MaxInt64)

// Reconciler is elector's loop, see the package comment.
type Reconciler struct {
	Options
	machine *claim.Machine
	lock    *claim.Lock // nil without a control plane's VIP
	book    *intent.Book
	self    *report.Reporter
	reports *reports
	teller  *teller
	status  *publisher

	vipd, arpd *gate // arpd is bgpd's in BGP mode, nil in routing-table mode
	linkd      *gate
	names      *names.Follower
	taken      map[addr]time.Duration // lent addresses that others have, and until when that counts
	linkdWhy   string                 // it cannot be relied on, "" if it can
	linkdGone  bool
	egressd    *gate
	bgp        bgpSide
	anycast    anycast
	backends   *backends
	work       context.Context // of what the loop starts
	health     asked
	files      *trigger.Trigger // another daemon's file may have changed
	gates      *trigger.Trigger // a daemon or the local API server changed its answer
	calls      chan func()      // to be called by the loop

	listed     bool             // all Leases were seen once
	spoilt     map[string]error // Leases that cannot be read, by node
	seenClaims []addr           // claims of our own Lease as last seen
	writer     string           // who wrote our own Lease as last seen

	planner
	wished     wish
	probes     map[string]probed
	probeAgain map[string]bool // standby documents whose answer is too old
	doubt      bool            // what an earlier process left is not known
	full       map[int]bool    // groups of the plan that no longer fit
	notReady   string          // why this node cannot serve
	gateUntil  time.Duration   // when the gates must be looked at again
	synced     bool            // node.json says so
	stopping   stopping
	lastClaims int    // addresses in our Lease as last written
	leaseErr   string // of its last write
	retry      trigger.Backoff
	retryAt    time.Duration // when a failed write of a file is tried again
	unwritten  bool          // the last write of the files failed
	stirred    bool          // something happened that a renewal is not
	pictured   picture       // as of the last pass
	before     map[netip.Addr]claim.Phase
	lockBefore claim.Phase
	observe
}

// New reads what an earlier process left and returns a Reconciler that goes
// on from there. Nothing is written but node.json.
func New(opts Options) (*Reconciler, error) {
	cfg := opts.Config
	book, previous, err := intent.Open(opts.StateDir, opts.BootID, opts.UID(ownership.Elector))
	if err != nil {
		return nil, err
	}
	self, err := report.New(opts.Log, opts.StateDir, ownership.Elector, opts.BootID)
	if err != nil {
		return nil, err
	}
	timing := claim.Timing{Duration: cfg.LeaseDuration, Renew: cfg.RetryPeriod}
	r := &Reconciler{
		Options: opts, machine: claim.New(cfg.NodeName, timing), book: book, self: self,
		reports: newReports(opts.StateDir, opts.UID), teller: newTeller(opts),
		files: trigger.New(), gates: trigger.New(), calls: make(chan func(), 64),
		spoilt: map[string]error{}, before: map[netip.Addr]claim.Phase{},
		probeAgain: map[string]bool{},
		retry:      trigger.Backoff{Min: 50 * time.Millisecond, Max: 5 * time.Second},
		status:     newPublisher(opts), observe: newObserve(),
	}
	r.vipd, r.arpd = newGates(timing.Duration, timing.Renew)
	r.taken = map[addr]time.Duration{}
	r.names = names.New(opts.Query, opts.Changed.Fire)
	r.linkd = &gate{daemon: ownership.Linkd, patience: timing.Duration}
	r.egressd = &gate{daemon: ownership.Egressd, patience: timing.Duration}
	r.backends = &backends{
		log: opts.Log, ask: opts.Server, every: cfg.ControlPlane.Balance.Interval,
		timeout: max(cfg.ControlPlane.Balance.Interval, time.Second), changed: opts.Changed, known: map[netip.AddrPort]*backend{},
	}
	if doc := previous.VIPs[schema.ControlPlaneKey]; doc.Balance != nil {
		r.backends.presume(doc.Balance.Backends)
	}
	r.arpd.daemon = announcer(cfg.Mode)
	r.bgp.current = previous.BGP
	if cfg.Mode != config.ModeBGP {
		r.bgp.current = nil
	}
	if cfg.ElectsControlPlane() {
		r.lock = claim.NewLock(cfg.NodeName, timing)
	}
	r.planDirty, r.networks = true, previous.Networks
	r.resume(bootclock.Now(), previous)
	return r, r.writeNode()
}

// resume goes on with what an earlier process owned while its grant lasts.
// Without knowing all of it nothing is resumed, and the Lease stays as it is
// until vipd has swept the node.
func (r *Reconciler) resume(now time.Duration, previous intent.Previous) {
	for _, err := range previous.Problems {
		r.Log.Error("reading what an earlier process left", "err", err)
	}
	// Without a grant of this boot, nothing is known of what an earlier pod,
	// whose state directory went with it, left in the kernel under its own.
	if r.doubt = len(previous.Problems) > 0 || len(previous.Grant) == 0; r.doubt {
		r.wait(now, true)
		return
	}
	held, lock := intent.Held(previous.VIPs)
	if valid := previous.Grant[schema.GrantNode]; now < valid {
		r.Log.Info("resuming", "addresses", len(held), "grant", valid-now)
		r.machine.Resume(now, held, valid)
		r.vipd.trust(now)
		r.arpd.trust(now)
		r.egressd.trust(now)
	}
	if valid := previous.Grant[schema.GrantControlPlane]; r.lock != nil && lock.Phase != claim.Idle && now < valid {
		r.lock.Resume(now, lock, valid)
		r.health.last.Store(int64(now))
		r.vipd.trust(now)
		r.arpd.trust(now)
		r.egressd.trust(now)
	}
}

// Run works until ctx ends, and then until everything is handed over.
func (r *Reconciler) Run(ctx context.Context, ready func()) error {
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	r.work = work
	failed := make(chan error, 1)
	resync := trigger.New()
	go func() {
		failed <- daemon.RunTasks(work, r.Log, daemon.Resync(resync), daemon.Watch(r.Log, "watch of reports", r.files.Fire,
			ownership.Dir(r.StateDir, ownership.Vipd), ownership.VIPs(r.StateDir, ownership.Vipd),
			ownership.Dir(r.StateDir, ownership.Arpd), ownership.VIPs(r.StateDir, ownership.Arpd),
			ownership.Dir(r.StateDir, ownership.Bgpd), ownership.VIPs(r.StateDir, ownership.Bgpd),
			ownership.Dir(r.StateDir, ownership.Linkd), ownership.Links(r.StateDir),
			ownership.Dir(r.StateDir, ownership.Egressd), ownership.VIPs(r.StateDir, ownership.Egressd)))
	}()
	r.followPeers(work)
	r.followGates(work)
	go r.status.run(work)
	go r.names.Run(work)
	go r.teller.run(work)
	timer := time.NewTimer(0)
	defer timer.Stop()
	stop := ctx.Done()
	for {
		select {
		case <-stop:
			stop = nil
			r.beginStop(bootclock.Now())
			r.stirred = true
		case err := <-failed:
			return err
		case e := <-r.API.Leases():
			if !r.takeLeases(e) {
				continue
			}
		case e := <-r.API.Locks():
			r.takeLock(e)
		case <-r.Changed.C():
			r.planDirty, r.stirred = true, true
		case <-r.files.C():
			r.reports.dirty, r.stirred = true, true
		case <-resync.C():
			r.planDirty, r.reports.dirty, r.stirred = true, true, true
		case <-r.gates.C():
			r.stirred = true
		case f := <-r.calls:
			f()
		case <-timer.C:
		}
		if !r.stopping.done {
			r.pass(work)
		}
		if r.stopping.done {
			return nil
		}
		if r.synced {
			ready()
		}
		timer.Reset(max(r.deadline()-bootclock.Now(), time.Millisecond))
	}
}

func (r *Reconciler) followGates(ctx context.Context) {
	every := r.Config.RetryPeriod / 2
	for _, g := range r.gatesOfDaemons() {
		if g.daemon == "" {
			continue
		}
		ask := func(ctx context.Context) error { return r.Ask(ctx, g.daemon) }
		go g.answer.follow(ctx, every, max(every, 250*time.Millisecond), ask, r.gates)
	}
	if r.Config.ControlPlane.Enabled {
		h := r.Config.ControlPlane.Health
		if h.Address == "" { // the default periods are for a check that a person chose
			h.Period, h.Timeout = min(h.Period, r.Config.RetryPeriod), min(h.Timeout, r.Config.RetryPeriod)
		}
		go r.health.follow(ctx, h.Period, h.Timeout, r.Healthy, r.gates)
	}
}

// deadline is when there must be another pass at the latest.
func (r *Reconciler) deadline() time.Duration {
	now := bootclock.Now()
	d := min(r.machine.Deadline(now), r.gateUntil, r.egressdUntil, r.observe.next)
	if r.lock != nil {
		d = min(d, r.lock.Deadline(now))
	}
	if r.planDirty && r.API.Synced() && r.listed {
		d = min(d, r.planAfter)
	}
	if r.retryAt != 0 {
		d = min(d, r.retryAt)
	}
	if r.stopping.since != 0 {
		d = min(d, r.stopping.deadline)
	}
	return min(d, now+time.Minute)
}
