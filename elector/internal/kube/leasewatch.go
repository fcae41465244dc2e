package kube

import (
	"context"
	"log/slog"
	"maps"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/vipod/vipod/elector/internal/claim"
	"github.com/vipod/vipod/shared/bootclock"
	"github.com/vipod/vipod/shared/trigger"
)

// LeaseEvent is one step of the watch over the nodes' Leases.
type LeaseEvent struct {
	// Relist says that Leases are all there are, in no order.
	Relist bool
	// Deleted says that the Lease is gone.
	Deleted bool
	// Leases holds one Lease unless Relist.
	Leases []NodeLease
	// Seen is when it came, in CLOCK_BOOTTIME.
	Seen time.Duration
}

// WatchLeases sends what happens to the nodes' Leases in the order of the
// watch until ctx ends. A watch that is silent for longer than stall is
// started anew where it stood: each node renews its own Lease more often.
func (c *Client) WatchLeases(ctx context.Context, namespace string, stall time.Duration, to chan<- LeaseEvent) {
	s := c.leaseSource(namespace, stall)
	s.labels = labelManagedBy + "=" + managedBy
	s.run(ctx, &leaseSink{ctx: ctx, log: c.log, to: to, readable: map[string]NodeLease{}})
}

func (c *Client) leaseSource(namespace string, stall time.Duration) *source {
	s := c.source(c.leases, "leases", func() runtime.Object { return &coordinationv1.LeaseList{} })
	s.namespace, s.stall, s.stalled = namespace, stall, c.leaseConns.CloseAll
	s.backoff = trigger.Backoff{Min: 50 * time.Millisecond, Max: 500 * time.Millisecond}
	return s
}

type leaseSink struct {
	ctx context.Context
	log *slog.Logger
	to  chan<- LeaseEvent
	// readable are the nodes' Leases as they could last be read: the holder of
	// one that was spoilt knows nothing of it, and goes on.
	readable map[string]NodeLease
}

func (s *leaseSink) send(e LeaseEvent) {
	e.Seen = bootclock.Now()
	select {
	case s.to <- e:
	case <-s.ctx.Done():
	}
}

func (s *leaseSink) decode(o runtime.Object) (NodeLease, bool) {
	l, ok := o.(*coordinationv1.Lease)
	if !ok {
		return NodeLease{}, false
	}
	lease, ok := decodeLease(l)
	switch {
	case ok && lease.Problem != nil:
		s.log.Warn("Lease cannot be read: what it claimed before counts", "lease", l.Name, "err", lease.Problem)
		last := s.readable[lease.Node]
		lease.Claims, lease.Duration = last.Claims, max(lease.Duration, last.Duration)
	case ok:
		s.readable[lease.Node] = lease
	}
	// Without a version the Lease has no place in the order.
	return lease, ok && lease.Version != 0
}

func (s *leaseSink) relisted(objects []runtime.Object) {
	e := LeaseEvent{Relist: true}
	listed := map[string]bool{}
	for _, o := range objects {
		if l, ok := s.decode(o); ok {
			listed[l.Node] = true
			e.Leases = append(e.Leases, l)
		}
	}
	maps.DeleteFunc(s.readable, func(node string, _ NodeLease) bool { return !listed[node] })
	s.send(e)
}

func (s *leaseSink) changed(o runtime.Object) {
	if l, ok := s.decode(o); ok {
		s.send(LeaseEvent{Leases: []NodeLease{l}})
	}
}

func (s *leaseSink) deleted(o runtime.Object) {
	// Unreadable or not, it is gone.
	if l, ok := s.decode(o); ok {
		delete(s.readable, l.Node)
		s.send(LeaseEvent{Deleted: true, Leases: []NodeLease{l}})
	}
}

// LockEvent is one step of the watch over the control plane's Lease.
type LockEvent struct {
	// Gone says that there is no such Lease.
	Gone   bool
	Record claim.Record
}

// WatchLock sends what happens to the control plane's Lease until ctx ends.
func (c *Client) WatchLock(ctx context.Context, lock *Lock, stall time.Duration, to chan<- LockEvent) {
	s := c.leaseSource(lock.namespace, stall)
	s.fields = "metadata.name=" + lock.name
	s.run(ctx, &lockSink{ctx: ctx, log: c.log, lock: lock, to: to})
}

type lockSink struct {
	ctx  context.Context
	log  *slog.Logger
	lock *Lock
	to   chan<- LockEvent
}

func (s *lockSink) send(e LockEvent) {
	select {
	case s.to <- e:
	case <-s.ctx.Done():
	}
}

func (s *lockSink) relisted(objects []runtime.Object) {
	if len(objects) == 0 {
		s.send(LockEvent{Gone: true})
	}
	for _, o := range objects {
		s.changed(o)
	}
}

func (s *lockSink) changed(o runtime.Object) {
	l, ok := o.(*coordinationv1.Lease)
	if !ok || l.Name != s.lock.name {
		return
	}
	r, err := s.lock.remember(l)
	if err != nil {
		s.log.Warn("the control plane's Lease cannot be read", "lease", l.Name, "err", err)
		return
	}
	s.send(LockEvent{Record: r})
}

func (s *lockSink) deleted(o runtime.Object) {
	if l, ok := o.(*coordinationv1.Lease); ok && l.Name == s.lock.name {
		s.send(LockEvent{Gone: true})
	}
}
