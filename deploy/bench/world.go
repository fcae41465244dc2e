package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vipod/vipod/deploy/lab"
	"github.com/vipod/vipod/deploy/probe"
	"github.com/vipod/vipod/deploy/trial"
)

// setup says what lab a scenario needs. Scenarios that need the same follow
// each other in one lab.
type setup struct {
	// duration and renew are the Lease's, in seconds.
	duration, renew int
	// anew: a lab of its own, for what depends on what was before.
	anew bool
	// idle: without kube-proxy, see stopProxies.
	idle bool
	// baseline: the lab's own requests are counted before the system starts.
	baseline bool
	// links: with linkd.
	links bool
}

// world is a lab with one system in it.
type world struct {
	*trial.Cluster
	sys   system
	setup setup
	macs  map[probe.MAC]string // nodes
	cut   map[string]bool      // nodes that are cut off
	off   map[string]bool      // nodes on which nothing shall run
	many  int                  // batches of Services that were made
	own   map[string]float64   // requests of the lab itself, a second
	spare int                  // VIPs that are used
	pod   string               // that serves the Service of aim
	aimed bool
}

const (
	client = "client"
	iface  = "eth0"
)

// enter makes sure that the lab that is up is of this kind.
func (b *bench) enter(ctx context.Context, sys system, s setup) error {
	if b.world != nil && b.world.sys == sys && b.world.setup == s && !s.anew {
		return b.world.mend(ctx)
	}
	if err := b.leave(); err != nil {
		return err
	}
	opts := lab.Options{
		Name: "bench", BinDir: b.bin, Manifests: []string{filepath.Join(b.root, "deploy", "manifests", "rbac.yaml")},
		Env: sys.env(s),
	}
	if b.profiles != "" {
		opts.Env = append(opts.Env, "VIPOD_PROFILE=true")
	}
	l, err := lab.Up(ctx, opts)
	if err != nil {
		return err
	}
	b.world = &world{Cluster: &trial.Cluster{Lab: l}, sys: sys, setup: s, macs: map[probe.MAC]string{},
		cut: map[string]bool{}, off: map[string]bool{}}
	if err := b.world.fill(ctx); err != nil {
		return errors.Join(err, b.leave())
	}
	return nil
}

// leave takes the lab down. Its logs stay, below .cache/bench.
func (b *bench) leave() error {
	if b.world == nil {
		return nil
	}
	l := b.world.Lab
	b.world = nil
	b.labs++
	logs := filepath.Join(b.root, ".cache", "bench", "logs", fmt.Sprint(b.labs))
	err := os.RemoveAll(logs)
	if err == nil {
		err = os.CopyFS(logs, os.DirFS(filepath.Dir(l.LogPath("n1", "elector"))))
	}
	if err != nil {
		err = fmt.Errorf("keeping logs: %w", err)
	}
	return errors.Join(err, l.Down())
}

// fill starts the system on every node.
func (w *world) fill(ctx context.Context) error {
	for _, node := range w.Nodes() {
		mac, err := w.MAC(node)
		if err != nil {
			return err
		}
		w.macs[mac] = node
	}
	if w.setup.idle {
		if err := w.stopProxies(ctx); err != nil {
			return err
		}
	}
	if w.setup.baseline {
		c, err := w.window(ctx, baselineLook)
		if err != nil {
			return err
		}
		w.own = c.Rates(baselineLook)
	}
	if err := w.sys.prepare(ctx, w); err != nil {
		return err
	}
	if w.setup.links {
		if err := w.startLinkd(ctx); err != nil {
			return err
		}
	}
	return w.mend(ctx)
}

// stopProxies ends kube-proxy on every node. With thousands of Services three
// of them on the processors of one machine would be what is measured; VIPs are
// asked by ICMP then, which the kernel answers.
func (w *world) stopProxies(ctx context.Context) error {
	for _, node := range w.Nodes() {
		if err := w.SignalProgram(node, "kube-proxy", unix.SIGKILL); err != nil {
			return err
		}
		if err := w.AwaitEnd(ctx, node, "kube-proxy"); err != nil {
			return err
		}
	}
	return nil
}

// mend ends every fault: what is cut off, stopped or dead.
func (w *world) mend(ctx context.Context) error {
	for _, node := range w.Nodes() {
		if w.cut[node] {
			if err := w.heal(ctx, node); err != nil {
				return err
			}
		}
	}
	for _, node := range w.running() {
		if err := w.start(ctx, node); err != nil {
			return err
		}
	}
	return w.sys.ready(ctx, w)
}

// running returns the nodes on which the system shall run.
func (w *world) running() []string {
	return slices.DeleteFunc(w.Nodes(), func(node string) bool { return w.off[node] })
}

