package faults

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/vipod/vipod/deploy/lab"
)

const (
	// stepNode is the node whose daemons are killed, at each of their steps.
	stepNode = "n1"
	// restarted is after what time a killed daemon is started again.
	restarted = 300 * time.Millisecond
	// lived is how long a Service lives between its creation and deletion:
	// long enough for an announcement to be repeated.
	lived = 1500 * time.Millisecond
	// resumed is within what time of its restart a killed daemon's VIP answers.
	resumed = 3 * time.Second
)

// Steps brings a Service up and takes it away, and returns every step that a
// daemon of the node took, each once, in order.
func (w *World) Steps(ctx context.Context) ([]string, error) {
	var mu sync.Mutex
	var list []string
	r, err := w.record(ctx, stepNode, func(s step) {
		mu.Lock()
		defer mu.Unlock()
		list = append(list, s.String())
	})
	if err != nil {
		return nil, err
	}
	err = w.life(ctx, func() {})
	r.close()
	return list, err
}

// life is the short life of a Service that only the node can serve.
func (w *World) life(ctx context.Context, deleting func()) error {
	_, err := w.CreateService(ctx, lab.ServiceSpec{
		Name: w.Service, VIPs: w.VIP.Slice(), Pods: []string{podOf(stepNode)}, Policy: corev1.ServiceExternalTrafficPolicyLocal,
	})
	if err != nil {
		return err
	}
	err = w.await(ctx, ready, "the Service is up", func() error { return w.onlyOn(stepNode) })
	if err == nil {
		err = w.hold(ctx, lived)
	}
	if err == nil {
		err = w.await(ctx, ready, "the Service is up still", func() error { return w.onlyOn(stepNode) })
	}
	deleting()
	return errors.Join(err, w.remove(ctx), w.await(ctx, ready, "the Service is gone", func() error { return w.onlyOn() }))
}

// onlyOn returns an error unless exactly these nodes have the addresses.
func (w *World) onlyOn(nodes ...string) error {
	for _, addr := range w.VIP.Slice() {
		got, err := w.Holders(addr)
		if err != nil {
			return err
		}
		if !slices.Equal(got, nodes) {
			return fmt.Errorf("%s is on %q", addr, got)
		}
	}
	return nil
}

// KillAt kills the daemon that takes a step at that very moment, starts it
// again, and judges what becomes of the Service.
func (w *World) KillAt(ctx context.Context, name, dir string) Result {
	c := Case{Name: "SIGKILL at: " + name, Want: Expectation{Outcome: Back, Bound: resumed, Ended: 0}}
	r := Result{Case: c, File: filepath.Join(dir, "steps", fileName(name)+".jsonl")}
	k := &killer{w: w, at: name, again: make(chan string, 1)}
	h, err := w.lifeWithout(ctx, k)
	if k.deleting { // then it need not come back
		r.Case.Want = Expectation{Outcome: Either, Bound: time.Hour}
	}
	if err == nil && k.killed.IsZero() {
		err = errNotReached
	}
	r.Err = errors.Join(err, save(h, r.File))
	r.Violations, r.Measured = Check(h, r.Case.Want), measured(h, r.Case.Want)
	return r
}

// errNotReached is a step that did not come again.
var errNotReached = errors.New("the step was not taken this time")

// killer kills the daemon that takes a step.
type killer struct {
	w     *World
	at    string
	again chan string

	mu       sync.Mutex
	killed   time.Time
	gone     bool // the Service is being deleted
	deleting bool // it was when the daemon was killed
}

// saw is told every step.
func (k *killer) saw(s step) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if s.String() != k.at || !k.killed.IsZero() {
		return
	}
	_ = k.w.SignalDaemons(stepNode, unix.SIGKILL, s.daemon)
	k.killed, k.deleting = time.Now(), k.gone
	k.again <- s.daemon
}

func (k *killer) leave() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.gone = true
}

// restart starts what was killed; it returns when that has happened, or when
// the context ends.
func (k *killer) restart(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case daemon := <-k.again:
		k.w.Observer.note(Event{At: k.killed, Kind: Begin, Node: stepNode, Text: k.at})
		if err := pause(context.WithoutCancel(ctx), restarted); err != nil {
			return err
		}
		err := k.w.Restart(context.WithoutCancel(ctx), stepNode, daemon)
		k.w.Observer.note(Event{Kind: End, Node: stepNode})
		return err
	}
}

// lifeWithout is life with the killer at work.
func (w *World) lifeWithout(ctx context.Context, k *killer) (h History, err error) {
	if err := w.AwaitReady(ctx, w.Nodes()...); err != nil {
		return nil, err
	}
	before, err := w.take(ctx)
	if err != nil {
		return nil, err
	}
	if w.Observer, err = Observe(w.Lab, w.ports, w.watched(), nil); err != nil {
		return nil, err
	}
	w.unattended = stepNode
	defer func() { w.unattended = "" }()
	recorder, err := w.record(ctx, stepNode, k.saw)
	if err != nil {
		return w.Observer.Stop(), err
	}
	restarting, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- k.restart(restarting) }()
	err = w.life(ctx, k.leave)
	cancel()
	err = errors.Join(err, <-done)
	recorder.close()
	h = w.Observer.Stop()
	return h, errors.Join(err, w.mend(ctx), w.compare(ctx, before, &h))
}
