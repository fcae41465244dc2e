package reconcile

import (
	"context"
	"log/slog"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vipod/vipod/elector/internal/claim"
	"github.com/vipod/vipod/elector/internal/config"
	"github.com/vipod/vipod/elector/internal/kube"
	"github.com/vipod/vipod/elector/internal/names"
	"github.com/vipod/vipod/shared/trigger"
)

// API is what elector reads from and writes to the cluster; kube.Cluster is
// the real one.
type API interface {
	Synced() bool
	Services() []*corev1.Service
	Service(namespace, name string) (*corev1.Service, bool)
	Slices() []*discoveryv1.EndpointSlice
	Nodes() []*corev1.Node
	// Pods are this node's, known while FollowPods was last told true and
	// PodsSynced says so.
	Pods() []*corev1.Pod
	PodsSynced() bool
	FollowPods(want bool)
	Leases() <-chan kube.LeaseEvent
	Locks() <-chan kube.LockEvent
	// Host is the API server's address if it is known as one.
	Host() (netip.Addr, bool)

	WriteLease(context.Context, claim.Update) (uint64, error)
	ReadLease(context.Context) (uint64, error)
	WriteLock(context.Context, claim.LockUpdate) (uint64, error)
	ReadLock(context.Context) (claim.Record, bool, error)
	WriteServiceStatus(context.Context, kube.ServiceStatus) error
	CreateEvent(ctx context.Context, node string, e kube.Event, now time.Time) (types.NamespacedName, error)
	CountEvent(ctx context.Context, name types.NamespacedName, count int, now time.Time) error
}

var _ API = (*kube.Cluster)(nil)

// Options are what a Reconciler works with.
type Options struct {
	Log      *slog.Logger
	Config   *config.Config
	StateDir string
	BootID   string
	// Writer is this machine as it stands in its Lease; "" tells none apart.
	Writer string
	API    API
	// Changed fires when a Service, EndpointSlice or Node changed.
	Changed *trigger.Trigger
	// Ask returns nil when the named daemon answers that it is well.
	Ask func(ctx context.Context, daemon string) error
	// Query asks for the addresses of a host name.
	Query names.Query
	// Healthy returns nil when the API server on this node is well; nil
	// without a control plane's VIP.
	Healthy func(ctx context.Context) error
	// UID returns a daemon's uid, as ownership.UID does.
	UID func(daemon string) int
	// Server asks the API server at an address whether it is well; needed where
	// connections are spread.
	Server  func(ctx context.Context, server netip.AddrPort) error
	Metrics *Metrics
}
