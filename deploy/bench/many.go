package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"

	"github.com/vipod/vipod/deploy/lab"
	"github.com/vipod/vipod/deploy/probe"
	"github.com/vipod/vipod/shared/netsafe"
)

// workers is how many requests are under way at a time when Services are made
// as fast as the API server takes them.
const workers = 32

// batch is many Services, each with one IPv6 address of the LAN, unless a DHCP
// server gives it; there are no thousands of IPv4 addresses for documentation.
// All are served by one pod.
type batch struct {
	w      *world
	client kubernetes.Interface
	name   string
	addrs  []netip.Addr
	pod    lab.Pod

	mu   sync.Mutex
	made []time.Time // when the API server had answered to the Service's creation
	last time.Time   // when it had answered to everything
}

// batch prepares n Services at addresses that were never used before.
func (w *world) batch(n int) (*batch, error) {
	w.many++
	b := &batch{w: w, name: fmt.Sprintf("many-%d", w.many), made: make([]time.Time, n)}
	for i := range n {
		b.addrs = append(b.addrs, netip.MustParseAddr(fmt.Sprintf("2001:db8:0:1:%x:0:%x:%x", w.many, (i+1)>>16, (i+1)&0xffff)))
	}
	var err error
	if b.pod, err = w.Pod("p1"); err != nil {
		return nil, err
	}
	config := w.RESTConfig()
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = config.ContentType
	b.client, err = kubernetes.NewForConfig(config)
	return b, err
}

// each calls f for all indexes, many at a time.
func (b *batch) each(ctx context.Context, f func(context.Context, int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(workers)
	for i := range b.addrs {
		group.Go(func() error { return f(ctx, i) })
	}
	return group.Wait()
}

// create makes all of them.
func (b *batch) create(ctx context.Context) error {
	err := b.each(ctx, b.createOne)
	b.last = time.Now()
	return err
}

func (b *batch) serviceName(i int) string { return fmt.Sprintf("%s-%d", b.name, i) }

func (b *batch) createOne(ctx context.Context, i int) error {
	service, err := b.client.CoreV1().Services(metav1.NamespaceDefault).Create(ctx, b.service(i), metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("making Service %s: %w", b.serviceName(i), err)
	}
	b.mu.Lock()
	b.made[i] = time.Now()
	b.mu.Unlock()
	_, err = b.client.DiscoveryV1().EndpointSlices(metav1.NamespaceDefault).Create(ctx, b.slice(service), metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("making endpoints of %s: %w", b.serviceName(i), err)
	}
	return nil
}

func (b *batch) service(i int) *corev1.Service {
	single, noNodePorts := corev1.IPFamilyPolicySingleStack, false
	family := corev1.IPv6Protocol
	if b.addrs[i].Is4() {
		family = corev1.IPv4Protocol
	}
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Name: b.serviceName(i), Annotations: map[string]string{lab.AnnotationVIPs: b.addrs[i].String()},
		},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, IPFamilyPolicy: &single, IPFamilies: []corev1.IPFamily{family},
			// There are fewer node ports than Services.
			AllocateLoadBalancerNodePorts: &noNodePorts,
			Ports: []corev1.ServicePort{{Name: "echo", Protocol: corev1.ProtocolUDP, Port: udpPort,
				TargetPort: intstr.FromInt32(udpPort)}},
		},
	}
}

func (b *batch) slice(service *corev1.Service) *discoveryv1.EndpointSlice {
	port, yes := service.Spec.Ports[0], true
	target := int32(udpPort)
	pod, kind := b.pod.V6, discoveryv1.AddressTypeIPv6
	if service.Spec.IPFamilies[0] == corev1.IPv4Protocol {
		pod, kind = b.pod.V4, discoveryv1.AddressTypeIPv4
	}
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Name: service.Name, Labels: map[string]string{discoveryv1.LabelServiceName: service.Name},
		},
		AddressType: kind,
		Ports:       []discoveryv1.EndpointPort{{Name: &port.Name, Protocol: &port.Protocol, Port: &target}},
		Endpoints: []discoveryv1.Endpoint{{
			Addresses: []string{pod.String()}, NodeName: &b.pod.Node,
			Conditions: discoveryv1.EndpointConditions{Ready: &yes, Serving: &yes},
		}},
	}
}

// removeOne deletes one of them.
func (b *batch) removeOne(ctx context.Context, i int) error {
	name := b.serviceName(i)
	err := errors.Join(
		b.client.DiscoveryV1().EndpointSlices(metav1.NamespaceDefault).Delete(ctx, name, metav1.DeleteOptions{}),
		b.client.CoreV1().Services(metav1.NamespaceDefault).Delete(ctx, name, metav1.DeleteOptions{}))
	if err != nil {
		return fmt.Errorf("deleting %s: %w", name, err)
	}
	return nil
}

// remove deletes all of them and waits until no address is left on a node.
func (b *batch) remove(ctx context.Context) error {
	if err := b.each(ctx, b.removeOne); err != nil {
		return err
	}
	return b.gone(ctx)
}

// gone waits until no node has an address of the batch.
func (b *batch) gone(ctx context.Context) error {
	return b.w.Await(ctx, "the addresses of deleted Services are gone", func(ctx context.Context) (bool, error) {
		for _, node := range b.w.Nodes() {
			if n, err := b.presentOn(node); n > 0 || err != nil {
				return false, errors.Join(err, pause(ctx, poll))
			}
		}
		return true, nil
	})
}

// presentOn counts the batch's addresses on a node.
func (b *batch) presentOn(node string) (n int, err error) {
	ours := make(map[netip.Addr]bool, len(b.addrs))
	for _, a := range b.addrs {
		ours[a] = true
	}
	err = b.w.InNS(node, func() error {
		list, err := netsafe.Addresses()
		for _, a := range list {
			if ours[a.Prefix.Addr()] {
				n++
			}
		}
		return err
	})
	return n, err
}

// sweep begins to look when each address answers.
func (b *batch) sweep() (s *probe.Sweep, err error) {
	err = b.w.InNS(client, func() error {
		s, err = probe.StartSweep(iface, lab.ClientAddrs().V6, b.addrs)
		return err
	})
	return s, err
}

// awaitAll waits until all addresses answer.
func (b *batch) awaitAll(ctx context.Context, s *probe.Sweep) error {
	var left atomic.Int64
	err := b.w.Await(ctx, "all answer", func(context.Context) (bool, error) {
		left.Store(int64(s.Silent()))
		return left.Load() == 0, nil
	})
	if err != nil {
		return fmt.Errorf("%d of %d do not answer: %w", left.Load(), len(b.addrs), err)
	}
	return nil
}
