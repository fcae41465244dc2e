package reconcile

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vipod/vipod/elector/internal/claim"
	"github.com/vipod/vipod/elector/internal/kube"
	"github.com/vipod/vipod/shared/trigger"
)

// store is an API server in memory: linearizable, with watches that deliver
// every change in one order.
type store struct {
	mu       sync.Mutex
	version  uint64
	leases   map[string]kube.NodeLease
	lock     *claim.Record
	services map[types.NamespacedName]*corev1.Service
	slices   map[string]*discoveryv1.EndpointSlice
	nodes    map[string]*corev1.Node
	pods     map[string]*corev1.Pod
	events   []kube.Event
	counts   int
	writes   map[string]int // requests by verb and resource
	clients  map[*fakeAPI]bool
}

func newStore() *store {
	return &store{
		leases: map[string]kube.NodeLease{}, services: map[types.NamespacedName]*corev1.Service{},
		slices: map[string]*discoveryv1.EndpointSlice{}, nodes: map[string]*corev1.Node{},
		writes: map[string]int{}, clients: map[*fakeAPI]bool{},
	}
}

// fakeAPI is one elector's connection to the store.
type fakeAPI struct {
	*store
	node    string
	writer  string // the machine
	changed *trigger.Trigger
	leasesC chan kube.LeaseEvent
	locksC  chan kube.LockEvent
	cut     bool // by mu: requests fail, events wait
	waiting []func()
	follows atomic.Bool  // pods
	partial *atomic.Bool // Services, slices and Nodes are not listed yet
}

func (s *store) connect(node string, changed *trigger.Trigger) *fakeAPI {
	a := &fakeAPI{
		store: s, node: node, changed: changed,
		leasesC: make(chan kube.LeaseEvent, 1<<16), locksC: make(chan kube.LockEvent, 1<<16),
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clients[a] = true
	a.leasesC <- kube.LeaseEvent{Relist: true, Leases: slices.Collect(maps.Values(s.leases))}
	if s.lock == nil {
		a.locksC <- kube.LockEvent{Gone: true}
	} else {
		a.locksC <- kube.LockEvent{Record: *s.lock}
	}
	changed.Fire()
	return a
}

func (a *fakeAPI) disconnect() {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.clients, a)
}

// setCut cuts the connection or restores it, with the events in between.
func (a *fakeAPI) setCut(cut bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.cut = cut
	if !cut {
		for _, f := range a.waiting {
			f()
		}
		a.waiting = nil
	}
}

// all delivers to every client in the order of the calls. mu is held.
func (s *store) all(f func(*fakeAPI)) {
	for a := range s.clients {
		if a.cut {
			a.waiting = append(a.waiting, func() { f(a) })
		} else {
			f(a)
		}
	}
}

var errCut = errors.New("no connection")

// request counts a request and takes its time.
func (a *fakeAPI) request(what string) error {
	time.Sleep(time.Millisecond)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.writes[what]++
	if a.cut {
		return errCut
	}
	return nil
}

func (a *fakeAPI) Synced() bool                         { return a.partial == nil || !a.partial.Load() }
func (a *fakeAPI) Host() (netip.Addr, bool)             { return netip.Addr{}, false }
func (a *fakeAPI) Leases() <-chan kube.LeaseEvent       { return a.leasesC }
func (a *fakeAPI) Locks() <-chan kube.LockEvent         { return a.locksC }
func (a *fakeAPI) Services() []*corev1.Service          { return values(a.store, a.services) }
func (a *fakeAPI) Slices() []*discoveryv1.EndpointSlice { return values(a.store, a.slices) }
func (a *fakeAPI) Nodes() []*corev1.Node                { return values(a.store, a.nodes) }

func (a *fakeAPI) Pods() []*corev1.Pod  { return values(a.store, a.pods) }
func (a *fakeAPI) PodsSynced() bool     { return a.follows.Load() }
func (a *fakeAPI) FollowPods(want bool) { a.follows.Store(want); a.changed.Fire() }

func values[K comparable, V any](s *store, m map[K]V) []V {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(m))
}

func (a *fakeAPI) Service(namespace, name string) (*corev1.Service, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s, ok := a.services[types.NamespacedName{Namespace: namespace, Name: name}]
	return s, ok
}

