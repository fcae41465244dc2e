package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vipod/vipod/deploy/bench/result"
	"github.com/vipod/vipod/deploy/lab"
)

const (
	// memorySize is how many Services there are while memory is looked at.
	memorySize = 500
	// idleLook is how long processor time is counted.
	idleLook = 30 * time.Second
	// churnEvery is the time between two Services that come and go.
	churnEvery = 100 * time.Millisecond
	// churnLook is the time between two looks at memory.
	churnLook = 5 * time.Second
)

// memory looks at what the system's programs hold and use on each node.
func memory(ctx context.Context, m *measuring) error {
	b, err := m.fill(ctx, m.scaled(memorySize))
	if err != nil {
		return m.failed("", 0, err)
	}
	if err := pause(ctx, 10*time.Second); err != nil { // announcements end
		return err
	}
	if err := m.idle(ctx); err != nil {
		return err
	}
	if m.sys.name() != result.Subject {
		return m.empty(ctx, b)
	}
	if err := m.whole(ctx); err != nil {
		return err
	}
	if m.churn != 0 {
		if err := m.churnServices(ctx); err != nil {
			return err
		}
	}
	return m.empty(ctx, b)
}

// whole records the memory of a pod with all daemons.
func (m *measuring) whole(ctx context.Context) error {
	w, all := m.world, lab.DaemonNames()
	rest := slices.DeleteFunc(slices.Clone(all), func(name string) bool { return slices.Contains(overARP, name) })
	for _, node := range w.Nodes() {
		if err := w.StartNode(ctx, node, rest...); err != nil {
			return m.failed("all daemons", 0, err)
		}
	}
	if err := pause(ctx, 2*announced); err != nil {
		return err
	}
	for i, node := range w.Nodes() {
		values, err := w.footprint(node, all)
		if err := m.outcome("all daemons", i+1, values, err); err != nil {
			return err
		}
		if err := w.StopNode(ctx, node, unix.SIGTERM, rest...); err != nil {
			return m.failed("all daemons", 0, err)
		}
	}
	return nil
}

// idle records memory and processor time, each node as a trial.
func (m *measuring) idle(ctx context.Context) error {
	before := map[string]map[string]time.Duration{}
	for _, node := range m.world.Nodes() {
		var err error
		if before[node], err = m.world.cpu(node); err != nil {
			return m.failed("idle", 0, err)
		}
	}
	defer m.profile("idle")()
	if err := pause(ctx, idleLook); err != nil {
		return err
	}
	for i, node := range m.world.Nodes() {
		values, err := m.world.footprint(node, m.world.sys.programs())
		if err == nil {
			var used []value
			used, err = m.world.used(node, before[node], idleLook)
			values = append(values, used...)
		}
		if err := m.outcome("idle", i+1, values, err); err != nil {
			return err
		}
	}
	return nil
}

// used is the processor time of a node's programs since before.
func (w *world) used(node string, before map[string]time.Duration, d time.Duration) ([]value, error) {
	now, err := w.cpu(node)
	if err != nil {
		return nil, err
	}
	var values []value
	total := 0.0
	for _, name := range w.sys.programs() {
		used := ms(now[name]-before[name]) / d.Seconds()
		values = append(values, value{"processor time of " + name, "ms/s", used})
		total += used
	}
	return append(values, value{"processor time", "ms/s", total}), nil
}

// footprint is the memory of programs of a node.
func (w *world) footprint(node string, programs []string) ([]value, error) {
	var values []value
	var total, alone float64
	for _, name := range programs {
		r, err := w.rollup(node, name)
		if err != nil {
			return nil, err
		}
		values = append(values, value{"PSS of " + name, "MiB", r.pss})
		total += r.pss
		alone += r.rss
	}
	return append(values,
		value{"PSS", "MiB", total},
		// The nodes of a lab share the pages of one program file, and PSS
		// divides them by their number. On a machine of its own each program
		// has them alone: then PSS is RSS.
		value{"PSS with the programs' pages not shared", "MiB", alone}), nil
}

