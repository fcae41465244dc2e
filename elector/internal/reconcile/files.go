package reconcile

import (
	"errors"
	"time"

	"github.com/vipod/vipod/elector/internal/claim"
	"github.com/vipod/vipod/elector/internal/intent"
	"github.com/vipod/vipod/shared/schema"
)

// writeFiles writes what changed of the documents. When a document cannot be
// written there is no new grant: it might cover what is no longer owned.
func (r *Reconciler) writeFiles(now time.Duration) {
	r.retryAt = 0
	err := r.writeDocuments()
	if err == nil {
		err = r.writeGrant()
	}
	if err == nil {
		err = r.writeNode()
	}
	if err != nil {
		wait := r.retry.Failed()
		r.retryAt = now + wait
		r.Log.Error("writing the state directory", "err", err, "retry", wait.Round(time.Millisecond))
		return
	}
	r.retry.Reset()
}

// carryOn keeps the documents that an earlier process left as long as there
// is no plan: absent is not empty. Those that this node has forfeited are
// withdrawn, since the next grant would open the fence over them. Without a
// document vipd would leave their addresses where they are, until the
// documents are complete.
func (r *Reconciler) carryOn() error {
	var errs []error
	for _, doc := range r.book.VIPs() {
		phase := func(ip addr) claim.Phase { return r.machine.State(ip).Phase }
		if doc.Grant == schema.GrantControlPlane {
			phase = func(addr) claim.Phase { return r.lockPhase() }
		}
		if next := intent.Resumed(*doc, phase); next.State != doc.State {
			errs = append(errs, r.put(next))
		}
	}
	return errors.Join(errs...)
}

func (r *Reconciler) lockPhase() claim.Phase {
	if r.lock == nil {
		return claim.Idle
	}
	return r.lock.Phase()
}

// writeDocuments writes the VIP documents.
func (r *Reconciler) writeDocuments() error {
	if r.planned == 0 {
		return r.carryOn()
	}
	var errs []error
	wanted := map[string]*schema.VIP{}
	for i := range r.out.VIPs {
		v := &r.out.VIPs[i]
		for _, doc := range intent.Documents(*v, r.machine.State, r.book.VIP(v.Key)) {
			wanted[doc.Key] = doc
		}
	}
	if cp := r.out.ControlPlane; cp != nil && r.lock != nil {
		doc := intent.ControlPlane(*cp, r.lock.Phase(), r.lock.Epoch(), r.book.VIP(cp.Key))
		if doc != nil {
			wanted[doc.Key] = doc
		}
	}
	for key, doc := range r.book.VIPs() { // removals first
		if wanted[key] == nil {
			errs = append(errs, r.withdraw(*doc))
		}
	}
	for _, doc := range wanted {
		if was := r.book.VIP(doc.Key); doc.State != schema.StateActive || was == nil {
			errs = append(errs, r.put(doc))
			delete(wanted, doc.Key)
		}
	}
	for _, doc := range wanted {
		errs = append(errs, r.put(doc))
	}
	return errors.Join(errs...)
}

func (r *Reconciler) put(doc *schema.VIP) error {
	if r.book.Awaits(doc) {
		return nil // vipd's answer causes the next pass
	}
	changed, err := r.book.Put(doc)
	if changed {
		r.Log.Info("document", "key", doc.Key, "state", doc.State, "epoch", doc.Epoch, "addresses", prefixes(doc.Addresses))
	}
	return err
}

func prefixes(list []schema.Address) []string {
	out := make([]string, 0, len(list))
	for _, a := range list {
		out = append(out, a.Prefix().String())
	}
	return out
}

// withdraw removes a document that nobody wants. While an address may be
// active because of it, the document becomes a withdrawn one first: only a
// document can have vipd answer that the address is gone.
func (r *Reconciler) withdraw(doc schema.VIP) error {
	if r.book.Exposed(doc.Key) {
		return r.put(intent.Withdrawn(doc))
	}
	if err := r.book.Drop(doc.Key); err != nil {
		return err
	}
	r.Log.Info("document", "key", doc.Key, "state", "removed")
	return nil
}

func (r *Reconciler) writeGrant() error {
	grants := map[schema.GrantName]time.Duration{schema.GrantNode: r.machine.Grant()}
	if r.lock != nil {
		grants[schema.GrantControlPlane] = r.lock.Grant()
	}
	return r.book.WriteGrant(grants)
}

// writeNode writes node.json. It says synced once the documents of a plan are
// written, and goes on saying so.
func (r *Reconciler) writeNode() error {
	cfg := r.Config
	phase := schema.PhaseRunning
	switch {
	case r.stopping.done:
		phase = schema.PhaseStopped
	case r.stopping.since != 0:
		phase = schema.PhaseStopping
	}
	synced := r.synced || r.planned > 0
	changed, err := r.book.WriteNode(&schema.Node{
		Name: cfg.NodeName, Synced: synced, Phase: phase, Components: cfg.Components,
		Settings: schema.Settings{
			InstanceName: cfg.InstanceName, Protocol: cfg.Protocol,
			LeaseDurationMillis:    cfg.LeaseDuration.Milliseconds(),
			AnnounceIntervalMillis: cfg.AnnounceInterval.Milliseconds(),
			MetricsAddress:         cfg.MetricsAddress, LoopbackGlobalScope: cfg.LoopbackGlobalScope,
		},
	})
	if err != nil {
		return err
	}
	if changed {
		r.Log.Info("node document", "phase", phase, "synced", synced)
	}
	r.synced = synced
	return nil
}
