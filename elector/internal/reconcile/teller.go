package reconcile

import (
	"context"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"golang.org/x/time/rate"

	"github.com/vipod/vipod/elector/internal/kube"
)

const (
	// eventBurst and eventRate (a second) bound the Events of one node.
	eventBurst = 25
	eventRate  = 1
	// eventQueue is how many wait; more are dropped.
	eventQueue = 512
	// eventMemory is for how long an Event that happens again is counted up
	// and not written anew, and eventCount the least time between two counts.
	eventMemory = 30 * time.Minute
	eventCount  = time.Minute
)

// teller writes Events. It never blocks who tells: what does not fit the
// budget is dropped and counted.
type teller struct {
	log     *slog.Logger
	api     API
	node    string
	metrics *Metrics
	queue   chan kube.Event
	limit   *rate.Limiter
	known   map[kube.Event]*toldEvent
}

// toldEvent is an Event that was written.
type toldEvent struct {
	name    types.NamespacedName
	count   int
	written time.Time // when it was last written or counted
}

func newTeller(o Options) *teller {
	return &teller{
		log: o.Log, api: o.API, node: o.Config.NodeName, metrics: o.Metrics,
		queue: make(chan kube.Event, eventQueue), limit: rate.NewLimiter(eventRate, eventBurst),
		known: map[kube.Event]*toldEvent{},
	}
}

// tell hands an Event over.
func (t *teller) tell(e kube.Event) {
	select {
	case t.queue <- e:
	default:
		t.metrics.eventsDropped.Inc()
	}
}

// run writes what it is told until ctx ends.
func (t *teller) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-t.queue:
			t.write(ctx, e, time.Now())
		}
	}
}

func (t *teller) write(ctx context.Context, e kube.Event, now time.Time) {
	for k, old := range t.known {
		if now.Sub(old.written) > eventMemory {
			delete(t.known, k)
		}
	}
	old := t.known[e]
	if old != nil {
		old.count++
		if now.Sub(old.written) < eventCount {
			return
		}
	}
	if !t.limit.AllowN(now, 1) {
		t.metrics.eventsDropped.Inc()
		return
	}
	var err error
	if old != nil {
		old.written = now
		err = t.api.CountEvent(ctx, old.name, old.count, now)
	} else {
		var name types.NamespacedName
		if name, err = t.api.CreateEvent(ctx, t.node, e, now); err == nil {
			t.known[e] = &toldEvent{name: name, count: 1, written: now}
		}
	}
	if err != nil && ctx.Err() == nil {
		t.metrics.eventsDropped.Inc()
		t.log.Warn("writing Event", "reason", e.Reason, "err", err)
	}
}

// aboutService returns a reference to a Service.
func aboutService(namespace, name, uid string) corev1.ObjectReference {
	return corev1.ObjectReference{
		APIVersion: "v1", Kind: "Service", Namespace: namespace, Name: name, UID: types.UID(uid),
	}
}

// aboutNode returns a reference to a Node, which is named by its name as the
// kubelet does.
func aboutNode(name string) corev1.ObjectReference {
	return corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: name, UID: types.UID(name)}
}
