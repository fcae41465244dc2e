package kube

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vipod/vipod/elector/internal/claim"
)

// Lock is the control plane's Lease by client-go's rules of leader election,
// which kube-vip follows as well.
type Lock struct {
	client          *Client
	namespace, name string
	identity        Identity
	addresses       []netip.Addr

	mu   sync.Mutex
	last *coordinationv1.Lease // as last seen, nil for never
}

// Lock returns the control plane's Lease of that name. addresses are the VIPs
// that its holder has.
func (c *Client) Lock(namespace, name string, id Identity, addresses []netip.Addr) *Lock {
	return &Lock{client: c, namespace: namespace, name: name, identity: id, addresses: addresses}
}

// Write makes the Lease what the update asks for and returns its new version.
// The error is ErrConflict if the Lease was not the one of the update's base.
func (l *Lock) Write(ctx context.Context, u claim.LockUpdate) (uint64, error) {
	lease, err := l.next(u, time.Now())
	if err != nil {
		return 0, err
	}
	written, err := l.client.writeLease(ctx, lease)
	if err != nil {
		return 0, err
	}
	r, err := l.remember(written)
	return r.Version, err
}

// Read returns the Lease; ok is false if there is none.
func (l *Lock) Read(ctx context.Context) (r claim.Record, ok bool, err error) {
	lease, err := l.client.readLease(ctx, l.namespace, l.name)
	if err != nil || lease == nil {
		return claim.Record{}, false, err
	}
	r, err = l.remember(lease)
	return r, err == nil, err
}

// remember keeps the Lease, so that a write preserves what it does not mean to
// change: a person's annotations, and the count of transitions.
func (l *Lock) remember(lease *coordinationv1.Lease) (claim.Record, error) {
	version, err := parseVersion(lease.ResourceVersion)
	if err != nil {
		return claim.Record{}, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last == nil || l.last.UID != lease.UID || versionOf(l.last) < version {
		l.last = lease
	}
	r := claim.Record{Version: version}
	if lease.Spec.HolderIdentity != nil {
		r.Holder = *lease.Spec.HolderIdentity
	}
	if s := lease.Spec.LeaseDurationSeconds; s != nil && *s > 0 && *s <= maxDurationSeconds {
		r.Duration = time.Duration(*s) * time.Second
	}
	return r, nil
}

func versionOf(l *coordinationv1.Lease) uint64 {
	v, err := parseVersion(l.ResourceVersion)
	if err != nil {
		return 0 // remember keeps none of these
	}
	return v
}

// next returns the Lease to write, as client-go's LeaseLock would.
func (l *Lock) next(u claim.LockUpdate, at time.Time) (*coordinationv1.Lease, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	lease := &coordinationv1.Lease{}
	if l.last != nil && u.Base != 0 {
		lease = l.last.DeepCopy()
	}
	lease.Namespace, lease.Name, lease.ResourceVersion = l.namespace, l.name, formatVersion(u.Base)
	lease.ManagedFields = nil
	if u.Base == 0 {
		lease.UID = ""
	}
	before := ""
	if lease.Spec.HolderIdentity != nil {
		before = *lease.Spec.HolderIdentity
	}
	now, seconds, transitions := metav1.NewMicroTime(at), durationSeconds(l.identity.Duration), int32(0)
	if lease.Spec.LeaseTransitions != nil {
		transitions = *lease.Spec.LeaseTransitions
	}
	if u.Holder != before && u.Holder != "" {
		lease.Spec.AcquireTime = &now
		if l.last != nil && u.Base != 0 {
			transitions++
		}
	}
	if u.Holder == "" {
		seconds = 1 // as client-go releases: nobody has to wait
		lease.Spec.AcquireTime = &now
	}
	lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds = &u.Holder, &seconds
	lease.Spec.RenewTime, lease.Spec.LeaseTransitions = &now, &transitions
	return lease, l.annotate(lease, u.Holder)
}

func (l *Lock) annotate(lease *coordinationv1.Lease, holder string) error {
	if holder == "" {
		delete(lease.Annotations, AnnotationVIPs)
		return nil
	}
	value, err := encodeClaims(l.identity.Instance, l.identity.Protocol, l.addresses)
	if err != nil {
		return fmt.Errorf("writing Lease %s: %w", l.name, err)
	}
	if lease.Annotations == nil {
		lease.Annotations = map[string]string{}
	}
	lease.Annotations[AnnotationVIPs] = value
	return nil
}
