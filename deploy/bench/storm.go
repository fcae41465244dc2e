package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/vipod/vipod/deploy/trial"
)

const (
	// stormRate is how many Services are made a second, and how many deleted;
	// the API server may take fewer.
	stormRate = 250
	// stormThere is how many of them are there at a time.
	stormThere = 500
)

// storm makes and deletes Services as fast as it may for a long time.
func storm(ctx context.Context, m *measuring) error {
	if m.stormTime == 0 {
		return nil
	}
	w := m.world
	pids, err := w.pids()
	if err != nil {
		return m.failed("", 0, err)
	}
	before, err := w.Requests(ctx)
	if err != nil {
		return m.failed("", 0, err)
	}
	peak := map[string]float64{}
	at := map[string]float64{}
	begin := time.Now()
	done, err := w.blow(ctx, m.stormTime, func() error { return w.heaviest(peak, at) })
	if err != nil {
		return m.failed("", 0, err)
	}
	took := time.Since(begin)
	after, err := w.Requests(ctx)
	if err != nil {
		return m.failed("", 0, err)
	}
	restarts, err := w.replaced(pids)
	if err != nil {
		return m.failed("", 0, err)
	}
	if err := pause(ctx, announced); err != nil {
		return err
	}
	if err := w.heaviest(map[string]float64{}, at); err != nil {
		return m.failed("", 0, err)
	}
	for i, node := range w.Nodes() {
		err := m.record("", i+1, value{"PSS, highest", "MiB", peak[node]}, value{"PSS after it", "MiB", at[node]})
		if err != nil {
			return err
		}
	}
	return m.record("", 1,
		value{"creations and deletions", "/s", float64(done) / took.Seconds()},
		value{"requests of the system", "requests/s", asked(after.Since(before)) / took.Seconds()},
		value{"daemons that ended", "daemons", float64(restarts)})
}

// asked counts the requests that a system makes about Services, not those by
// which the benchmark makes and deletes them.
func asked(r trial.Requests) float64 {
	return r["PUT leases"] + r["PATCH services/status"] + r["POST events"] + r["PATCH events"]
}

// blow makes and deletes Services until d has passed, looks again and again,
// and returns how many were made and deleted once all are gone.
func (w *world) blow(ctx context.Context, d time.Duration, look func() error) (done int64, err error) {
	b, err := w.batch(int(d.Seconds())*stormRate + 1)
	if err != nil {
		return 0, err
	}
	end, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	var count atomic.Int64
	queue, there := make(chan int), make(chan int, stormThere)
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() error { return pace(end, groupCtx, queue, len(b.addrs)) })
	for range workers {
		group.Go(func() error {
			for i := range queue {
				if err := b.replace(groupCtx, i, there, &count); err != nil {
					return err
				}
			}
			return nil
		})
	}
	group.Go(func() error {
		for pause(end, churnLook) == nil && groupCtx.Err() == nil {
			if err := look(); err != nil {
				return err
			}
		}
		return nil
	})
	if err := group.Wait(); err != nil {
		return 0, err
	}
	return count.Load(), b.rest(ctx, there, &count)
}

// pace hands out the indexes of Services to be made, so many a second.
func pace(end, ctx context.Context, queue chan<- int, n int) error {
	defer close(queue)
	tick := time.NewTicker(time.Second / stormRate)
	defer tick.Stop()
	for i := range n {
		select {
		case <-end.Done():
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		select {
		case queue <- i:
		case <-end.Done():
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// replace makes a Service, and deletes an older one when there are enough.
func (b *batch) replace(ctx context.Context, i int, there chan int, count *atomic.Int64) error {
	if err := b.createOne(ctx, i); err != nil {
		return err
	}
	count.Add(1)
	for {
		select {
		case there <- i:
			return nil
		case oldest := <-there:
			if err := b.removeOne(ctx, oldest); err != nil {
				return err
			}
			count.Add(1)
		}
	}
}

// rest deletes what is there and waits until no node has an address of it.
func (b *batch) rest(ctx context.Context, there chan int, count *atomic.Int64) error {
	close(there)
	for i := range there {
		if err := b.removeOne(ctx, i); err != nil {
			return err
		}
		count.Add(1)
	}
	return b.gone(ctx)
}

// heaviest brings the highest PSS of each node up to date, and the last.
func (w *world) heaviest(peak, last map[string]float64) error {
	for _, node := range w.Nodes() {
		values, err := w.footprint(node, w.sys.programs())
		if err != nil {
			return err
		}
		for _, v := range values {
			if v.metric == "PSS" {
				peak[node], last[node] = max(peak[node], v.v), v.v
			}
		}
	}
	return nil
}

// pids are the system's processes by node and program.
func (w *world) pids() (map[string]int, error) {
	pids := map[string]int{}
	for _, node := range w.Nodes() {
		for _, name := range w.sys.programs() {
			p, ok := w.Program(node, name)
			if !ok {
				return nil, fmt.Errorf("%s does not run on %s", name, node)
			}
			pids[node+"/"+name] = p.PID
		}
	}
	return pids, nil
}

// replaced counts the processes that are not those of before.
func (w *world) replaced(before map[string]int) (n int, err error) {
	now, err := w.pids()
	for name, pid := range before {
		if now[name] != pid {
			n++
		}
	}
	return n, err
}
