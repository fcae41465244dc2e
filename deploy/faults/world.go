package faults

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vipod/vipod/deploy/lab"
	"github.com/vipod/vipod/deploy/trial"
	"github.com/vipod/vipod/shared/netsafe"
	"github.com/vipod/vipod/shared/ownership"
)

const (
	// poll is how often something that has to come is looked for.
	poll = 20 * time.Millisecond
	// LeaseDuration is D, the default of vip_leaseduration.
	LeaseDuration = 5 * time.Second
	// RetryPeriod is R, the default of vip_retryperiod.
	RetryPeriod = time.Second
)

// World is what a case works on: the lab, and one Service with its owner.
type World struct {
	*trial.Cluster
	// Service is the name of the Service, VIP its addresses.
	Service string
	VIP     lab.Addrs
	// Owner is the node that has the Service when the fault begins.
	Owner string
	// Observer looks on from before the fault.
	Observer *Observer
	// Full asks for long forms of faults.
	Full bool
	// unattended is a node whose daemons are somebody else's to start.
	unattended string
	// ports are the machines on the LAN that are looked at.
	ports []string
	// undo ends what a case has set up, the last first.
	undo []func(context.Context) error
	// mu guards what follows: some cases start and end daemons side by side.
	mu sync.Mutex
	// ours are the daemons that run now, as last started by the suite.
	ours map[daemonOn]int
}

type daemonOn struct{ node, name string }

// Others returns the nodes but the owner.
func (w *World) Others() []string {
	return slices.DeleteFunc(w.Nodes(), func(n string) bool { return n == w.Owner })
}

// After lets something be undone when the fault ends.
func (w *World) After(undo func(context.Context) error) { w.undo = append(w.undo, undo) }

// Step notes what a case does.
func (w *World) Step(format string, args ...any) {
	w.Observer.note(Event{Kind: Step, Text: fmt.Sprintf(format, args...)})
}

// Kill ends daemons of a node without giving them a chance.
func (w *World) Kill(ctx context.Context, node string, names ...string) error {
	return w.end(ctx, node, unix.SIGKILL, names...)
}

// Stop ends daemons of a node in order.
func (w *World) Stop(ctx context.Context, node string, names ...string) error {
	return w.end(ctx, node, unix.SIGTERM, names...)
}

func (w *World) end(ctx context.Context, node string, sig syscall.Signal, names ...string) error {
	if len(names) == 0 {
		names = lab.DaemonNames()
	}
	w.mu.Lock()
	for _, name := range names {
		delete(w.ours, daemonOn{node, name})
	}
	w.mu.Unlock()
	return w.StopNode(ctx, node, sig, names...)
}

// disown lets no daemon be started again but by mend.
func (w *World) disown() {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.ours)
}

// own returns the daemons that the suite has started.
func (w *World) own() []daemonOn {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Collect(maps.Keys(w.ours))
}

// gone returns what is left of vipod in the kernels.
func (w *World) gone(ctx context.Context) error {
	for _, node := range w.Nodes() {
		tables, err := w.Exec(ctx, node, "nft", "list", "tables")
		if err != nil {
			return err
		}
		if strings.Contains(string(tables), "vipod") {
			return fmt.Errorf("left on %s: %s", node, tables)
		}
	}
	return w.addressesGone()
}

func (w *World) addressesGone() error {
	for _, addr := range w.watched() {
		nodes, err := w.Holders(addr)
		if err != nil {
			return err
		}
		if len(nodes) > 0 {
			return fmt.Errorf("%s is left on %q", addr, nodes)
		}
	}
	return nil
}

// Start starts daemons of a node that do not run.
func (w *World) Start(ctx context.Context, node string, names ...string) error {
	if len(names) == 0 {
		names = lab.DaemonNames()
	}
	for _, name := range names {
		if p, _ := w.Daemon(node, name); p.Alive() {
			continue
		}
		if err := w.StartDaemon(ctx, node, name); err != nil {
			return err
		}
		p, _ := w.Daemon(node, name)
		w.mu.Lock()
		w.ours[daemonOn{node, name}] = p.PID
		w.mu.Unlock()
	}
	return nil
}

