package kube

import (
	"context"
	"net/netip"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/vipod/vipod/elector/internal/claim"
)

// ClusterOptions say what a Cluster follows.
type ClusterOptions struct {
	Identity Identity
	// Namespace is where the node Leases are.
	Namespace string
	// ServicesNamespace limits the Services; "" is all. Without Services
	// none are read.
	Services          bool
	ServicesNamespace string
	// LockNamespace and LockName name the control plane's Lease; an empty
	// name is none. Addresses are its VIPs.
	LockNamespace, LockName string
	Addresses               []netip.Addr
	// NodeAnnotations is a prefix of annotations that are kept of Nodes besides
	// our own; may be empty.
	NodeAnnotations string
	// Stall is the longest silence of the watch over Leases.
	Stall time.Duration
	// Changed is called when a Service, EndpointSlice or Node changed, with
	// the resource and the kind of the change; it must not block.
	Changed func(resource, kind string)
}

// Cluster is all that elector follows and writes in one cluster.
type Cluster struct {
	*Client
	opts     ClusterOptions
	services *Store[*corev1.Service]
	slices   *Store[*discoveryv1.EndpointSlice]
	nodes    *Store[*corev1.Node]
	pods     *pods
	lock     *Lock
	leases   chan LeaseEvent
	locks    chan LockEvent
}

// NewCluster prepares what Run follows.
func NewCluster(c *Client, opts ClusterOptions) *Cluster {
	changed := func(resource string) func(string) {
		return func(kind string) { opts.Changed(resource, kind) }
	}
	k := &Cluster{
		Client: c, opts: opts, nodes: c.Nodes(opts.NodeAnnotations, changed("nodes")),
		// The sender waits when the reader is behind: no event is dropped.
		leases: make(chan LeaseEvent, 256), locks: make(chan LockEvent, 16),
	}
	k.opts.Identity.Acquired = time.Now()
	// Slices also name the API server's addresses, which no VIP may be.
	k.slices = c.EndpointSlices(changed("endpointslices"))
	k.pods = c.pods(opts.Identity.Node, changed("pods"))
	if opts.Services {
		k.services = c.Services(opts.ServicesNamespace, changed("services"))
	}
	if opts.LockName != "" {
		k.lock = c.Lock(opts.LockNamespace, opts.LockName, opts.Identity, opts.Addresses)
	}
	return k
}

// Run follows everything until ctx ends.
func (k *Cluster) Run(ctx context.Context) {
	var wg sync.WaitGroup
	wg.Go(func() { k.WatchLeases(ctx, k.opts.Namespace, k.opts.Stall, k.leases) })
	wg.Go(func() { k.nodes.Run(ctx) })
	wg.Go(func() { k.slices.Run(ctx) })
	wg.Go(func() { k.pods.run(ctx) })
	if k.services != nil {
		wg.Go(func() { k.services.Run(ctx) })
	}
	if k.lock != nil {
		wg.Go(func() { k.WatchLock(ctx, k.lock, k.opts.Stall, k.locks) })
	}
	wg.Wait()
}

// Synced says whether Services, EndpointSlices and Nodes are all known.
func (k *Cluster) Synced() bool {
	return k.nodes.Synced() && k.slices.Synced() && (k.services == nil || k.services.Synced())
}

// Services returns all Services that are followed.
func (k *Cluster) Services() []*corev1.Service {
	if k.services == nil {
		return nil
	}
	return k.services.List()
}

// Service returns one Service.
func (k *Cluster) Service(namespace, name string) (*corev1.Service, bool) {
	if k.services == nil {
		return nil, false
	}
	return k.services.Get(namespace, name)
}

// Slices returns all EndpointSlices.
func (k *Cluster) Slices() []*discoveryv1.EndpointSlice { return k.slices.List() }

// Nodes returns all Nodes.
func (k *Cluster) Nodes() []*corev1.Node { return k.nodes.List() }

// Leases is where the events of the nodes' Leases arrive.
func (k *Cluster) Leases() <-chan LeaseEvent { return k.leases }

// Locks is where the events of the control plane's Lease arrive.
func (k *Cluster) Locks() <-chan LockEvent { return k.locks }

// WriteLease writes this node's Lease.
func (k *Cluster) WriteLease(ctx context.Context, u claim.Update) (uint64, error) {
	id := k.opts.Identity
	if n, ok := k.nodes.Get("", id.Node); ok {
		id.NodeUID = n.UID
	}
	return k.Client.WriteLease(ctx, k.opts.Namespace, id, u)
}

// ReadLease returns the version of this node's Lease, 0 if there is none.
func (k *Cluster) ReadLease(ctx context.Context) (uint64, error) {
	return k.Client.ReadLease(ctx, k.opts.Namespace, k.opts.Identity)
}

// WriteLock writes the control plane's Lease.
func (k *Cluster) WriteLock(ctx context.Context, u claim.LockUpdate) (uint64, error) {
	return k.lock.Write(ctx, u)
}

// ReadLock returns the control plane's Lease; ok is false if there is none.
func (k *Cluster) ReadLock(ctx context.Context) (claim.Record, bool, error) { return k.lock.Read(ctx) }
