package reconcile

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"time"

	"github.com/vipod/vipod/egressd/internal/desired"
	"github.com/vipod/vipod/egressd/internal/plan"
	"github.com/vipod/vipod/egressd/internal/tunnel"
	"github.com/vipod/vipod/shared/bootclock"
	"github.com/vipod/vipod/shared/intent"
)

// never is a wait that some other event ends, the resync at the latest.
const never = time.Hour

// pass reads everything, makes the kernel match and reports.
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
	r.reportAll()
	if retry, ok := r.report.Finish(); !ok {
		r.soon(time.Now().Add(retry))
	}
	r.Metrics.pass(time.Since(start), err)
	r.atEndOfGrant(time.Now(), bootclock.Now())
}

// soon makes the next pass come no later than at.
func (r *Reconciler) soon(at time.Time) {
	if at.Before(r.next) {
		r.next = at
	}
}

func (r *Reconciler) tryPass() error {
	r.load()
	if r.docs.Node == nil {
		return nil // absent is not empty
	}
	r.open(r.docs.Settings().InstanceName)
	r.mirror()
	before := r.wanted
	r.wanted = desired.Of(desired.Input{
		Internal: r.docs.Settings().InternalNetworks, VIPs: r.docs.VIPs, Egress: r.docs.egress,
		Held: r.docs.held, Complete: r.docs.Complete, Ways: r.makeWays(), Tunnels: r.tunnels.list,
	})
	r.stale.ended(before, r.wanted)
	r.tunnels.silence(r.wanted)
	if err := r.converge(); err != nil {
		return err
	}
	if err := r.permit(); err != nil {
		return err
	}
	if wait := r.tunnels.bring(r.wanted); wait > 0 {
		r.soon(time.Now().Add(wait))
	}
	return errors.Join(r.sweepWays(), r.forget())
}

// load reads the documents.
func (r *Reconciler) load() {
	r.docs.Documents = r.reader.Load()
	r.docs.Problems = maps.Clone(r.docs.Problems)
	r.docs.held = r.docs.Grants.Held(bootclock.Now())
	docs, problems, err := r.egress.Load()
	r.docs.egress = docs
	if err != nil {
		// An elector that knows nothing of egress makes no directory.
		r.docs.Complete = r.docs.Complete && errors.Is(err, fs.ErrNotExist)
		r.docs.Problems.Add("egress", err)
	}
	// A new elector may have begun in between, whose documents are not all
	// there yet.
	if node, err := intent.ReadNode(r.StateDir); err != nil || node.Seen() != r.docs.Seen() {
		r.docs.Complete = false
	}
	seen := map[string]string{}
	for name, err := range problems {
		file := "egress/" + name + ".json"
		r.docs.Problems.Add(file, err)
		_, kept := docs[name]
		r.docs.Complete = r.docs.Complete && kept
		seen[file] = err.Error()
		if r.refused[file] != err.Error() {
			r.Log.Warn("document refused", "file", file, "err", err)
			r.Metrics.rejected.Inc()
		}
	}
	r.refused = seen
	r.tunnels.read()
	r.docs.Problems.Add("tunnels", errors.Join(r.tunnels.problem, r.tunnels.lacking))
}

// open opens the kernel with the tables of the instance.
func (r *Reconciler) open(instance string) {
	if r.kernel != nil && r.instance == instance {
		return
	}
	r.kernel, r.instance = r.Open(instance), instance
	r.known = false
	r.tunnels.alias, r.tunnels.looked = tunnel.Alias(instance), false
	r.tunnels.kernel = r.Tunnels.Open(uint8(r.docs.Settings().Protocol))
	r.Metrics.tunnels.device.Store(&deviceReader{r.tunnels.kernel, r.tunnels.alias})
}

// mistrust is after how many failures of transactions in a row the tables are
// made anew, whatever they seem to hold.
const mistrust = 2

// converge makes the plan's operations.
func (r *Reconciler) converge() error {
	if r.touched.Swap(false) || !r.known {
		r.known = false
		actual, err := r.kernel.Observe()
		if err != nil {
			return err
		}
		r.actual, r.known = actual, true
	}
	actual := r.actual
	if r.failures >= mistrust {
		actual = damaged(actual)
	}
	ops := plan.Plan(r.wanted.Desired, actual)
	if len(ops) == 0 {
		return nil
	}
	if err := r.kernel.Do(ops); err != nil {
		r.known = false
		r.failures++
		r.Metrics.kernelErrors.Inc()
		return err
	}
	r.failures = 0
	r.stale.add(ops, actual, r.wanted)
	r.actual = plan.Apply(r.actual, ops...)
	r.logChanges(ops)
	return nil
}

// damaged takes every table for one that must be made anew.
func damaged(a plan.Actual) plan.Actual {
	out := plan.Actual{Tables: plan.Tables{}, Damaged: maps.Clone(a.Damaged)}
	if out.Damaged == nil {
		out.Damaged = map[plan.Kind]bool{}
	}
	for kind := range a.Tables {
		out.Damaged[kind] = true
	}
	return out
}

// logChanges logs a transaction.
func (r *Reconciler) logChanges(ops []plan.Op) {
	added, removed := 0, 0
	for _, op := range ops {
		switch op.(type) {
		case plan.AddElement:
			added++
		case plan.DelElement:
			removed++
		default:
			r.Log.Info("table changed", "op", op.String())
		}
		r.Log.Debug("rules", "op", op.String())
	}
	r.Log.Info("rules changed", "added", added, "removed", removed, "first", ops[len(ops)-1].String())
}

// forget has the kernel forget the connections that would not come to be as
// they are any more.
func (r *Reconciler) forget() error {
	n, err := r.stale.forget(r.kernel, r.wanted)
	r.Metrics.forgotten.Add(float64(n))
	if n > 0 {
		r.Log.Info("connections forgotten", "count", n)
	}
	if err != nil {
		return fmt.Errorf("looking through connections: %w", err)
	}
	return nil
}

// CleanUp removes everything of ours. It must not be called while Run runs.
func (r *Reconciler) CleanUp() error {
	if r.kernel == nil {
		return nil // nothing was ever ours to remove
	}
	r.known = false
	r.wanted = desired.Of(desired.Input{Complete: true, Tunnels: r.tunnels.list})
	r.tunnels.silence(r.wanted)
	_, err := r.Mirror(r.docs.Settings().InstanceName).Set("", "")
	return errors.Join(r.converge(), r.ways().Sweep(nil), err, r.forget(), r.report.CleanUp())
}
