package lab

import (
	"context"
	"fmt"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// AnnotationVIPs asks for addresses.
const AnnotationVIPs = "kube-vip.io/loadbalancerIPs"

// ServiceSpec describes a Service of type LoadBalancer in namespace default.
type ServiceSpec struct {
	Name string
	// VIPs are the addresses asked for by annotation; none leaves it out.
	VIPs []netip.Addr
	// Class is the loadBalancerClass; empty leaves it out.
	Class string
	// Policy is the externalTrafficPolicy; Cluster if empty.
	Policy corev1.ServiceExternalTrafficPolicy
	// Annotations are added to that for VIPs and win over it.
	Annotations map[string]string
	// Ports are HTTP on 80 and UDP echo on 9090 if nil.
	Ports []corev1.ServicePort
	// Pods serve it, by name.
	Pods []string
	// Change is applied to the Service before it is sent; may be nil.
	Change func(*corev1.Service)
}

// CreateService makes the Service and its EndpointSlices, one per family.
func (l *Lab) CreateService(ctx context.Context, spec ServiceSpec) (*corev1.Service, error) {
	// Before there is half a Service.
	if _, err := l.choosePods(spec.Pods); err != nil {
		return nil, fmt.Errorf("making Service %s: %w", spec.Name, err)
	}
	service, err := l.client.CoreV1().Services(metav1.NamespaceDefault).
		Create(ctx, spec.service(), metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("making Service %s: %w", spec.Name, err)
	}
	return service, l.SetEndpoints(ctx, spec.Name, spec.Pods...)
}

// service returns the object that the description stands for.
func (s ServiceSpec) service() *corev1.Service {
	annotations := map[string]string{}
	if len(s.VIPs) > 0 {
		var texts []string
		for _, vip := range s.VIPs {
			texts = append(texts, vip.String())
		}
		annotations[AnnotationVIPs] = strings.Join(texts, ",")
	}
	for key, value := range s.Annotations {
		annotations[key] = value
	}
	families := corev1.IPFamilyPolicyPreferDualStack
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: s.Name, Annotations: annotations},
		Spec: corev1.ServiceSpec{
			Type:                  corev1.ServiceTypeLoadBalancer,
			IPFamilyPolicy:        &families,
			ExternalTrafficPolicy: s.Policy,
			Ports:                 s.Ports,
		},
	}
	if s.Class != "" {
		service.Spec.LoadBalancerClass = &s.Class
	}
	if s.Ports == nil {
		service.Spec.Ports = DefaultPorts()
	}
	if s.Change != nil {
		s.Change(service)
	}
	return service
}

// DefaultPorts returns the ports that a Service has if none are given.
func DefaultPorts() []corev1.ServicePort {
	return []corev1.ServicePort{
		{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80, TargetPort: intstr.FromInt32(HTTPPort)},
		{Name: "echo", Protocol: corev1.ProtocolUDP, Port: UDPPort, TargetPort: intstr.FromInt32(UDPPort)},
	}
}

// SetEndpoints makes these pods, and no others, the ready endpoints of a
// Service.
func (l *Lab) SetEndpoints(ctx context.Context, service string, pods ...string) error {
	object, err := l.client.CoreV1().Services(metav1.NamespaceDefault).Get(ctx, service, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading Service %s: %w", service, err)
	}
	chosen, err := l.choosePods(pods)
	if err != nil {
		return fmt.Errorf("choosing endpoints of %s: %w", service, err)
	}
	for _, family := range object.Spec.IPFamilies {
		if err := l.putSlice(ctx, endpointSlice(object, family, chosen)); err != nil {
			return fmt.Errorf("writing endpoints of %s: %w", service, err)
		}
	}
	return nil
}

func (l *Lab) choosePods(names []string) ([]Pod, error) {
	var chosen []Pod
	for _, name := range names {
		pod, err := l.Pod(name)
		if err != nil {
			return nil, err
		}
		chosen = append(chosen, pod)
	}
	return chosen, nil
}

// putSlice makes or replaces an EndpointSlice.
func (l *Lab) putSlice(ctx context.Context, slice *discoveryv1.EndpointSlice) error {
	client := l.client.DiscoveryV1().EndpointSlices(metav1.NamespaceDefault)
	_, err := client.Update(ctx, slice, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		_, err = client.Create(ctx, slice, metav1.CreateOptions{})
	}
	return err
}

// endpointSlice is what the endpoint slice controller of a whole cluster
// would make for the pods.
func endpointSlice(service *corev1.Service, family corev1.IPFamily, pods []Pod) *discoveryv1.EndpointSlice {
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Name:   service.Name + "-" + strings.ToLower(string(family)),
			Labels: map[string]string{discoveryv1.LabelServiceName: service.Name},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "v1", Kind: "Service", Name: service.Name, UID: service.UID,
			}},
		},
		AddressType: discoveryv1.AddressType(family),
	}
	for _, port := range service.Spec.Ports {
		target := port.TargetPort.IntVal
		if target == 0 {
			target = port.Port
		}
		slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{
			Name: &port.Name, Protocol: &port.Protocol, Port: &target,
		})
	}
	yes := true
	for _, pod := range pods {
		addr := pod.V4
		if family == corev1.IPv6Protocol {
			addr = pod.V6
		}
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
			Addresses:  []string{addr.String()},
			NodeName:   &pod.Node,
			Conditions: discoveryv1.EndpointConditions{Ready: &yes, Serving: &yes},
			TargetRef:  &corev1.ObjectReference{Kind: "Pod", Namespace: metav1.NamespaceDefault, Name: pod.Name},
		})
	}
	return slice
}

// DeleteService removes a Service and its EndpointSlices.
func (l *Lab) DeleteService(ctx context.Context, name string) error {
	err := l.client.CoreV1().Services(metav1.NamespaceDefault).Delete(ctx, name, metav1.DeleteOptions{})
	if err != nil {
		return fmt.Errorf("deleting Service %s: %w", name, err)
	}
	// No garbage collector runs in a lab.
	err = l.client.DiscoveryV1().EndpointSlices(metav1.NamespaceDefault).DeleteCollection(ctx,
		metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + name})
	if err != nil {
		return fmt.Errorf("deleting the endpoints of %s: %w", name, err)
	}
	return nil
}
