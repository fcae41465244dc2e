package main

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"text/tabwriter"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vipod/vipod/deploy/lab"
	"github.com/vipod/vipod/deploy/trial"
)

const (
	service = "web"
	udpPort = 9090
)

// demo is the cluster and what was found so far.
type demo struct {
	*trial.Cluster
	out  io.Writer
	rows []row
}

// row is one fault's result for one address.
type row struct {
	fault string
	what  string
	seen  trial.Seen
	from  string
	to    string
}

// fault is something bad that happens to the owner of the addresses.
type fault struct {
	name string
	// moves says whether another node must take over.
	moves bool
	do    func(context.Context, *demo, string) error
	// after the observation: what makes the node whole again.
	mend func(context.Context, *demo, string) error
}

var faults = []fault{
	{
		name: "graceful stop", moves: true,
		do: func(ctx context.Context, d *demo, node string) error {
			return d.StopNode(ctx, node, unix.SIGTERM)
		},
		mend: func(ctx context.Context, d *demo, node string) error { return d.StartNode(ctx, node) },
	},
	{
		name: "network cut", moves: true,
		do:   func(ctx context.Context, d *demo, node string) error { return d.Cut(ctx, node) },
		mend: func(ctx context.Context, d *demo, node string) error { return d.Heal(ctx, node) },
	},
	{
		name: "SIGKILL of all daemons", moves: true,
		do:   func(ctx context.Context, d *demo, node string) error { return d.KillNode(ctx, node) },
		mend: func(ctx context.Context, d *demo, node string) error { return d.StartNode(ctx, node) },
	},
	{
		name: "SIGKILL, restarted at once",
		do: func(ctx context.Context, d *demo, node string) error {
			if err := d.KillNode(ctx, node); err != nil {
				return err
			}
			return d.StartNode(ctx, node)
		},
		mend: func(context.Context, *demo, string) error { return nil },
	},
}

// show brings up the Service and shows that it and the control plane answer.
func (d *demo) show(ctx context.Context) error {
	pods, err := d.Pods()
	if err != nil {
		return err
	}
	var names []string
	for _, p := range pods {
		names = append(names, p.Name)
	}
	vips := lab.VIP(0)
	spec := lab.ServiceSpec{Name: service, VIPs: vips.Slice(), Pods: names}
	begin := time.Now()
	if _, err := d.CreateService(ctx, spec); err != nil {
		return err
	}
	owner, err := d.AwaitOwner(ctx, service, "")
	if err != nil {
		return err
	}
	fmt.Fprintf(d.out, "\nService %s has its addresses on %s, %v after it was created.\n",
		service, owner, time.Since(begin).Round(time.Millisecond))
	for _, vip := range vips.Slice() {
		answer, err := d.AwaitAnswer(ctx, netip.AddrPortFrom(vip, 80))
		if err != nil {
			return err
		}
		fmt.Fprintf(d.out, "  curl http://%s from the client: pod %s answers\n", netip.AddrPortFrom(vip, 80), answer.Pod)
	}
	for _, vip := range lab.ControlPlaneVIP().Slice() {
		status, err := d.AwaitAPI(ctx, netip.AddrPortFrom(vip, lab.APIPort))
		if err != nil {
			return err
		}
		fmt.Fprintf(d.out, "  https://%s/version from the client: %s\n", netip.AddrPortFrom(vip, lab.APIPort), status)
	}
	holder, err := d.ControlPlaneOwner(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(d.out, "  the control plane is on %s\n", holder)
	return nil
}

// try lets the owner of the Service suffer and watches from the client.
func (d *demo) try(ctx context.Context, f fault) error {
	owner, err := d.Owner(ctx, service)
	if err != nil {
		return err
	}
	if err := d.moveAway(ctx, owner); err != nil {
		return err
	}
	fmt.Fprintf(d.out, "  %s of %s ... ", f.name, owner)
	var targets []trial.Target
	for _, vip := range lab.VIP(0).Slice() {
		targets = append(targets, trial.Target{IP: vip, UDPPort: udpPort})
	}
	w, err := d.Watch(targets...)
	if err != nil {
		return err
	}
	to, err := d.suffer(ctx, f, owner)
	seen := w.Stop()
	if err != nil {
		return err
	}
	for i, what := range []string{"IPv4", "IPv6"} {
		d.rows = append(d.rows, row{f.name, what, seen[i], owner, to})
	}
	fmt.Fprintf(d.out, "longest silence %v\n", max(seen[0].Outage(), seen[1].Outage()).Round(time.Millisecond))
	if err := f.mend(ctx, d, owner); err != nil {
		return err
	}
	return d.AwaitReady(ctx, d.Nodes()...)
}

// moveAway leaves the Service with the pods of other nodes: what a client
// loses with a pod of a lost node says nothing about the address.
func (d *demo) moveAway(ctx context.Context, node string) error {
	pods, err := d.Pods()
	if err != nil {
		return err
	}
	var names []string
	for _, p := range pods {
		if p.Node != node {
			names = append(names, p.Name)
		}
	}
	if err := d.SetEndpoints(ctx, service, names...); err != nil {
		return err
	}
	return pause(ctx, 2*time.Second) // kube-proxy follows once a second
}

func (d *demo) suffer(ctx context.Context, f fault, owner string) (string, error) {
	if err := pause(ctx, 500*time.Millisecond); err != nil {
		return "", err
	}
	if err := f.do(ctx, d, owner); err != nil {
		return "", err
	}
	to := owner
	if f.moves {
		var err error
		if to, err = d.AwaitOwner(ctx, service, owner); err != nil {
			return "", err
		}
	}
	return to, pause(ctx, 3*time.Second)
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// table prints what every fault cost.
func (d *demo) table() error {
	w := tabwriter.NewWriter(d.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nFAULT\tFAMILY\tOWNER\tSILENCE\tICMP LOST\tUDP LOST\tMACS")
	for _, r := range d.rows {
		fmt.Fprintf(w, "%s\t%s\t%s\t%v\t%d of %d\t%d of %d\t%d\n", r.fault, r.what, r.move(),
			r.seen.Outage().Round(time.Millisecond),
			r.seen.ICMP.Lost(), r.seen.ICMP.Sent, r.seen.UDP.Lost(), r.seen.UDP.Sent,
			len(r.seen.Claimants()))
	}
	return w.Flush()
}

func (r row) move() string {
	if r.from == r.to {
		return "stays on " + r.from
	}
	return r.from + " -> " + r.to
}