// start starts what does not run on a node, and lets run what was stopped.
func (w *world) start(ctx context.Context, node string) error {
	var dead []string
	for _, name := range w.sys.programs() {
		p, ok := w.Program(node, name)
		switch {
		case !ok || !p.Alive():
			dead = append(dead, name)
		case p.State() == "paused":
			if err := w.signal(node, unix.SIGCONT, name); err != nil {
				return err
			}
		}
	}
	if len(dead) == 0 {
		return nil
	}
	return w.sys.start(ctx, w, node, dead...)
}

// signal sends a signal to all programs of the system on a node, or to those
// named, and does not wait.
func (w *world) signal(node string, sig unix.Signal, names ...string) error {
	if s, ok := w.sys.(signaller); ok {
		return s.signal(w, node, sig)
	}
	if len(names) == 0 {
		names = w.sys.programs()
	}
	var errs []error
	for _, name := range names {
		errs = append(errs, w.SignalProgram(node, name, sig))
	}
	return errors.Join(errs...)
}

// cutOff takes a node off the LAN; mend and heal bring it back.
func (w *world) cutOff(ctx context.Context, node string) error {
	w.cut[node] = true
	return w.Cut(ctx, node)
}

func (w *world) heal(ctx context.Context, node string) error {
	if err := w.Heal(ctx, node); err != nil {
		return err
	}
	delete(w.cut, node)
	return nil
}

// ownerPatience is how long an address may have no owner before a trial.
const ownerPatience = 30 * time.Second

// owner returns the node that answers for an address.
func (w *world) owner(ctx context.Context, addr netip.Addr) (string, error) {
	owners, err := w.owners(ctx, []netip.Addr{addr})
	return owners[addr], err
}

// owners returns the nodes that answer for the addresses: whoever claims each
// of them last when everybody is asked.
func (w *world) owners(ctx context.Context, addrs []netip.Addr) (map[netip.Addr]string, error) {
	ctx, cancel := context.WithTimeout(ctx, ownerPatience)
	defer cancel()
	var capture *probe.Capture
	var asker *trial.Asker
	err := w.InNS(client, func() (err error) {
		if capture, err = probe.Listen(iface); err != nil {
			return err
		}
		if asker, err = trial.Ask(iface, addrs...); err != nil {
			capture.Close()
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	defer capture.Close()
	defer asker.Stop()
	owners := map[netip.Addr]string{}
	err = w.Await(ctx, "every VIP is claimed", func(context.Context) (bool, error) {
		for _, f := range capture.Frames() {
			if !f.Claims() || !slices.Contains(addrs, f.IP) {
				continue
			}
			if owners[f.IP] = w.macs[f.Source]; owners[f.IP] == "" {
				return false, fmt.Errorf("a machine that is no node claims a VIP: %s", f)
			}
		}
		return len(owners) == len(addrs), nil
	})
	return owners, err
}

// names of the Service that trials are about, and its port.
const (
	service = "bench"
	udpPort = lab.UDPPort
)

// targets are what a trial asks.
func targets() []trial.Target {
	vip := lab.VIP(0)
	return []trial.Target{{IP: vip.V4, UDPPort: udpPort}, {IP: vip.V6, UDPPort: udpPort}}
}

// aim makes the Service if it is not there, finds the node that owns it and
// lets a pod of another node serve it, so that what happens to the owner does
// not happen to the pod.
func (w *world) aim(ctx context.Context) (owner string, err error) {
	if !w.aimed {
		w.pod = "p1"
		spec := lab.ServiceSpec{Name: service, VIPs: lab.VIP(0).Slice(), Pods: []string{w.pod}}
		if err := w.sys.serve(ctx, w, spec); err != nil {
			return "", err
		}
		w.aimed = true
	}
	for _, t := range targets() {
		if owner, err = w.owner(ctx, t.IP); err != nil {
			return "", err
		}
	}
	pod, err := w.Pod(w.pod)
	if err != nil {
		return "", err
	}
	if pod.Node == owner {
		nodes := w.Nodes()
		next := nodes[(slices.Index(nodes, owner)+1)%len(nodes)]
		w.pod = "p" + next[1:] // the lab gives node n1 the pod p1
		if err := w.SetEndpoints(ctx, service, w.pod); err != nil {
			return "", err
		}
	}
	return owner, w.awaitEcho(ctx, targets()...)
}

// echoPatience is how long one look at a VIP takes at most.
const echoPatience = 300 * time.Millisecond

// awaitEcho waits until a pod answers behind every target. It asks from new
// ports again and again: a node that got a datagram before kube-proxy had its
// rule keeps the flow away from the rule.
func (w *world) awaitEcho(ctx context.Context, list ...trial.Target) error {
	return w.Await(ctx, "a pod answers behind the VIP", func(ctx context.Context) (bool, error) {
		watch, err := w.Watch(list...)
		if err != nil {
			return false, err
		}
		defer watch.Stop()
		ctx, cancel := context.WithTimeout(ctx, echoPatience)
		defer cancel()
		for !watch.Answered(20 * time.Millisecond) {
			if pause(ctx, 10*time.Millisecond) != nil {
				return false, nil // asked again until the trial's time is over
			}
		}
		return true, nil
	})
}
