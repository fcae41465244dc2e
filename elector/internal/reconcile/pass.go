package reconcile

import (
	"context"
	"slices"
	"time"

	"github.com/vipod/vipod/elector/internal/claim"
	"github.com/vipod/vipod/elector/internal/kube"
	"github.com/vipod/vipod/shared/bootclock"
	"github.com/vipod/vipod/shared/ownership"
	"github.com/vipod/vipod/shared/schema"
)

// pass brings everything to where it belongs. The order matters: what is no
// longer owned leaves the documents before a new grant is written, and a
// document is written before the grant that covers it.
func (r *Reconciler) pass(ctx context.Context) {
	now := bootclock.Now()
	if r.reports.dirty && r.reports.read(r.Log) {
		r.planDirty = true
	}
	r.lookForTaken(now)
	r.replan(now)
	r.wish(now)
	r.machine.Tick(now)
	if r.lock != nil {
		r.lock.Beside(now, r.machine)
	}
	if r.resting(now) {
		r.send(ctx)
		r.renew(now)
		return
	}
	r.acknowledge(now)
	r.clearDoubt(now)
	r.takeProbes(now)
	r.send(ctx) // before the files: a claim waits for nothing of this node
	r.writeFiles(now, func() error { return r.writeAll(now) })
	r.send(ctx)
	r.look(now)
	r.continueStop(now)
}

// wish is what was last told to the machines.
type wish struct {
	told       bool
	plan       uint64
	ready      bool
	suspended  bool
	controlled bool // the control plane's VIP is wanted here
}

// wish tells the machines what is wanted, if that has changed.
func (r *Reconciler) wish(now time.Duration) {
	w := r.judge(now)
	if r.wished.told && w == r.wished {
		return
	}
	before := r.wished
	r.wished = w
	if w.ready != before.ready || !before.told {
		r.Log.Info("node readiness", "ready", w.ready, "reason", r.notReady)
	}
	if w.suspended != before.suspended {
		r.Log.Warn("renewals", "suspended", w.suspended, "reason", r.notReady)
	}
	r.machine.Suspend(now, w.suspended)
	if r.lock != nil {
		r.lock.Suspend(now, w.suspended)
	}
	if r.planned == 0 && r.stopping.since == 0 {
		return // what was resumed goes on
	}
	r.machine.Want(now, r.groups(), w.ready)
	if r.lock != nil {
		r.lock.Want(now, w.controlled)
	}
}

// judge decides whether this node can serve at all. Without vipd, or without
// documents for it, nothing can be muted, so that nothing can be released
// either: renewals stop, and what is owned stays until the grant has ended or
// the trouble has.
func (r *Reconciler) judge(now time.Duration) wish {
	components := r.Config.Components
	vipdOpen, vipdWhy, vipdUntil := r.vipd.open(now, slices.Contains(components, ownership.Vipd),
		r.reports.vipdDaemon, r.book.Node())
	arpdOpen, arpdWhy, arpdUntil := r.announcerOpen(now)
	r.gateUntil = min(vipdUntil, arpdUntil, r.judgeLinkd(now))
	r.notReady = ""
	twinUntil, twin := r.machine.Twin(now)
	if twin {
		r.gateUntil = min(r.gateUntil, twinUntil)
	}
	switch {
	case r.stopping.since != 0:
		r.notReady = "vipod is stopping on this node"
	case twin:
		r.notReady = r.aboutTwin()
	case !vipdOpen:
		r.notReady = vipdWhy
	case !arpdOpen:
		r.notReady = arpdWhy
	case r.unwritten:
		r.notReady = "the state directory cannot be written"
	}
	w := wish{told: true, plan: r.planned, suspended: !vipdOpen && r.vipd.proven || r.unwritten}
	owning := now < r.machine.Grant() || r.lock != nil && now < r.lock.Grant()
	w.ready = r.stopping.since == 0 && !twin && arpdOpen && (vipdOpen && !r.unwritten || w.suspended && owning)
	if cp := r.out.ControlPlane; cp != nil {
		w.controlled = w.ready && cp.Eligible
	}
	return w
}

// groups are the plan's, without those that no longer fit into this node's
// Lease.
func (r *Reconciler) groups() []claim.Group {
	groups := slices.Clone(r.out.Groups)
	r.full = map[int]bool{}
	mine := func(g claim.Group) bool {
		return slices.ContainsFunc(g.Addresses, func(ip addr) bool {
			p := r.machine.State(ip).Phase
			return p == claim.Claiming || p == claim.Owned || p == claim.Draining
		})
	}
	count := 0
	r.machine.Addresses(func(addr, claim.Ownership) { count++ })
	if total := addresses(groups); max(total, count) <= kube.MaxClaims {
		return groups
	}
	room := kube.MaxClaims
	for _, g := range groups {
		if mine(g) {
			room -= len(g.Addresses)
		}
	}
	for i, g := range groups {
		if mine(g) || !g.Eligible {
			continue
		}
		if room -= len(g.Addresses); room < 0 {
			groups[i].Eligible, r.full[i] = false, true
		}
	}
	return groups
}

func addresses(groups []claim.Group) (n int) {
	for _, g := range groups {
		n += len(g.Addresses)
	}
	return n
}

// acknowledge tells the machines which draining addresses vipd has muted or
// removed.
func (r *Reconciler) acknowledge(now time.Duration) {
	r.book.Acknowledge(r.silenced(), r.swept())
	r.book.AcknowledgeLinks(r.reports.links, r.linkdGone)
	exposed := r.book.Exposures()
	var silent []addr
	r.machine.Addresses(func(ip addr, o claim.Ownership) {
		if o.Phase == claim.Draining && !exposed[ip] {
			silent = append(silent, ip)
		}
	})
	for _, ip := range silent {
		r.machine.Silent(now, ip)
	}
	if r.lock != nil && r.lock.Phase() == claim.Draining && !r.book.Exposed(schema.ControlPlaneKey) {
		r.lock.Silent(now)
	}
}

// clearDoubt ends the wait of a process that could not read everything that an
// earlier one left: vipd has gone through complete documents, and what they
// do not want is gone.
func (r *Reconciler) clearDoubt(now time.Duration) {
	if !r.doubt || !r.swept() || len(r.book.Exposures()) > 0 {
		return
	}
	r.doubt = false
	r.Log.Info("nothing is left of an earlier process")
	r.wait(now, false)
}

func (r *Reconciler) wait(now time.Duration, wait bool) {
	r.machine.Wait(now, wait)
	if r.lock != nil {
		r.lock.Wait(now, wait)
	}
}

// swept says whether vipd acts on complete documents, so that what they do
// not want is gone.
func (r *Reconciler) swept() bool {
	d := r.reports.vipdDaemon
	return r.synced && d.Observed == r.book.Node() && works(d)
}
