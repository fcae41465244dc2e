package reconcile

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/vipod/vipod/shared/netsafe"
	"github.com/vipod/vipod/shared/schema"
	"github.com/vipod/vipod/vipd/internal/desired"
	"github.com/vipod/vipod/vipd/internal/kernel"
	"github.com/vipod/vipod/vipd/internal/plan"
)

// defaultProtocol tells our addresses from the node's own until the node
// document says which they are.
const defaultProtocol = 248

// never is a wait that some other event ends, the resync at the latest.
const never = time.Hour

// pass reads everything, makes the kernel match and reports.
func (r *Reconciler) pass() {
	start := time.Now()
	r.next = start.Add(never)
	err := r.tryPass(start)
	switch {
	case err != nil:
		if r.passErr == nil || r.passErr.Error() != err.Error() {
			r.Log.Error("pass failed", "err", err)
		}
		r.soon(time.Now().Add(r.backoff.Failed()))
	case r.passErr != nil:
		r.Log.Info("passes work again")
		fallthrough
	default:
		r.backoff.Reset()
	}
	r.passErr = err
	if len(r.failed)+len(r.routing.failed)+len(r.anycasting.failed) > 0 {
		r.soon(time.Now().Add(r.retry.Failed()))
	} else {
		r.retry.Reset()
	}
	r.reportAll()
	if retry, ok := r.report.Finish(); !ok {
		r.soon(time.Now().Add(retry))
	}
	r.lastPass = time.Now()
	r.Metrics.pass(r.lastPass.Sub(start), err)
	r.wake.Reset(time.Until(r.next))
}

// soon makes the next pass come no later than at.
func (r *Reconciler) soon(at time.Time) {
	if at.Before(r.next) {
		r.next = at
	}
}

func (r *Reconciler) tryPass(start time.Time) error {
	r.acted = false
	r.docs = r.reader.Load()
	r.loadLinks()
	if r.docs.Node != nil {
		if err := r.open(kernel.TableName(r.docs.Settings().InstanceName)); err != nil {
			return err
		}
	}
	actual, err := r.kernel.Observe()
	if err != nil {
		return err
	}
	if again := r.links.Update(start, &actual, r.protocol()); !again.IsZero() {
		r.soon(again)
	}
	r.actual = actual
	// Others wait for news of links, not for the rest of the pass.
	r.reportLinks()
	if r.docs.Node == nil {
		return nil // absent is not empty
	}
	r.desired = r.wanted()
	r.noteRouted()
	return errors.Join(r.converge(), r.convergeRoutes(), r.convergeAnycast())
}

// wanted is what the documents want as of now.
func (r *Reconciler) wanted() plan.Desired {
	in := desired.Input{
		Settings: r.docs.Settings(), Components: r.docs.Node.Components, VIPs: r.docs.VIPs, Grants: r.docs.Grants, Complete: r.docs.Complete,
		Now: now(), Fence: r.fence, Links: r.lent, Boot: r.Boot,
	}
	if end := in.LeaseEnd(); end != 0 {
		r.soon(time.Now().Add(end - in.Now))
	}
	return desired.Of(in)
}

// loadLinks reads linkd's reports. What cannot be read stays as it was: a lease
// ends by itself.
func (r *Reconciler) loadLinks() {
	lent, problems, err := r.linkSet.Load()
	r.docs.Problems.Add("linkd/links", err)
	for name, err := range problems {
		r.docs.Problems.Add("linkd/links/"+name+".json", err)
	}
	r.lent = lent
}

// protocol marks our addresses.
func (r *Reconciler) protocol() uint8 {
	if r.docs.Node == nil {
		return defaultProtocol
	}
	return uint8(r.docs.Settings().Protocol)
}

// open opens the kernel with the fence's table of that name.
func (r *Reconciler) open(table string) error {
	if r.table == table {
		return nil
	}
	k, fence, err := r.Open(table)
	if err != nil {
		return err
	}
	r.kernel, r.fence = k, fence
	r.table, r.given = table, schema.Grants{}
	return nil
}

// converge makes the plan's operations, stage by stage. An address that cannot
// be added concerns its VIP alone and is no error here.
func (r *Reconciler) converge() error {
	r.adopt()
	stages := map[plan.Stage][]plan.Op{}
	for _, op := range plan.Plan(r.desired, r.actual) {
		stages[op.Stage()] = append(stages[op.Stage()], op)
	}
	before := r.failed
	r.failed = map[netip.Addr]error{}
	if err := r.do(stages[plan.Close]); err != nil {
		return fmt.Errorf("closing the fence: %w", err)
	}
	removed := r.do(stages[plan.Remove])
	_ = r.do(stages[plan.Add]) // in r.failed
	r.logFailures(before)
	if removed != nil {
		return errors.Join(removed, r.keepOpen(r.docs.Grants))
	}
	r.acted = true
	opened := r.do(stages[plan.Open])
	given := r.give(r.docs.Grants)
	r.scheduleRefresh()
	return errors.Join(opened, given)
}

