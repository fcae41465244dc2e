package reconcile

import (
	"errors"
	"time"

	"github.com/vipod/vipod/elector/internal/claim"
	"github.com/vipod/vipod/elector/internal/intent"
	"github.com/vipod/vipod/shared/bootclock"
	"github.com/vipod/vipod/shared/schema"
)

// writeAll writes what changed of the documents. When a document cannot be
// written there is no new grant: it might cover what is no longer owned.
func (r *Reconciler) writeAll(now time.Duration) error {
	err := r.writeDocuments()
	if err == nil && r.planned > 0 {
		err = r.writeEgress(now)
	}
	if err == nil {
		err = r.writeGrant()
	}
	if err == nil {
		err = r.writeNode()
	}
	return err
}

// writeFiles writes. As long as vipd gets no new grant the Lease is not
// renewed either, see judge: a node that cannot serve must not keep others
// from it.
func (r *Reconciler) writeFiles(now time.Duration, write func() error) {
	r.retryAt = 0
	err := write()
	r.reportSelf(now, err)
	switch {
	case err != nil:
		r.retryBy(now + r.retry.Failed())
		if !r.unwritten { // once, and not at every attempt
			r.Log.Error("cannot write the state directory", "err", err)
		}
	case r.unwritten:
		r.retryBy(now) // to renew again
		r.Log.Info("the state directory can be written again")
		fallthrough
	default:
		r.retry.Reset()
	}
	r.unwritten = err != nil
}

// writeDocuments writes the VIP documents that changed.
func (r *Reconciler) writeDocuments() error {
	var remove []string
	var put []*schema.VIP
	if r.planned == 0 {
		put = r.book.Carry(r.phase)
	} else {
		remove, put = r.book.Changes(r.documents())
	}
	var errs []error
	for _, key := range remove {
		err := r.book.Drop(key)
		if err == nil {
			r.Log.Info("document", "key", key, "state", "removed")
		}
		errs = append(errs, err)
	}
	for _, doc := range put {
		doc = r.released(doc)
		if doc.State == schema.StateStandby && r.probeAgain[doc.Key] {
			errs = append(errs, r.book.Drop(doc.Key)) // the same again is another document then
		}
		changed, err := r.book.Put(doc)
		if changed {
			r.Log.Info("document", "key", doc.Key, "state", doc.State, "epoch", doc.Epoch, "addresses", prefixes(doc.Addresses))
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// documents are those of the plan as of what this node owns.
func (r *Reconciler) documents() (docs []*schema.VIP) {
	for i := range r.out.VIPs {
		v := &r.out.VIPs[i]
		if v.Spread {
			docs = appendDocument(docs, r.spread(v))
			continue
		}
		docs = append(docs, intent.Documents(*v, r.machine.State, r.book.VIP(v.Key))...)
	}
	docs = append(docs, r.anycast.documents(r.stopping.since != 0, r.book.VIPs())...)
	if cp := r.out.ControlPlane; cp != nil && cp.Spread {
		docs = appendDocument(docs, r.spread(cp))
	}
	if cp := r.out.ControlPlane; cp != nil && r.lock != nil {
		if doc := intent.ControlPlane(*cp, r.lock.Phase(), r.lock.Epoch(), r.book.VIP(cp.Key)); doc != nil {
			docs = append(docs, doc)
		}
	}
	return docs
}

// phase is what this node is to an address under a grant.
func (r *Reconciler) phase(grant schema.GrantName, ip addr) claim.Phase {
	switch {
	case grant != schema.GrantControlPlane:
		return r.machine.State(ip).Phase
	case r.lock != nil:
		return r.lock.Phase()
	}
	return claim.Idle
}

func prefixes(list []schema.Address) []string {
	out := make([]string, 0, len(list))
	for _, a := range list {
		out = append(out, a.Prefix().String())
	}
	return out
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
	synced := r.synced || r.planned > 0 && !r.egressWaits(bootclock.Now())
	changed, err := r.book.WriteNode(&schema.Node{
		Name: cfg.NodeName, Synced: synced, Phase: phase, Components: cfg.Components,
		Settings: schema.Settings{
			InstanceName: cfg.InstanceName, Protocol: cfg.Protocol,
			LeaseDurationMillis:    cfg.LeaseDuration.Milliseconds(),
			AnnounceIntervalMillis: cfg.AnnounceInterval.Milliseconds(),
			MetricsAddress:         cfg.MetricsAddress, LoopbackGlobalScope: cfg.LoopbackGlobalScope,
			InternalNetworks: r.networks,
			RoutingTable:     uint32(cfg.Table.ID), BGP: r.bgp.current, Mirror: mirror(cfg),
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
