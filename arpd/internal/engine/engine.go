// Package engine drives the schedule: it keeps a port open on every link that
// the plan needs, sends what is due and passes on what is heard.
package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/vipod/vipod/arpd/internal/frame"
	"github.com/vipod/vipod/arpd/internal/link"
	"github.com/vipod/vipod/arpd/internal/plan"
	"github.com/vipod/vipod/arpd/internal/schedule"
	"github.com/vipod/vipod/shared/pulse"
	"github.com/vipod/vipod/shared/schema"
	"github.com/vipod/vipod/shared/trigger"
)

// errNoPort is a frame for a link whose socket could not be opened.
var errNoPort = errors.New("no socket on the link")

// Engine is safe for concurrent use, except that Set is called by one
// goroutine.
type Engine struct {
	network link.Network
	// now is CLOCK_BOOTTIME, which grants are given in.
	now     func() time.Duration
	changed func()
	metrics *metrics
	wake    *trigger.Trigger
	// Pulse asks the sending loop whether it lives.
	Pulse *pulse.Pulse

	mu       sync.Mutex
	schedule *schedule.Schedule
	ports    map[plan.Port]openPort
}

type openPort struct {
	link.Port
	hw frame.Hardware
}

// New returns an engine that announces nothing yet. changed is called, and
// must not block, when a state changed. Its metrics are registered with r.
func New(network link.Network, now func() time.Duration, changed func(), r prometheus.Registerer) *Engine {
	e := &Engine{
		network: network, now: now, changed: changed, metrics: newMetrics(r),
		Pulse: pulse.New("sending loop"), wake: trigger.New(), ports: map[plan.Port]openPort{},
	}
	e.schedule = schedule.New(now(), func() time.Duration { return rand.N(schedule.ProbeStart + 1) })
	r.MustRegister(e)
	return e
}

// Settings go with a plan.
type Settings struct {
	// Interval is the time between two refreshing frames of one address.
	Interval time.Duration
	// Grants are the times until which grants are valid.
	Grants map[schema.GrantName]time.Duration
	// Own are the link-layer addresses of this node.
	Own map[frame.MAC]bool
	// Names are the links' names by index.
	Names map[int]string
	// Seen is when the reading of the plan's input began.
	Seen time.Duration
}

// Set makes p the plan. Once it returned, no frame of an address that is not
// in p is sent. The error is about sockets that could not be opened; what
// needs them is tried again with the next Set.
func (e *Engine) Set(p plan.Output, s Settings) error {
	wanted := p.Ports
	opened, err := e.open(wanted)
	e.mu.Lock()
	var stale []openPort
	for at, port := range e.ports {
		if hw, ok := wanted[at]; !ok || hw != port.hw {
			add(e.metrics.closed, e.metrics.interfaceName(at.Link), port.Counts())
			stale = append(stale, port)
			delete(e.ports, at)
		}
	}
	for at, port := range opened {
		e.ports[at] = port
	}
	e.metrics.name = s.Names
	e.schedule.SetGrants(s.Grants)
	e.schedule.SetOwn(s.Own)
	e.schedule.Set(p, s.Interval, s.Seen, e.now())
	e.unlock()
	// Outside the lock: closing waits for a receiver that may wait for it.
	for _, port := range stale {
		err = errors.Join(err, port.Close())
	}
	return err
}

// open opens what is wanted and not open yet.
func (e *Engine) open(wanted map[plan.Port]frame.Hardware) (map[plan.Port]openPort, error) {
	opened := map[plan.Port]openPort{}
	var errs []error
	for at, hw := range wanted {
		e.mu.Lock()
		old, ok := e.ports[at]
		e.mu.Unlock()
		if ok && old.hw == hw {
			continue
		}
		port, err := e.network.Open(at, hw, func(c frame.Claim) { e.heard(at.Link, c) })
		if err != nil {
			errs = append(errs, err)
			continue
		}
		opened[at] = openPort{Port: port, hw: hw}
	}
	return opened, errors.Join(errs...)
}

// SetGrants prolongs or ends grants without a new plan.
func (e *Engine) SetGrants(until map[schema.GrantName]time.Duration) {
	e.mu.Lock()
	e.schedule.SetGrants(until)
	e.unlock()
}

// unlock also tells whoever needs to know of a change.
func (e *Engine) unlock() {
	changed := e.schedule.TakeChanged()
	e.mu.Unlock()
	e.wake.Fire()
	if changed {
		e.changed()
	}
}

func (e *Engine) heard(index int, c frame.Claim) {
	e.mu.Lock()
	concerns := e.schedule.Heard(index, c, e.now())
	changed := e.schedule.TakeChanged()
	e.mu.Unlock()
	if concerns {
		e.wake.Fire()
	}
	if changed {
		e.changed()
	}
}

// States returns the states of all addresses.
func (e *Engine) States() schedule.States {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.schedule.States()
}

// Run sends until ctx ends, and closes all ports then.
func (e *Engine) Run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return e.close()
		case <-e.wake.C():
		case <-timer.C:
		case <-e.Pulse.C():
		}
		if wait, ok := e.step(); ok {
			timer.Reset(wait)
		} else {
			timer.Stop()
		}
	}
}

// step sends one batch and returns how long to wait for the next. The lock is
// held while it sends, so that Set can promise silence; a batch takes a
// fraction of a millisecond.
func (e *Engine) step() (time.Duration, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, d := range e.schedule.Due(e.now()) {
		err := e.send(d)
		e.metrics.count(d, err)
		if delay, first := e.schedule.Sent(d, err, e.now()); first {
			e.metrics.delay.Observe(delay.Seconds())
		}
	}
	if e.schedule.TakeChanged() {
		e.changed()
	}
	return e.schedule.Next(e.now())
}

func (e *Engine) send(d schedule.Send) error {
	port, ok := e.ports[plan.Port{Link: d.Link, Protocol: frame.Protocol(d.IP)}]
	if !ok {
		return errNoPort
	}
	f, err := frame.Build(d.Kind, d.Hardware, d.IP)
	if err != nil {
		return err
	}
	if err := port.Send(f); err != nil {
		return fmt.Errorf("sending %s on %s: %w", d.Kind, d.Interface, err)
	}
	return nil
}

func (e *Engine) close() error {
	e.mu.Lock()
	ports := e.ports
	e.ports = map[plan.Port]openPort{}
	e.mu.Unlock()
	var errs []error
	for _, p := range ports {
		errs = append(errs, p.Close())
	}
	return errors.Join(errs...)
}
