package main

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vipod/vipod/deploy/lab"
	"github.com/vipod/vipod/deploy/probe"
	"github.com/vipod/vipod/deploy/trial"
)

// restartAfter is when a program that was killed in a trial starts again: at
// once in the first trial, after three fifths of the Lease in the last.
func restartAfter(s setup, trial, trials int) time.Duration {
	most := time.Duration(s.duration) * time.Second * 3 / 5
	return most * time.Duration(trial-1) / time.Duration(max(trials-1, 1))
}

// settled is how long after a kill a trial looks: a Lease that nobody renews
// any more has ended by then.
func (s setup) settled() time.Duration { return time.Duration(s.duration)*time.Second + time.Second }

// stayed says what became of an address of a node that shall keep it.
func (w *world) stayed(node string, seen []trial.Seen) []value {
	moved, lost := 0, 0
	var silence time.Duration
	for _, s := range seen {
		lost += s.ICMP.Lost() + s.UDP.Lost()
		silence = max(silence, s.Outage())
		if slices.ContainsFunc(s.Claimants(), func(mac probe.MAC) bool { return w.macs[mac] != node }) {
			moved++
		}
	}
	return []value{
		{"lost", "probes", float64(lost)}, {"silence", "ms", ms(silence)}, {"moved", "addresses", float64(moved)},
		twoOwners(seen, 1),
	}
}

// killAll kills all programs of the owner and starts them again.
func killAll(ctx context.Context, m *measuring) error {
	return m.each(ctx, "", m.trials, func(ctx context.Context, n int) ([]value, error) {
		w := m.world
		f, err := w.strike(ctx, func(_ context.Context, node string) error { return w.signal(node, unix.SIGKILL) })
		if err != nil {
			return nil, err
		}
		defer f.stop()
		if err := w.AwaitEnd(ctx, f.owner, w.sys.programs()...); err != nil {
			return nil, err
		}
		if err := pause(ctx, restartAfter(w.setup, n, m.trials)); err != nil {
			return nil, err
		}
		if err := w.start(ctx, f.owner); err != nil {
			return nil, err
		}
		if err := pause(ctx, w.setup.settled()-time.Since(f.begin)); err != nil {
			return nil, err
		}
		return w.stayed(f.owner, f.stop()), nil
	})
}

// killOne kills a daemon of each node, another one on each, again and again
// until each daemon was killed often enough.
func killOne(ctx context.Context, m *measuring) error {
	programs, nodes := m.sys.programs(), m.world.Nodes()
	done := map[string]int{}
	for round := 0; slices.ContainsFunc(programs, func(p string) bool { return done[p] < m.trials }); round++ {
		victims := map[string]string{}
		for i, node := range nodes {
			victims[node] = programs[(round+i)%len(programs)]
		}
		results, err := m.killRound(ctx, victims, round)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		for node, program := range victims {
			if done[program]++; done[program] > m.trials {
				continue
			}
			if err := m.outcome(program, done[program], results[node], err); err != nil {
				return err
			}
		}
		if err := m.mend(ctx); err != nil {
			return err
		}
	}
	return nil
}

// killRound kills one program on each node and returns what became of a VIP
// of the node.
func (m *measuring) killRound(ctx context.Context, victims map[string]string, round int) (map[string][]value, error) {
	ctx, cancel := context.WithTimeout(ctx, trialTime)
	defer cancel()
	w := m.world
	vips, err := w.spread(ctx)
	if err != nil {
		return nil, err
	}
	var list []trial.Target
	nodes := w.Nodes()
	for _, node := range nodes {
		list = append(list, trial.Target{IP: vips[node].V4, UDPPort: udpPort}, trial.Target{IP: vips[node].V6})
	}
	watch, err := w.Watch(list...)
	if err != nil {
		return nil, err
	}
	err = w.killAndStart(ctx, victims, restartAfter(w.setup, round%m.trials+1, m.trials))
	seen := watch.Stop()
	if err != nil {
		return nil, err
	}
	results := map[string][]value{}
	for i, node := range nodes {
		results[node] = w.stayed(node, seen[2*i:2*i+2])
	}
	return results, nil
}

func (w *world) killAndStart(ctx context.Context, victims map[string]string, delay time.Duration) error {
	if err := pause(ctx, calm); err != nil {
		return err
	}
	begin := time.Now()
	for node, program := range victims {
		if err := w.signal(node, unix.SIGKILL, program); err != nil {
			return err
		}
		if err := w.AwaitEnd(ctx, node, program); err != nil {
			return err
		}
	}
	if err := pause(ctx, delay); err != nil {
		return err
	}
	for node := range victims {
		if err := w.start(ctx, node); err != nil {
			return err
		}
	}
	return pause(ctx, w.setup.settled()-time.Since(begin))
}

// spread returns for each node a VIP that it owns, and makes Services until
// each has one.
func (w *world) spread(ctx context.Context) (map[string]lab.Addrs, error) {
	for {
		var addrs []netip.Addr
		for i := range w.spare {
			addrs = append(addrs, lab.VIP(i+1).V4)
		}
		owners, err := w.owners(ctx, addrs)
		if err != nil {
			return nil, err
		}
		vips := map[string]lab.Addrs{}
		for i, addr := range addrs {
			vips[owners[addr]] = lab.VIP(i + 1)
		}
		if len(vips) == len(w.Nodes()) {
			return vips, nil
		}
		if w.spare+2 == lab.VIPs {
			return nil, fmt.Errorf("%d VIPs are all on %d nodes", w.spare, len(vips))
		}
		vip := lab.VIP(w.spare + 1)
		w.spare++
		spec := lab.ServiceSpec{Name: fmt.Sprintf("spread-%d", w.spare), VIPs: vip.Slice(), Pods: []string{"p1"}}
		if err := w.sys.serve(ctx, w, spec); err != nil {
			return nil, err
		}
		if err := w.awaitEcho(ctx, trial.Target{IP: vip.V4, UDPPort: udpPort}, trial.Target{IP: vip.V6}); err != nil {
			return nil, err
		}
	}
}