func (a *fakeAPI) WriteLease(_ context.Context, u claim.Update) (uint64, error) {
	if err := a.request("update leases"); err != nil {
		return 0, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.leases[a.node].Version != u.Base {
		return 0, kube.ErrConflict
	}
	a.version++
	l := kube.NodeLease{Lease: claim.Lease{
		Node: a.node, Version: a.version, Duration: testDuration, Ready: u.Ready, Claims: slices.Clone(u.Claims),
	}, Writer: a.writer}
	a.leases[a.node] = l
	a.all(func(c *fakeAPI) { c.leasesC <- kube.LeaseEvent{Leases: []kube.NodeLease{l}} })
	return a.version, nil
}

func (a *fakeAPI) ReadLease(context.Context) (uint64, error) {
	if err := a.request("get leases"); err != nil {
		return 0, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	l := a.leases[a.node]
	if l.Version != 0 && l.Writer != a.writer {
		return 0, errors.New("written by another machine")
	}
	return l.Version, nil
}

func (a *fakeAPI) WriteLock(_ context.Context, u claim.LockUpdate) (uint64, error) {
	if err := a.request("update lock"); err != nil {
		return 0, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	var have uint64
	if a.lock != nil {
		have = a.lock.Version
	}
	if have != u.Base {
		return 0, kube.ErrConflict
	}
	a.version++
	r := claim.Record{Version: a.version, Holder: u.Holder, Duration: testDuration}
	a.lock = &r
	a.all(func(c *fakeAPI) { c.locksC <- kube.LockEvent{Record: r} })
	return a.version, nil
}

func (a *fakeAPI) ReadLock(context.Context) (claim.Record, bool, error) {
	if err := a.request("get lock"); err != nil {
		return claim.Record{}, false, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.lock == nil {
		return claim.Record{}, false, nil
	}
	return *a.lock, true, nil
}

func (a *fakeAPI) WriteServiceStatus(_ context.Context, s kube.ServiceStatus) error {
	if err := a.request("patch services/status"); err != nil {
		return err
	}
	key := types.NamespacedName{Namespace: s.Namespace, Name: s.Name}
	a.mu.Lock()
	old := a.services[key]
	if old == nil || old.ResourceVersion != s.Version {
		a.mu.Unlock()
		return kube.ErrConflict
	}
	svc := old.DeepCopy()
	a.mu.Unlock()
	svc.Status.LoadBalancer.Ingress = s.Ingress
	if svc.Annotations == nil {
		svc.Annotations = map[string]string{}
	}
	svc.Annotations[kube.AnnotationHost] = s.Host
	if s.Host == "" {
		delete(svc.Annotations, kube.AnnotationHost)
	}
	a.putService(svc)
	return nil
}

func (a *fakeAPI) CreateEvent(_ context.Context, _ string, e kube.Event, _ time.Time) (types.NamespacedName, error) {
	if err := a.request("create events"); err != nil {
		return types.NamespacedName{}, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.events = append(a.events, e)
	return types.NamespacedName{Name: strconv.Itoa(len(a.events))}, nil
}

func (a *fakeAPI) CountEvent(context.Context, types.NamespacedName, int, time.Time) error {
	if err := a.request("patch events"); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.counts++
	return nil
}

// putService creates or replaces a Service.
func (s *store) putService(svc *corev1.Service) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	svc.ResourceVersion = strconv.FormatUint(s.version, 10)
	s.services[types.NamespacedName{Namespace: svc.Namespace, Name: svc.Name}] = svc
	s.all(func(c *fakeAPI) { c.changed.Fire() })
}

func (s *store) deleteService(namespace, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.services, types.NamespacedName{Namespace: namespace, Name: name})
	s.all(func(c *fakeAPI) { c.changed.Fire() })
}

func (s *store) putSlice(slice *discoveryv1.EndpointSlice) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.slices[slice.Name] = slice
	s.all(func(c *fakeAPI) { c.changed.Fire() })
}

func (s *store) service(name string) *corev1.Service {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.services[types.NamespacedName{Namespace: "default", Name: name}]
}

// told says whether an Event with that reason was written about the Service.
func (s *store) told(service, reason string) (message string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.events {
		if e.About.Name == service && e.Reason == reason {
			return e.Message, true
		}
	}
	return "", false
}
