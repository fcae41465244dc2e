package kube

import (
	"context"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// object is a Kubernetes object with metadata.
type object interface {
	runtime.Object
	metav1.Object
}

// Store holds the objects of one resource, stripped of what elector does not
// read. Objects are replaced and never changed: readers may keep them.
type Store[T object] struct {
	source *source
	strip  func(T)
	notify func(kind string)

	mu     sync.RWMutex
	items  map[types.NamespacedName]T
	synced bool
}

func newStore[T object](s *source, strip func(T), notify func(kind string)) *Store[T] {
	return &Store[T]{source: s, strip: strip, notify: notify, items: map[types.NamespacedName]T{}}
}

// Run keeps the store up to date until ctx ends.
func (s *Store[T]) Run(ctx context.Context) { s.source.run(ctx, s) }

// Synced says whether the store has been filled once.
func (s *Store[T]) Synced() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.synced
}

// List returns all objects in no order.
func (s *Store[T]) List() []T {
	s.mu.RLock()
	defer s.mu.RUnlock()
	list := make([]T, 0, len(s.items))
	for _, o := range s.items {
		list = append(list, o)
	}
	return list
}

// Get returns the object of that namespace ("" for none) and name.
func (s *Store[T]) Get(namespace, name string) (T, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	o, ok := s.items[types.NamespacedName{Namespace: namespace, Name: name}]
	return o, ok
}

func (s *Store[T]) relisted(objects []runtime.Object) {
	items := make(map[types.NamespacedName]T, len(objects))
	for _, o := range objects {
		if t, ok := o.(T); ok {
			s.strip(t)
			items[keyOf(t)] = t
		}
	}
	s.mu.Lock()
	s.items, s.synced = items, true
	s.mu.Unlock()
	s.notify("RELIST")
}

func (s *Store[T]) changed(o runtime.Object) {
	t, ok := o.(T)
	if !ok {
		return // the server answers with what was asked for
	}
	s.strip(t)
	s.mu.Lock()
	_, known := s.items[keyOf(t)]
	s.items[keyOf(t)] = t
	s.mu.Unlock()
	if known {
		s.notify("MODIFIED")
	} else {
		s.notify("ADDED")
	}
}

func (s *Store[T]) deleted(o runtime.Object) {
	if t, ok := o.(T); ok {
		s.mu.Lock()
		delete(s.items, keyOf(t))
		s.mu.Unlock()
		s.notify("DELETED")
	}
}

// forget empties the store of a resource that is followed no more.
func (s *Store[T]) forget() {
	s.mu.Lock()
	s.items, s.synced = map[types.NamespacedName]T{}, false
	s.mu.Unlock()
	s.notify("RELIST")
}

func keyOf(o metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
}
