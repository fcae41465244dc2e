package names

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"sync"
	"time"
)

// Query asks for the addresses of a name and how long the answer holds.
type Query func(ctx context.Context, name string) (found []netip.Addr, ttl time.Duration, err error)

// timeout is how long a question may take, and parallel how many are under way.
const (
	timeout  = 5 * time.Second
	parallel = 8
)

// Follower follows names. Its methods may be called from anywhere.
type Follower struct {
	query   Query
	changed func()

	mu    sync.Mutex
	table table
	last  map[string]Answer
	wake  chan struct{}
}

// New returns a Follower of no names; changed is called when an answer became
// another one and must not block.
func New(query Query, changed func()) *Follower {
	return &Follower{query: query, changed: changed, table: table{}, wake: make(chan struct{}, 1)}
}

// Want is the complete list of names to follow.
func (f *Follower) Want(names []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.table.want(names)
	f.rouse()
}

// Answers returns what all names stand for.
func (f *Follower) Answers() map[string]Answer {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.table.answers(time.Now())
}

// rouse has the loop look again.
func (f *Follower) rouse() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// Run asks until ctx ends.
func (f *Follower) Run(ctx context.Context) {
	slots := make(chan struct{}, parallel)
	for {
		name, wait := f.next()
		if name == "" {
			timer := time.NewTimer(wait)
			select {
			case <-ctx.Done():
				timer.Stop()
				return
			case <-f.wake:
			case <-timer.C:
			}
			timer.Stop()
			continue
		}
		select {
		case <-ctx.Done():
			return
		case slots <- struct{}{}:
		}
		go func() {
			defer func() { <-slots }()
			f.ask(ctx, name)
		}()
	}
}

// next returns a name to ask for, or how long there is nothing to do.
func (f *Follower) next() (name string, wait time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	name, at := f.table.next(now)
	f.tell(now)
	return name, max(at.Sub(now), time.Millisecond)
}

var errNothing = errors.New("it has no address")

func (f *Follower) ask(ctx context.Context, name string) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	found, ttl, err := f.query(ctx, name)
	if err == nil && len(found) == 0 {
		err = errNothing
	}
	problem := ""
	if err != nil {
		problem = err.Error()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	f.table.take(now, name, found, ttl, problem)
	f.tell(now)
	f.rouse()
}

// tell says so when an answer became another one.
func (f *Follower) tell(now time.Time) {
	answers := f.table.answers(now)
	if !maps.EqualFunc(answers, f.last, Answer.equal) {
		f.last = answers
		f.changed()
	}
}
