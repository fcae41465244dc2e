package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/vipod/vipod/deploy/lab"
	"github.com/vipod/vipod/deploy/probe"
	"github.com/vipod/vipod/deploy/trial"
)

const (
	// testTimeout bounds one test.
	testTimeout = 2 * time.Minute
	// soon is how long something may take that needs no timer to run out.
	soon = 10 * time.Second
	// leaseDuration is how long a dead owner's claims last, the default of
	// vip_leaseduration; takeover is how long until a successor answers.
	leaseDuration = 5 * time.Second
	takeover      = 8 * time.Second
	// calm is how long something that must not happen is waited for.
	calm = 1500 * time.Millisecond
)

// env is what one test works with.
type env struct {
	*trial.Cluster
	t        *testing.T
	ctx      context.Context
	services []string
	// down are the daemons that the test has stopped.
	down map[daemonOn]bool
	// pids are the daemons that ran when the test began.
	pids map[daemonOn]int
}

type daemonOn struct{ node, name string }

// beside starts a test that harms no node and minds no move, so that it can
// run beside others of that kind.
func beside(t *testing.T) *env {
	t.Helper()
	t.Parallel()
	return begin(t)
}

// begin starts a test: all nodes run and are ready.
func begin(t *testing.T) *env {
	t.Helper()
	c := shared.get(t)
	// Not the test's own context: that ends before what cleans up.
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	e := &env{Cluster: c, t: t, ctx: ctx, down: map[daemonOn]bool{}, pids: map[daemonOn]int{}}
	e.eachDaemon(func(d daemonOn) {
		p, _ := e.Daemon(d.node, d.name)
		e.pids[d] = p.PID
	})
	t.Cleanup(func() {
		cancel()
		e.end()
	})
	return e
}

func (e *env) eachDaemon(f func(daemonOn)) {
	for _, node := range e.Nodes() {
		for _, name := range lab.DaemonNames() {
			f(daemonOn{node, name})
		}
	}
}

// end brings everything back to where the next test expects it, and checks
// that nothing is left of this one.
func (e *env) end() {
	if e.t.Failed() {
		e.logTails()
	}
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	e.ctx = ctx
	e.eachDaemon(func(d daemonOn) {
		if p, _ := e.Daemon(d.node, d.name); !p.Alive() && !e.down[d] {
			e.t.Errorf("%s on %s has ended by itself", d.name, d.node)
		}
	})
	if err := e.mend(); err != nil {
		e.t.Errorf("mending the lab: %v", err)
		return
	}
	e.removeAll()
}

// mend ends every fault and waits until all nodes are ready.
func (e *env) mend() error {
	errs := []error{e.mendAPI()}
	for _, node := range e.Nodes() {
		errs = append(errs, e.Resume(node), e.Heal(e.ctx, node), e.mendRelay(node))
		for _, name := range lab.DaemonNames() {
			if p, _ := e.Daemon(node, name); !p.Alive() {
				errs = append(errs, e.StartDaemon(e.ctx, node, name))
			}
		}
	}
	return errors.Join(append(errs, e.AwaitReady(e.ctx, e.Nodes()...))...)
}

func (e *env) mendAPI() error {
	switch e.process("cp", "kube-apiserver").State() {
	case "gone":
		return e.StartAPI(e.ctx)
	case "paused":
		return e.ResumeAPI()
	}
	return nil
}

func (e *env) mendRelay(node string) error {
	if e.process(node, "relay").Alive() {
		return nil
	}
	return e.StartRelay(e.ctx, node)
}

// process returns a process of the lab that is not a daemon.
func (e *env) process(role, name string) lab.Process {
	procs, err := e.Processes()
	e.must(err)
	i := slices.IndexFunc(procs, func(p lab.Process) bool { return p.Role == role && p.Name == name })
	if i < 0 {
		e.t.Fatalf("there is no %s on %s", name, role)
	}
	return procs[i]
}