// sizes of a process in MiB.
type rollup struct{ pss, rss float64 }

func (w *world) rollup(node, name string) (r rollup, err error) {
	p, ok := w.Program(node, name)
	if !ok {
		return r, fmt.Errorf("%s does not run on %s", name, node)
	}
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", p.PID))
	if err != nil {
		return r, fmt.Errorf("looking at the memory of %s on %s: %w", name, node, err)
	}
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		if len(fields) != 3 {
			continue
		}
		kib, err := strconv.ParseFloat(fields[1], 64)
		if err != nil {
			continue // the first line
		}
		switch fields[0] {
		case "Pss:":
			r.pss = kib / 1024
		case "Rss:":
			r.rss = kib / 1024
		}
	}
	return r, nil
}

// cpu is the processor time that each program of a node has used.
func (w *world) cpu(node string) (map[string]time.Duration, error) {
	times := map[string]time.Duration{}
	for _, name := range w.sys.programs() {
		p, ok := w.Program(node, name)
		if !ok {
			return nil, fmt.Errorf("%s does not run on %s", name, node)
		}
		var err error
		if times[name], err = processTime(p.PID); err != nil {
			return nil, fmt.Errorf("looking at the processor time of %s on %s: %w", name, node, err)
		}
	}
	return times, nil
}

// processTime sums the first number of each thread's schedstat: nanoseconds
// on a processor. stat counts in ticks of 10 ms.
func processTime(pid int) (total time.Duration, err error) {
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return 0, err
	}
	for _, thread := range threads {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/schedstat", pid, thread.Name()))
		if err != nil {
			continue // it has ended
		}
		first, _, _ := strings.Cut(string(data), " ")
		ns, err := strconv.ParseInt(first, 10, 64)
		if err != nil {
			return 0, err
		}
		total += time.Duration(ns)
	}
	return total, nil
}

// churnServices lets Services come and go and fits a line through the memory
// of each node.
func (m *measuring) churnServices(ctx context.Context) error {
	m.say("  Services come and go for %v", m.churn)
	churn, cancel := context.WithTimeout(ctx, m.churn)
	defer cancel()
	failed := make(chan error, 1)
	go func() { failed <- m.world.comeAndGo(churn) }()
	samples := map[string][]point{}
	begin := time.Now()
	for pause(churn, churnLook) == nil {
		for _, node := range m.world.Nodes() {
			values, err := m.world.footprint(node, m.world.sys.programs())
			if err != nil {
				return m.failed("churn", 0, err)
			}
			for _, v := range values {
				if v.metric == "PSS" {
					samples[node] = append(samples[node], point{time.Since(begin).Hours(), v.v})
				}
			}
		}
	}
	if err := <-failed; err != nil {
		return m.failed("churn", 0, err)
	}
	for i, node := range m.world.Nodes() {
		// Buffers and heaps grow to their size first.
		list := samples[node][len(samples[node])/5:]
		slope, deviation := fit(list)
		err := m.record("churn", i+1, value{"slope of PSS", "MiB/h", slope}, value{"standard error of the slope", "MiB/h", deviation})
		if err != nil {
			return err
		}
	}
	return nil
}

// comeAndGo makes a Service and deletes an older one, again and again.
func (w *world) comeAndGo(ctx context.Context) error {
	const there = 50
	b, err := w.batch(1 << 15)
	if err != nil {
		return err
	}
	tick := time.NewTicker(churnEvery)
	defer tick.Stop()
	work := context.WithoutCancel(ctx) // what was begun is finished
	oldest := 0
	for i := range b.addrs {
		select {
		case <-ctx.Done():
			for ; oldest < i; oldest++ {
				if err := b.removeOne(work, oldest); err != nil {
					return err
				}
			}
			return nil
		case <-tick.C:
		}
		if err := b.createOne(work, i); err != nil {
			return err
		}
		if i-oldest == there {
			if err := b.removeOne(work, oldest); err != nil {
				return err
			}
			oldest++
		}
	}
	return nil
}
