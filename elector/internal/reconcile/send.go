package reconcile

import (
	"context"
	"errors"
	"time"

	"github.com/vipod/vipod/elector/internal/claim"
	"github.com/vipod/vipod/elector/internal/kube"
	"github.com/vipod/vipod/shared/bootclock"
)

// leaseTimeout is how long a write of a Lease may take: three of them fit into
// the Lease's duration, so that one lost on the way is not the end.
func (r *Reconciler) leaseTimeout() time.Duration {
	return max(r.Config.LeaseDuration/3, 200*time.Millisecond)
}

// later hands f to the loop.
func (r *Reconciler) later(ctx context.Context, f func()) {
	select {
	case r.calls <- f:
	case <-ctx.Done():
	}
}

// send starts what is due. Each Lease has one update in flight at most; the
// time that counts as sent is taken by Next, before the request exists.
func (r *Reconciler) send(ctx context.Context) {
	if u, ok := r.machine.Next(bootclock.Now()); ok {
		go r.writeLease(ctx, u)
	}
	if r.lock == nil {
		return
	}
	if u, ok := r.lock.Next(bootclock.Now()); ok {
		go r.writeLock(ctx, u)
	}
}

func (r *Reconciler) writeLease(ctx context.Context, u claim.Update) {
	begin := time.Now()
	writeCtx, cancel := context.WithTimeout(ctx, r.leaseTimeout())
	version, err := r.API.WriteLease(writeCtx, u)
	cancel()
	r.count("node", begin, err)
	if err == nil {
		r.later(ctx, func() {
			r.lastClaims, r.leaseErr = len(u.Claims), ""
			r.stopping.unready = !u.Ready
			r.machine.Committed(bootclock.Now(), version)
		})
		return
	}
	r.Log.Warn("writing this node's Lease", "err", err)
	problem := err.Error()
	var read bool
	if errors.Is(err, kube.ErrConflict) {
		readCtx, cancel := context.WithTimeout(ctx, r.leaseTimeout())
		version, err = r.API.ReadLease(readCtx)
		cancel()
		if read = err == nil; !read {
			r.Log.Warn("reading this node's Lease", "err", err)
		}
	}
	r.later(ctx, func() {
		now := bootclock.Now()
		r.leaseErr = problem
		r.machine.Failed(now)
		if read {
			r.machine.Rebase(now, version)
		}
	})
}

func (r *Reconciler) writeLock(ctx context.Context, u claim.LockUpdate) {
	begin := time.Now()
	writeCtx, cancel := context.WithTimeout(ctx, r.leaseTimeout())
	version, err := r.API.WriteLock(writeCtx, u)
	cancel()
	r.count("control-plane", begin, err)
	if err == nil {
		r.later(ctx, func() { r.lock.Committed(bootclock.Now(), version) })
		return
	}
	var record claim.Record
	var read, exists bool
	if errors.Is(err, kube.ErrConflict) { // another node was faster: nothing to tell
		readCtx, cancel := context.WithTimeout(ctx, r.leaseTimeout())
		record, exists, err = r.API.ReadLock(readCtx)
		cancel()
		read = err == nil
	}
	if err != nil {
		r.Log.Warn("writing the control plane's Lease", "err", err)
	}
	r.later(ctx, func() {
		now := bootclock.Now()
		r.lock.Failed(now)
		switch {
		case read && exists:
			r.lock.Rebase(now, record)
		case read:
			r.lock.Forget(now)
		}
	})
}

func (r *Reconciler) count(lease string, begin time.Time, err error) {
	result := "written"
	switch {
	case errors.Is(err, kube.ErrConflict):
		result = "conflict"
	case err != nil:
		result = "unknown"
	}
	r.Metrics.renewals.WithLabelValues(lease, result).Inc()
	if err == nil {
		r.Metrics.renewSeconds.Observe(time.Since(begin).Seconds())
	}
}
