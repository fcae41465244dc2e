package kube

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/vipod/vipod/shared/trigger"
)

// source lists and watches the objects of one resource and hands them on, one
// after the other, in the order in which the API server sent them. client-go's
// informers join the events of one object and so reorder those of two, and
// their waiting times after a failure are longer than a Lease.
type source struct {
	log       *slog.Logger
	client    rest.Interface
	params    runtime.ParameterCodec
	namespace string // "" for all
	resource  string
	labels    string
	fields    string
	list      func() runtime.Object
	// stall is the longest silence of a watch; silence is then taken for a
	// dead connection, which stalled may close. Zero for a watch that may be
	// silent.
	stall   time.Duration
	stalled func()
	backoff trigger.Backoff
}

// sink receives what a source finds. Its methods are called by one goroutine.
type sink interface {
	// relisted gets all objects; their order says nothing.
	relisted(objects []runtime.Object)
	// changed gets an object that was added or modified.
	changed(object runtime.Object)
	// deleted gets the last state of an object that is gone.
	deleted(object runtime.Object)
}

const (
	pageSize     = 500
	listTimeout  = 60 * time.Second
	startTimeout = 15 * time.Second
)

var (
	errStalled = errors.New("watch is silent")
	errEnded   = errors.New("watch ended at once")
)

// run follows the resource until ctx ends.
func (s *source) run(ctx context.Context, to sink) {
	version := ""
	for ctx.Err() == nil {
		var err error
		if version == "" {
			version, err = s.relist(ctx, to)
		}
		if err == nil {
			version, err = s.watch(ctx, version, to)
		}
		if err == nil {
			s.backoff.Reset()
			continue
		}
		if mustRelist(err) {
			version = ""
		}
		wait := s.backoff.Failed()
		if ctx.Err() == nil {
			s.log.Warn("watching the API", "resource", s.resource, "err", err, "retry", wait.Round(time.Millisecond))
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
}

// mustRelist says whether the place where the watch stood is lost: compacted,
// or unknown to a server whose data was restored.
func mustRelist(err error) bool {
	return apierrors.IsGone(err) || apierrors.IsResourceExpired(err) || apierrors.IsInvalid(err) ||
		apierrors.IsBadRequest(err) || apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge)
}

// relist reads all objects in pages of one consistent state.
func (s *source) relist(ctx context.Context, to sink) (version string, err error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	var all []runtime.Object
	opts := metav1.ListOptions{LabelSelector: s.labels, FieldSelector: s.fields, Limit: pageSize}
	for {
		page := s.list()
		err := s.client.Get().NamespaceIfScoped(s.namespace, s.namespace != "").Resource(s.resource).
			VersionedParams(&opts, s.params).MaxRetries(0).Do(ctx).Into(page)
		if err != nil {
			return "", fmt.Errorf("listing %s: %w", s.resource, err)
		}
		list, err := meta.ListAccessor(page)
		if err != nil {
			return "", fmt.Errorf("listing %s: %w", s.resource, err)
		}
		objects, err := meta.ExtractList(page)
		if err != nil {
			return "", fmt.Errorf("listing %s: %w", s.resource, err)
		}
		all = append(all, objects...)
		if opts.Continue = list.GetContinue(); opts.Continue == "" {
			to.relisted(all)
			return list.GetResourceVersion(), nil
		}
	}
}

// watch hands on what happens after version until the watch ends and returns
// how far it came. An end by the server's own time limit is no error.
func (s *source) watch(ctx context.Context, version string, to sink) (string, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := time.AfterFunc(orTime(s.stall, startTimeout), func() { cancel(errStalled) })
	defer silence.Stop()
	seconds := int64(300 + rand.IntN(300)) // spread, so that watches do not end together
	opts := metav1.ListOptions{
		LabelSelector: s.labels, FieldSelector: s.fields, Watch: true,
		ResourceVersion: version, AllowWatchBookmarks: true, TimeoutSeconds: &seconds,
	}
	begin := time.Now()
	w, err := s.client.Get().NamespaceIfScoped(s.namespace, s.namespace != "").Resource(s.resource).
		VersionedParams(&opts, s.params).MaxRetries(0).Watch(ctx)
	if err != nil {
		return version, s.ended(ctx, err)
	}
	defer w.Stop()
	if s.stall == 0 {
		silence.Stop()
	}
	first := version
	for e := range w.ResultChan() {
		if s.stall > 0 {
			silence.Reset(s.stall)
		}
		next, err := s.handle(e, to)
		if err != nil {
			return version, fmt.Errorf("watching %s: %w", s.resource, err)
		}
		version = next
	}
	if ctx.Err() == nil && version == first && time.Since(begin) < time.Second {
		return version, fmt.Errorf("watching %s: %w", s.resource, errEnded)
	}
	return version, s.ended(ctx, nil)
}

// ended returns why a watch ended, and closes the connection if it was silent.
func (s *source) ended(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), errStalled) {
		err = errStalled
		if s.stalled != nil {
			s.stalled()
		}
	}
	if err != nil {
		return fmt.Errorf("watching %s: %w", s.resource, err)
	}
	return nil
}

// handle hands one event on and returns its resourceVersion.
func (s *source) handle(e watch.Event, to sink) (version string, err error) {
	if e.Type == watch.Error {
		return "", apierrors.FromObject(e.Object)
	}
	object, err := meta.Accessor(e.Object)
	if err != nil {
		return "", fmt.Errorf("reading event: %w", err)
	}
	switch e.Type {
	case watch.Added, watch.Modified:
		to.changed(e.Object)
	case watch.Deleted:
		to.deleted(e.Object)
	}
	return object.GetResourceVersion(), nil
}

func orTime(d, or time.Duration) time.Duration {
	if d == 0 {
		return or
	}
	return d
}