// logTails shows the newest lines of every daemon's log.
func (e *env) logTails() {
	e.eachDaemon(func(d daemonOn) {
		data, err := os.ReadFile(e.LogPath(d.node, d.name))
		if err != nil || len(data) == 0 {
			return
		}
		lines := strings.Split(strings.TrimSpace(string(data)), "\n")
		lines = lines[max(0, len(lines)-25):]
		e.t.Logf("--- %s on %s:\n%s", d.name, d.node, strings.Join(lines, "\n"))
	})
}

// must ends the test on an error.
func (e *env) must(err error) {
	e.t.Helper()
	if err != nil {
		e.t.Fatal(err)
	}
}

// within waits until done returns nil and fails the test after d with what it
// returned last.
func (e *env) within(d time.Duration, what string, done func() error) time.Duration {
	e.t.Helper()
	begin := time.Now()
	for {
		err := done()
		took := time.Since(begin)
		if err == nil {
			return took
		}
		if took > d || e.ctx.Err() != nil {
			e.t.Fatalf("not within %v: %s: %v", d, what, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// holds fails the test unless check returns nil for the whole of d.
func (e *env) holds(d time.Duration, what string, check func() error) {
	e.t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if err := check(); err != nil {
			e.t.Fatalf("%s: %v", what, err)
		}
	}
}

// stop sends a signal to the daemons and returns when they have ended, and
// after what time.
func (e *env) stop(node string, sig syscall.Signal, names ...string) time.Duration {
	e.t.Helper()
	for _, name := range orAll(names) {
		e.down[daemonOn{node, name}] = true
	}
	begin := time.Now()
	e.must(e.StopNode(e.ctx, node, sig, names...))
	return time.Since(begin)
}

// start starts daemons that were stopped.
func (e *env) start(node string, names ...string) {
	e.t.Helper()
	for _, name := range orAll(names) {
		delete(e.down, daemonOn{node, name})
	}
	e.must(e.StartNode(e.ctx, node, names...))
}

func orAll(names []string) []string {
	if len(names) == 0 {
		return lab.DaemonNames()
	}
	return names
}

// unharmed fails the test unless every daemon is the process that it was when
// the test began.
func (e *env) unharmed() {
	e.t.Helper()
	e.eachDaemon(func(d daemonOn) {
		if p, _ := e.Daemon(d.node, d.name); p.PID != e.pids[d] || !p.Alive() {
			e.t.Errorf("%s on %s was process %d, now %d, alive: %t", d.name, d.node, e.pids[d], p.PID, p.Alive())
		}
	})
}

// mac returns a node's MAC.
func (e *env) mac(node string) probe.MAC {
	e.t.Helper()
	mac, err := e.MAC(node)
	e.must(err)
	return mac
}

// nextVIP counts the addresses that tests were given.
var nextVIP atomic.Int64

// vips returns addresses that no test has had lately.
func (e *env) vips(n int) []lab.Addrs {
	var list []lab.Addrs
	for range n {
		list = append(list, lab.VIP(int(nextVIP.Add(1)-1)%lab.VIPs))
	}
	return list
}

// vip returns one pair of addresses that is free.
func (e *env) vip() lab.Addrs { return e.vips(1)[0] }

// others returns the nodes but this one.
func (e *env) others(node string) []string {
	return slices.DeleteFunc(e.Nodes(), func(n string) bool { return n == node })
}

// podOf returns the name of the pod that every node has.
func podOf(node string) string { return "p" + strings.TrimPrefix(node, "n") }

// allPods are the pods that every lab has, one on each node.
func (e *env) allPods() []string {
	var pods []string
	for _, node := range e.Nodes() {
		pods = append(pods, podOf(node))
	}
	return pods
}

func join(addrs []netip.Addr) string {
	var texts []string
	for _, a := range addrs {
		texts = append(texts, a.String())
	}
	return strings.Join(texts, ",")
}

// want returns an error that names both unless they are equal.
func want[T comparable](what string, got, want T) error {
	if got != want {
		return fmt.Errorf("%s is %v, want %v", what, got, want)
	}
	return nil
}
