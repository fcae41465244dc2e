package kube

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/vipod/vipod/shared/trigger"
)

// Services returns the store of the Services in the namespace, "" for all.
// notify is called after every change with its kind and must not block.
func (c *Client) Services(namespace string, notify func(kind string)) *Store[*corev1.Service] {
	s := c.source(c.core, "services", func() runtime.Object { return &corev1.ServiceList{} })
	s.namespace = namespace
	return newStore(s, stripService, notify)
}

// EndpointSlices returns the store of all EndpointSlices.
func (c *Client) EndpointSlices(notify func(kind string)) *Store[*discoveryv1.EndpointSlice] {
	s := c.source(c.discovery, "endpointslices", func() runtime.Object { return &discoveryv1.EndpointSliceList{} })
	return newStore(s, stripSlice, notify)
}

// Nodes returns the store of all Nodes: metadata, addresses and pod networks.
func (c *Client) Nodes(annotations string, notify func(kind string)) *Store[*corev1.Node] {
	s := c.source(c.core, "nodes", func() runtime.Object { return &corev1.NodeList{} })
	return newStore(s, func(n *corev1.Node) { stripNode(n, annotations) }, notify)
}

func (c *Client) source(client rest.Interface, resource string, list func() runtime.Object) *source {
	return &source{
		log: c.log, client: client, params: c.params, resource: resource, list: list,
		backoff: trigger.Backoff{Min: 100 * time.Millisecond, Max: 5 * time.Second},
	}
}

// stripMeta drops metadata that nobody here reads. A Service's annotations may
// hold 256 KiB; only ours and kube-vip's concern us.
func stripMeta(o metav1.Object) { stripMetaBut(o, "") }

// stripMetaBut is stripMeta that keeps annotations of one more prefix, "" for
// none.
func stripMetaBut(o metav1.Object, prefix string) {
	o.SetManagedFields(nil)
	o.SetFinalizers(nil)
	annotations := o.GetAnnotations()
	for key := range annotations {
		if !strings.Contains(key, "kube-vip.io/") && !strings.HasPrefix(key, "vipod.io/") &&
			(prefix == "" || !strings.HasPrefix(key, prefix+"/")) {
			delete(annotations, key)
		}
	}
}

func stripService(s *corev1.Service) {
	stripMeta(s)
	s.OwnerReferences, s.Spec.SessionAffinityConfig = nil, nil
}

func stripSlice(s *discoveryv1.EndpointSlice) {
	stripMeta(s)
	s.OwnerReferences = nil
	for i := range s.Endpoints {
		e := &s.Endpoints[i]
		e.TargetRef, e.Zone, e.Hints, e.DeprecatedTopology = nil, nil, nil, nil
	}
}

func stripNode(n *corev1.Node, annotations string) {
	stripMetaBut(n, annotations)
	n.Spec = corev1.NodeSpec{PodCIDR: n.Spec.PodCIDR, PodCIDRs: n.Spec.PodCIDRs}
	n.Status = corev1.NodeStatus{Addresses: n.Status.Addresses, Conditions: slices.DeleteFunc(n.Status.Conditions,
		func(c corev1.NodeCondition) bool { return c.Type != corev1.NodeReady })}
}
