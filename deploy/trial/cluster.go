// Package trial runs vipod in a lab, does something to it, and measures from
// the client what that costs: questions without an answer, the longest
// silence, and which machines claimed an address.
package trial

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"path/filepath"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vipod/vipod/deploy/lab"
)

// Names that the elector writes.
const (
	annotationHost  = "kube-vip.io/vipHost"
	annotationReady = "vipod.io/ready"
	leasePrefix     = "vipod-"
	controlPlane    = "plndr-cp-lock"
)

// poll is how often a state that must come is looked at.
const poll = 20 * time.Millisecond

// Options say what cluster to start.
type Options struct {
	// Name is the lab's.
	Name string
	// Nodes is how many nodes there are; 3 if zero.
	Nodes int
	// Root is the top of the source tree.
	Root string
	// Bin holds the programs; Root's bin if empty.
	Bin string
	// Env is added to the daemons' environment and wins over
	// lab.DefaultEnv.
	Env []string
	Log *slog.Logger
}

// Cluster is a lab in which vipod runs on every node.
type Cluster struct {
	*lab.Lab
}

// Start makes the lab, starts every daemon on every node, and returns when
// every node is ready to own addresses.
func Start(ctx context.Context, o Options) (_ *Cluster, err error) {
	l, err := lab.Up(ctx, lab.Options{
		Name: o.Name, Nodes: o.Nodes, Log: o.Log,
		BinDir:    cmp.Or(o.Bin, filepath.Join(o.Root, "bin")),
		Manifests: []string{filepath.Join(o.Root, "deploy", "manifests", "rbac.yaml")},
		Env:       slices.Concat(lab.DefaultEnv(), o.Env),
	})
	if err != nil {
		return nil, err
	}
	c := &Cluster{Lab: l}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.Down())
		}
	}()
	for _, node := range l.Nodes() {
		if err := l.StartNode(ctx, node); err != nil {
			return nil, err
		}
	}
	return c, c.AwaitReady(ctx, l.Nodes()...)
}

// AwaitReady waits until the nodes say by their Leases that they can own
// addresses.
func (c *Cluster) AwaitReady(ctx context.Context, nodes ...string) error {
	for _, node := range nodes {
		err := c.Await(ctx, node+" is ready", func(ctx context.Context) (bool, error) {
			lease, err := c.lease(ctx, leasePrefix+node)
			return err == nil && lease.Annotations[annotationReady] == "true" && fresh(lease), nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) lease(ctx context.Context, name string) (*coordinationv1.Lease, error) {
	return c.Client().CoordinationV1().Leases(lab.Namespace).Get(ctx, name, metav1.GetOptions{})
}

// fresh says whether a Lease was renewed within its duration, by the wall
// clock that all nodes of a lab share.
func fresh(lease *coordinationv1.Lease) bool {
	spec := lease.Spec
	return spec.RenewTime != nil && spec.LeaseDurationSeconds != nil &&
		time.Since(spec.RenewTime.Time) < time.Duration(*spec.LeaseDurationSeconds)*time.Second
}

// Await waits until done says so, and else says what it waited for.
func (c *Cluster) Await(ctx context.Context, what string, done func(context.Context) (bool, error)) error {
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for {
		ok, err := done(ctx)
		if err != nil {
			return fmt.Errorf("waiting until %s: %w", what, err)
		}
		if ok {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting until %s: %w", what, ctx.Err())
		case <-tick.C:
		}
	}
}

// Owner returns the node that the Service in namespace default says it is on,
// "" for none.
func (c *Cluster) Owner(ctx context.Context, service string) (string, error) {
	s, err := c.Client().CoreV1().Services(metav1.NamespaceDefault).Get(ctx, service, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("looking for the owner of Service %s: %w", service, err)
	}
	if len(s.Status.LoadBalancer.Ingress) == 0 {
		return "", nil
	}
	return s.Annotations[annotationHost], nil
}

// AwaitOwner waits until the Service is up on another node than the given
// one, "" for any, and returns it.
func (c *Cluster) AwaitOwner(ctx context.Context, service, other string) (owner string, err error) {
	err = c.Await(ctx, "Service "+service+" has an owner", func(ctx context.Context) (bool, error) {
		owner, err = c.Owner(ctx, service)
		return owner != "" && owner != other, err
	})
	return owner, err
}

// ControlPlaneOwner returns the holder of the control plane's Lease.
func (c *Cluster) ControlPlaneOwner(ctx context.Context) (string, error) {
	lease, err := c.lease(ctx, controlPlane)
	if err != nil {
		return "", fmt.Errorf("looking for the control plane's owner: %w", err)
	}
	if lease.Spec.HolderIdentity == nil || !fresh(lease) {
		return "", nil
	}
	return *lease.Spec.HolderIdentity, nil
}

// AwaitAnswer waits until a pod answers over HTTP at the address, from the
// client, and returns the answer.
func (c *Cluster) AwaitAnswer(ctx context.Context, addr netip.AddrPort) (answer lab.Answer, err error) {
	err = c.Await(ctx, addr.String()+" answers", func(ctx context.Context) (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		var failed error
		answer, failed = c.Get(ctx, clientRole, addr)
		return failed == nil, nil
	})
	return answer, err
}
