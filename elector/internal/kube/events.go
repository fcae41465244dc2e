package kube

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Event is something to tell a person about an object.
type Event struct {
	About corev1.ObjectReference
	// Warning: somebody should look.
	Warning bool
	// Reason is one CamelCase word, Action what elector was doing, Message a
	// sentence.
	Reason, Action, Message string
}

// The API server's limits for the fields of an Event.
const (
	maxReason  = 128
	maxMessage = 1024
)

// CreateEvent writes a new Event from the named node and returns its
// namespace and name, under which it can be counted up.
func (c *Client) CreateEvent(ctx context.Context, node string, e Event, now time.Time) (types.NamespacedName, error) {
	namespace := e.About.Namespace
	if namespace == "" {
		namespace = metav1.NamespaceDefault // where Events of Nodes go
	}
	kind := corev1.EventTypeNormal
	if e.Warning {
		kind = corev1.EventTypeWarning
	}
	obj := &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace,
			// As client-go names them: object and time.
			Name: fmt.Sprintf("%s.%x", e.About.Name, now.UnixNano()),
		},
		EventTime: metav1.NewMicroTime(now), ReportingController: "vipod.io/elector", ReportingInstance: "elector-" + node,
		Action: e.Action, Reason: cut(e.Reason, maxReason), Note: cut(e.Message, maxMessage), Type: kind,
		Regarding: e.About,
	}
	if len(obj.ReportingInstance) > maxReason {
		obj.ReportingInstance = obj.ReportingInstance[:maxReason]
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	name := types.NamespacedName{Namespace: namespace, Name: obj.Name}
	if err := c.events.Post().Namespace(namespace).Resource("events").Body(obj).MaxRetries(0).Do(ctx).Error(); err != nil {
		return name, fmt.Errorf("creating Event on %s %s/%s: %w", e.About.Kind, e.About.Namespace, e.About.Name, err)
	}
	return name, nil
}

// CountEvent says that the Event has happened count times by now.
func (c *Client) CountEvent(ctx context.Context, name types.NamespacedName, count int, now time.Time) error {
	patch := fmt.Sprintf(`{"series":{"count":%d,"lastObservedTime":%q}}`, count, metav1.NewMicroTime(now).UTC().Format(metav1.RFC3339Micro))
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	err := c.events.Patch(types.MergePatchType).Namespace(name.Namespace).Resource("events").Name(name.Name).
		Body([]byte(patch)).MaxRetries(0).Do(ctx).Error()
	if err != nil {
		return fmt.Errorf("counting Event %s: %w", name, err)
	}
	return nil
}

// cut shortens s to at most n bytes of valid UTF-8 and drops control
// characters, which a Service's annotations may bring in.
func cut(s string, n int) string {
	out := make([]byte, 0, min(len(s), n))
	for _, r := range s {
		if r < ' ' || r == 0x7f {
			r = ' '
		}
		if len(out)+len(string(r)) > n {
			break
		}
		out = append(out, string(r)...)
	}
	return string(out)
}
