package kube

import (
	"context"
	"errors"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/vipod/vipod/elector/internal/claim"
)

// ErrConflict is a write that was refused because the object is not, or no
// longer, the one that it was based on. Any other error of a write leaves
// open whether it was done.
var ErrConflict = errors.New("object has changed")

// WriteLease makes this node's Lease what the update asks for and returns its
// new version.
func (c *Client) WriteLease(ctx context.Context, namespace string, id Identity, u claim.Update) (uint64, error) {
	lease, err := encodeLease(namespace, id, u, time.Now())
	if err != nil {
		return 0, err
	}
	written, err := c.writeLease(ctx, lease)
	if err != nil {
		return 0, err
	}
	return parseVersion(written.ResourceVersion)
}

// ReadLease returns the version of this node's Lease, 0 if there is none. That
// of another machine of the same name is an error: nothing may be based on it
// before the watch has told since when it stands unchanged.
func (c *Client) ReadLease(ctx context.Context, namespace string, id Identity) (uint64, error) {
	lease, err := c.readLease(ctx, namespace, LeaseName(id.Node))
	if err != nil || lease == nil {
		return 0, err
	}
	if writer := lease.Annotations[annotationWriter]; writer != "" && id.Writer != "" && writer != id.Writer {
		return 0, fmt.Errorf("reading Lease %s: another machine, %s, wrote it", lease.Name, writer)
	}
	return parseVersion(lease.ResourceVersion)
}

// writeLease creates the Lease if it has no resourceVersion and else replaces
// the one that has it.
func (c *Client) writeLease(ctx context.Context, lease *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	request := c.leases.Post().Namespace(lease.Namespace).Resource("leases")
	if lease.ResourceVersion != "" {
		request = c.leases.Put().Namespace(lease.Namespace).Resource("leases").Name(lease.Name)
	}
	written := &coordinationv1.Lease{}
	err := request.Body(lease).MaxRetries(0).Do(ctx).Into(written)
	switch {
	case err == nil:
		return written, nil
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err), apierrors.IsNotFound(err):
		return nil, fmt.Errorf("writing Lease %s: %w: %w", lease.Name, ErrConflict, err)
	case ctx.Err() != nil:
		c.Reconnect() // the path may be dead while its connections look alive
	}
	return nil, fmt.Errorf("writing Lease %s: %w", lease.Name, err)
}

// readLease returns the Lease as it is now, nil if there is none.
func (c *Client) readLease(ctx context.Context, namespace, name string) (*coordinationv1.Lease, error) {
	lease := &coordinationv1.Lease{}
	err := c.leases.Get().Namespace(namespace).Resource("leases").Name(name).MaxRetries(0).Do(ctx).Into(lease)
	switch {
	case err == nil:
		return lease, nil
	case apierrors.IsNotFound(err):
		return nil, nil
	case ctx.Err() != nil:
		c.Reconnect()
	}
	return nil, fmt.Errorf("reading Lease %s: %w", name, err)
}
