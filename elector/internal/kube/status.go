package kube

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
)

// AnnotationHost names the node that has a Service's VIPs.
const AnnotationHost = "kube-vip.io/vipHost"

// Annotations that tell whoever goes on with a Service's DHCP lease who to be
// and what to ask for.
const (
	AnnotationMAC       = "kube-vip.io/hwaddr"
	AnnotationRequested = "kube-vip.io/requestedIP"
)

// ServiceStatus is what elector writes about one Service.
type ServiceStatus struct {
	Namespace, Name string
	// Version is the resourceVersion of the Service that this follows from:
	// the write is refused if it has changed since.
	Version string
	// Host is the node with the VIPs, "" to remove the annotation.
	Host string
	// Annotations are set besides.
	Annotations map[string]string
	// Ingress replaces status.loadBalancer.ingress.
	Ingress []corev1.LoadBalancerIngress
}

// WriteServiceStatus writes status and annotation in one patch of the status
// subresource, which lets metadata through and never the spec. A Service that
// is gone is no error.
func (c *Client) WriteServiceStatus(ctx context.Context, s ServiceStatus) error {
	patch, err := s.patch()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	err = c.core.Patch(types.MergePatchType).Namespace(s.Namespace).Resource("services").Name(s.Name).
		SubResource("status").Body(patch).MaxRetries(0).Do(ctx).Error()
	switch {
	case err == nil, apierrors.IsNotFound(err):
		return nil
	case apierrors.IsConflict(err):
		return fmt.Errorf("writing status of Service %s/%s: %w: %w", s.Namespace, s.Name, ErrConflict, err)
	}
	return fmt.Errorf("writing status of Service %s/%s: %w", s.Namespace, s.Name, err)
}

func (s ServiceStatus) patch() ([]byte, error) {
	var host any // null removes the key
	if s.Host != "" {
		host = s.Host
	}
	annotations := map[string]any{AnnotationHost: host}
	for name, value := range s.Annotations {
		annotations[name] = value
	}
	var ingress any
	if len(s.Ingress) > 0 {
		ingress = s.Ingress
	}
	b, err := json.Marshal(map[string]any{
		"metadata": map[string]any{
			"resourceVersion": s.Version,
			"annotations":     annotations,
		},
		"status": map[string]any{"loadBalancer": map[string]any{"ingress": ingress}},
	})
	if err != nil {
		return nil, fmt.Errorf("writing status of Service %s/%s: %w", s.Namespace, s.Name, err)
	}
	return b, nil
}