// Restart kills daemons and starts them again, as soon as a kubelet does at
// the first time.
func (w *World) Restart(ctx context.Context, node string, names ...string) error {
	return errors.Join(w.Kill(ctx, node, names...), w.Start(ctx, node, names...))
}

// supervise notes daemons that ended by themselves, and starts them again.
func (w *World) supervise(ctx context.Context) error {
	var errs []error
	for _, d := range w.own() {
		if p, _ := w.Daemon(d.node, d.name); !p.Alive() && d.node != w.unattended {
			w.Observer.note(Event{Kind: Ended, Node: d.node, Text: d.name + ": " + lastLine(w.LogPath(d.node, d.name))})
			errs = append(errs, w.Start(ctx, d.node, d.name))
		}
	}
	return errors.Join(errs...)
}

func lastLine(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	return lines[len(lines)-1]
}

// mend ends every fault of the lab and starts what does not run.
func (w *World) mend(ctx context.Context) error {
	var errs []error
	for len(w.undo) > 0 {
		last := w.undo[len(w.undo)-1]
		w.undo = w.undo[:len(w.undo)-1]
		errs = append(errs, last(ctx))
	}
	procs, err := w.Processes()
	errs = append(errs, err)
	for _, p := range procs {
		switch {
		case p.Name == "kube-apiserver" && p.State() == "paused":
			errs = append(errs, w.ResumeAPI())
		case p.Name == "kube-apiserver" && !p.Alive():
			errs = append(errs, w.StartAPI(ctx))
		case p.Name == "relay" && !p.Alive():
			errs = append(errs, w.StartRelay(ctx, p.Role))
		}
	}
	for _, node := range w.Nodes() {
		errs = append(errs, w.Resume(node), w.Heal(ctx, node), w.Start(ctx, node))
	}
	return errors.Join(errs...)
}

// Holders returns the nodes whose kernels have the address.
func (w *World) Holders(addr netip.Addr) (nodes []string, err error) {
	for _, node := range w.Nodes() {
		list, err := w.addresses(node)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(list, func(a netsafe.Address) bool { return a.Prefix.Addr() == addr }) {
			nodes = append(nodes, node)
		}
	}
	return nodes, nil
}

func (w *World) addresses(node string) (list []netsafe.Address, err error) {
	err = w.InNS(node, func() (err error) {
		list, err = netsafe.Addresses()
		return err
	})
	return list, err
}

// await waits until done returns nil, or says after d what it returned last.
// It starts daemons again that have ended.
func (w *World) await(ctx context.Context, d time.Duration, what string, done func() error) error {
	for end := time.Now().Add(d); ; {
		err := done()
		if err == nil {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("not within %v: %s: %w", d, what, err)
		}
		if err := errors.Join(w.supervise(ctx), pause(ctx, poll)); err != nil {
			return err
		}
	}
}

// whole returns nil when each address is on one node, answers, and every
// elector is ready. It asks nothing of the API server.
func (w *World) whole(ctx context.Context) error {
	for _, addr := range w.watched() {
		nodes, err := w.Holders(addr)
		if err != nil {
			return err
		}
		if len(nodes) != 1 {
			return fmt.Errorf("%s is on %q", addr, nodes)
		}
	}
	for _, node := range w.Nodes() {
		if _, err := w.Ask(ctx, node, ownership.Elector, "/readyz"); err != nil {
			return err
		}
	}
	return w.Observer.Answered(100 * time.Millisecond)
}

// watched are the addresses that are looked at.
func (w *World) watched() []netip.Addr {
	return append(w.VIP.Slice(), lab.ControlPlaneVIP().Slice()...)
}

// pause sleeps unless the context ends.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// NewWorld returns a world on a cluster whose daemons all run.
func NewWorld(c *trial.Cluster, full bool) *World {
	w := &World{Cluster: c, Service: "fault", VIP: lab.VIP(0), Full: full, ports: c.Nodes(), ours: map[daemonOn]int{}}
	for _, node := range c.Nodes() {
		for _, name := range lab.DaemonNames() {
			p, _ := c.Daemon(node, name)
			w.ours[daemonOn{node, name}] = p.PID
		}
	}
	return w
}