// adopt tells once of the addresses that an earlier process added, perhaps just
// before it ended.
func (r *Reconciler) adopt() {
	if r.adopted {
		return
	}
	r.adopted = true
	for _, a := range r.actual.Addresses {
		if a.Protocol == r.desired.Protocol {
			r.Added(a.Prefix.Addr())
		}
	}
}

// do makes the operations of one stage. Those on addresses go in chunks, so
// that thousands of them do not keep a grant from being prolonged.
func (r *Reconciler) do(ops []plan.Op) error {
	if len(ops) == 0 {
		return nil
	}
	size := len(ops)
	if s := ops[0].Stage(); s == plan.Remove || s == plan.Add {
		size = chunk
	}
	var errs []error
	var done []plan.Op
	for part := range slices.Chunk(ops, size) {
		for i, err := range r.kernel.Do(part) {
			if err == nil {
				done = append(done, part[i])
				if o, ok := part[i].(plan.AddAddress); ok {
					r.Added(o.Prefix.Addr())
				}
				continue
			}
			errs = append(errs, err)
			r.fail(part[i], err)
		}
		r.between()
	}
	r.actual = plan.Apply(r.actual, done...)
	r.logChanges(done)
	return short(errs)
}

func (r *Reconciler) fail(op plan.Op, err error) {
	name, _, _ := strings.Cut(strings.TrimPrefix(fmt.Sprintf("%T", op), "plan."), "{")
	r.Metrics.kernelErrors.WithLabelValues(name).Inc()
	switch o := op.(type) {
	case plan.AddAddress:
		r.failed[o.Prefix.Addr()] = err
	case plan.Refresh:
		r.failed[o.Prefix.Addr()] = err
	}
}

// logFailures logs what cannot be done to single addresses, each once.
func (r *Reconciler) logFailures(before map[netip.Addr]error) {
	for ip, err := range r.failed {
		if old := before[ip]; old == nil || old.Error() != err.Error() {
			r.Log.Error("address failed", "addr", ip, "err", err)
		}
	}
}

// short joins the first of many errors.
func short(errs []error) error {
	const most = 5
	if len(errs) > most {
		errs = append(errs[:most:most], fmt.Errorf("and %d more", len(errs)-most))
	}
	return errors.Join(errs...)
}

// between answers what cannot wait for the end of a long pass.
func (r *Reconciler) between() {
	select {
	case <-r.Renewed.C():
		if !r.prolong() {
			r.Renewed.Fire()
		}
	default:
	}
	r.Pulse.Answer()
}

// logChanges logs what was changed; prolonging lives changes nothing.
func (r *Reconciler) logChanges(done []plan.Op) {
	for _, op := range done {
		switch o := op.(type) {
		case plan.AddAddress:
			r.Log.Info("address added", "addr", o.Prefix, "iface", o.Link)
		case plan.DelAddress:
			r.Log.Info("address removed", "addr", o.Prefix, "iface", o.Link)
		case plan.Mute:
			r.Log.Info("address muted", "addr", o.IP)
		case plan.AddTable, plan.DelTable, plan.AddChain, plan.DelChain:
			r.Log.Info("fence changed", "op", op.String())
		case plan.Refresh:
		default:
			r.Log.Debug("fence changed", "op", op.String())
		}
	}
}

// scheduleRefresh makes the next pass come when the first address is to get
// a new lifetime.
func (r *Reconciler) scheduleRefresh() {
	below := map[netip.Addr]uint32{}
	for _, w := range r.desired.Wants {
		if w.Granted && !w.Lent {
			below[w.Prefix.Addr()] = w.RefreshBelow
		}
	}
	for _, a := range r.actual.Addresses {
		limit, ok := below[a.Prefix.Addr()]
		if ok && a.Protocol == r.desired.Protocol && a.Valid != netsafe.Forever && a.Valid >= limit && r.fence {
			r.soon(time.Now().Add(time.Duration(a.Valid-limit+1) * time.Second))
		}
	}
}

// CleanUp removes everything of ours. It must not be called while Run runs.
func (r *Reconciler) CleanUp() error {
	if r.docs.Node == nil {
		return nil // nothing was ever ours to remove
	}
	actual, err := r.kernel.Observe()
	if err != nil {
		return err
	}
	r.actual = actual
	r.desired = plan.Desired{Protocol: r.protocol(), Sweep: true, Fence: r.fence}
	r.docs.Grants = schema.Grants{}
	if err := errors.Join(r.converge(), r.removeRoutes(), r.removeAnycast()); err != nil {
		return err
	}
	return r.report.CleanUp()
}
