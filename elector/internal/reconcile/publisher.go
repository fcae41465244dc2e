package reconcile

import (
	"context"
	"errors"
	"log/slog"
	"reflect"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/vipod/vipod/elector/internal/kube"
	"github.com/vipod/vipod/shared/trigger"
)

// Budget of the writes of Services' status: many at once, then a steady
// trickle, and never many side by side.
const (
	statusBurst   = 50
	statusRate    = 20 // a second
	statusWorkers = 4
)

// publisher writes the status of Services. It holds the newest wish per
// Service and never blocks who wishes.
type publisher struct {
	log     *slog.Logger
	api     API
	metrics *Metrics
	wake    *trigger.Trigger
	limit   *rate.Limiter

	mu   sync.Mutex
	jobs map[string]*statusJob
}

// statusJob is what is to be written about one Service.
type statusJob struct {
	want    kube.ServiceStatus
	writing bool
	due     bool // want was not written yet
	after   time.Time
	backoff trigger.Backoff
}

func newPublisher(o Options) *publisher {
	return &publisher{
		log: o.Log, api: o.API, metrics: o.Metrics, wake: trigger.New(),
		limit: rate.NewLimiter(statusRate, statusBurst), jobs: map[string]*statusJob{},
	}
}

// want asks for a status. The same wish again is no work.
func (p *publisher) want(key string, s kube.ServiceStatus) {
	p.mu.Lock()
	defer p.mu.Unlock()
	job := p.jobs[key]
	if job == nil {
		job = &statusJob{backoff: trigger.Backoff{Min: 200 * time.Millisecond, Max: 30 * time.Second}}
		p.jobs[key] = job
	}
	if reflect.DeepEqual(job.want, s) {
		return
	}
	job.want, job.due = s, true
	p.wake.Fire()
}

// keep drops the wishes about all Services but those of the given keys.
func (p *publisher) keep(wanted map[string]bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key, job := range p.jobs {
		if !wanted[key] && !job.writing {
			delete(p.jobs, key)
		}
	}
}

// run hands out what is due until ctx ends.
func (p *publisher) run(ctx context.Context) {
	slots := make(chan struct{}, statusWorkers)
	for {
		slots <- struct{}{}
		key, want, wait := p.next(time.Now())
		if key == "" {
			<-slots
			timer := time.NewTimer(wait)
			select {
			case <-ctx.Done():
				timer.Stop()
				return
			case <-p.wake.C():
			case <-timer.C:
			}
			timer.Stop()
			continue
		}
		if p.limit.Wait(ctx) != nil {
			return // ctx ended
		}
		go func() {
			defer func() { <-slots }()
			p.done(key, want, p.api.WriteServiceStatus(ctx, want))
		}()
	}
}

// next returns a job that is due and marks it as being written, or how long
// there is none.
func (p *publisher) next(now time.Time) (key string, want kube.ServiceStatus, wait time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	wait = time.Minute
	for key, job := range p.jobs {
		if !job.due || job.writing {
			continue
		}
		if d := job.after.Sub(now); d > 0 {
			wait = min(wait, d)
			continue
		}
		job.writing = true
		return key, job.want, 0
	}
	return "", kube.ServiceStatus{}, wait
}

// done takes the outcome of a write. After a conflict the watch brings the
// Service's new state, from which a new wish follows; if it does not, the same
// wish is tried again.
func (p *publisher) done(key string, wrote kube.ServiceStatus, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	job := p.jobs[key]
	job.writing = false
	result := "written"
	switch {
	case errors.Is(err, kube.ErrConflict):
		result = "conflict"
	case err != nil:
		result = "failed"
		p.log.Warn("writing Service status", "service", key, "err", err)
	}
	p.metrics.statusWrites.WithLabelValues(result).Inc()
	if err != nil {
		job.after = time.Now().Add(job.backoff.Failed())
	} else {
		job.backoff.Reset()
		job.after = time.Time{}
		job.due = !reflect.DeepEqual(job.want, wrote)
	}
	p.wake.Fire()
}
