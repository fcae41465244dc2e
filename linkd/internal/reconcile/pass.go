package reconcile

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/vipod/vipod/linkd/internal/desired"
	"github.com/vipod/vipod/linkd/internal/plan"
	"github.com/vipod/vipod/shared/bootclock"
)

type addr = netip.Addr

// pass reads everything, makes links and clients match and reports.
func (r *Reconciler) pass() {
	start := time.Now()
	r.next = start.Add(never)
	err := r.tryPass()
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
	if len(r.failed) > 0 {
		r.soon(time.Now().Add(r.retry.Failed()))
	} else {
		r.retry.Reset()
	}
	r.report()
	if retry, ok := r.self.Finish(); !ok {
		r.soon(time.Now().Add(retry))
	}
	r.lastPass = time.Now()
	r.Metrics.pass(r.lastPass.Sub(start), err)
	r.wake.Reset(min(time.Until(r.next), r.untilGrantEnd(bootclock.Now())))
}

// soon makes the next pass come no later than at.
func (r *Reconciler) soon(at time.Time) {
	if at.Before(r.next) {
		r.next = at
	}
}

func (r *Reconciler) input() desired.Input {
	return desired.Input{
		Instance: r.docs.Settings().InstanceName, VIPs: r.docs.VIPs, Grants: r.docs.Grants,
		Complete: r.docs.Complete, Now: bootclock.Now(),
	}
}

func (r *Reconciler) tryPass() (err error) {
	r.acted = false
	r.docs = r.reader.Load()
	if r.docs.Node == nil {
		return nil // absent is not empty
	}
	in := r.input()
	r.grantEnd = in.GrantEnd()
	r.desired = desired.Of(in)
	if r.state, err = r.Kernel.Observe(); err != nil {
		return err
	}
	r.endClients()
	if err := r.change(plan.Plan(r.desired.Desired, r.state.Actual)); err != nil {
		return err
	}
	r.verdicts = plan.Judge(r.desired.Desired, r.state.Actual)
	r.startClients()
	r.acted = true
	return nil
}

// change makes the operations. One that fails concerns its own link.
func (r *Reconciler) change(ops []plan.Op) (err error) {
	before := r.failed
	r.failed = map[string]error{}
	for _, op := range ops {
		name := op.Of()
		if r.failed[name] != nil {
			continue
		}
		if err := r.Kernel.Do(op); err != nil {
			r.failed[name] = err
			r.Metrics.failed(op)
			if old := before[name]; old == nil || old.Error() != err.Error() {
				r.Log.Error("link failed", "iface", name, "err", err)
			}
			continue
		}
		r.logChange(op)
		r.Pulse.Answer()
	}
	if len(ops) > 0 {
		r.state, err = r.Kernel.Observe()
	}
	return err
}

func (r *Reconciler) logChange(op plan.Op) {
	switch o := op.(type) {
	case plan.Add:
		r.Log.Info("link added", "iface", o.Name, "kind", o.Kind, "parent", o.Parent, "owner", o.Users[0])
	case plan.Delete:
		r.Log.Info("link removed", "iface", o.Name)
	default:
		r.Log.Info("link changed", "iface", op.Of(), "op", op.String())
	}
}

// CleanUp removes every link of ours. Leases are not given back: another node
// goes on with them. It must not be called while Run runs.
func (r *Reconciler) CleanUp() error {
	if r.docs.Node == nil {
		return nil // nothing was ever ours to remove
	}
	state, err := r.Kernel.Observe()
	if err != nil {
		return err
	}
	var errs []error
	all := plan.Desired{Instance: r.docs.Settings().InstanceName, Sweep: true}
	for _, op := range plan.Plan(all, state.Actual) {
		if err := r.Kernel.Do(op); err != nil {
			errs = append(errs, err)
			continue
		}
		r.logChange(op)
	}
	for _, key := range r.links.Names() {
		errs = append(errs, r.links.Remove(key))
	}
	if err := errors.Join(append(errs, r.self.CleanUp())...); err != nil {
		return fmt.Errorf("cleaning up: %w", err)
	}
	return nil
}
