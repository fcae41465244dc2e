package faults

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"github.com/vipod/vipod/deploy/lab"
)

// services are changes of API objects, each as it should not be made.
func services() []Case {
	unhurt := Expectation{Outcome: Stays}
	return []Case{
		{Name: "endpoints flap, one is always ready", Want: unhurt, Faulty: nobody, Fault: flapEndpoints, Settle: time.Second},
		{Name: "endpoints come and go with policy Local", Want: Expectation{Outcome: Back, Bound: 2 * time.Second, Hands: 20},
			Faulty: everyNode, Pods: []string{"p1"}, Policy: corev1.ServiceExternalTrafficPolicyLocal, Fault: endEndpoints},
		{Name: "Service changes its type there and back", Want: Expectation{Outcome: Back, Bound: 2 * time.Second, Hands: 10},
			Faulty: everyNode, Fault: flipType},
		{Name: "Service changes its addresses there and back", Long: true, Want: Expectation{Outcome: Back, Bound: 2 * time.Second, Hands: 10},
			Faulty: everyNode, Fault: flipAddresses},
		{Name: "Service changes its class away and back", Long: true, Want: Expectation{Outcome: Back, Bound: 2 * time.Second, Hands: 10},
			Faulty: everyNode, Fault: flipClass},
		{Name: "Service changes its traffic policy there and back", Long: true, Faulty: everyNode,
			Want: Expectation{Outcome: Either, Bound: time.Second, Hands: 10}, Pods: []string{"p1"}, Fault: flipPolicy},
		{Name: "300 Services created and deleted at once", Long: true, Want: unhurt, Faulty: nobody, Settle: 2 * time.Second, Fault: burst},
		// Three electors start within ten seconds, a pace that no rolling update
		// has, and each lists and watches five kinds of objects.
		{Name: "pods of all nodes restarted in turn", Settle: 2 * time.Second,
			Faulty: everyNode, Want: Expectation{Outcome: Either, Bound: 250 * time.Millisecond, Hands: 3, Rate: 1.5 * recoverRate}, Fault: roll},
	}
}

// flapEndpoints adds an endpoint beside the ready one and takes it away.
func flapEndpoints(ctx context.Context, w *World) error {
	for i := range 20 {
		pods := []string{podOf(w.Owner)}
		if i%2 == 0 {
			pods = append(pods, podOf(w.Others()[0]))
		}
		if err := errors.Join(w.SetEndpoints(ctx, w.Service, pods...), pause(ctx, 100*time.Millisecond)); err != nil {
			return err
		}
	}
	return nil
}

// endEndpoints takes the only endpoint away and gives one back elsewhere.
func endEndpoints(ctx context.Context, w *World) error {
	for i := range 8 {
		var pods []string
		if i%2 == 1 {
			pods = []string{podOf(w.Nodes()[i/2%len(w.Nodes())])}
		}
		if err := errors.Join(w.SetEndpoints(ctx, w.Service, pods...), pause(ctx, 400*time.Millisecond)); err != nil {
			return err
		}
	}
	return nil
}

// change changes the Service.
func (w *World) change(ctx context.Context, change func(*corev1.Service)) error {
	client := w.Client().CoreV1().Services(metav1.NamespaceDefault)
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		service, err := client.Get(ctx, w.Service, metav1.GetOptions{})
		if err != nil {
			return err
		}
		change(service)
		_, err = client.Update(ctx, service, metav1.UpdateOptions{})
		return err
	})
}

func flipType(ctx context.Context, w *World) error {
	for _, kind := range []corev1.ServiceType{
		corev1.ServiceTypeClusterIP, corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeClusterIP, corev1.ServiceTypeLoadBalancer,
	} {
		err := errors.Join(w.change(ctx, func(s *corev1.Service) { s.Spec.Type = kind }), pause(ctx, 500*time.Millisecond))
		if err != nil {
			return err
		}
	}
	return nil
}

// flipClass gives the Service to another implementation and takes it back. A
// class can only be changed by way of another type.
func flipClass(ctx context.Context, w *World) error {
	other := "example.com/other"
	for _, class := range []*string{&other, nil, &other, nil} {
		err := errors.Join(
			w.change(ctx, func(s *corev1.Service) {
				s.Spec.Type, s.Spec.LoadBalancerClass = corev1.ServiceTypeClusterIP, nil
			}),
			w.change(ctx, func(s *corev1.Service) {
				s.Spec.Type, s.Spec.LoadBalancerClass = corev1.ServiceTypeLoadBalancer, class
			}),
			pause(ctx, 500*time.Millisecond))
		if err != nil {
			return err
		}
	}
	return nil
}

// flipPolicy makes one node the only one that is eligible, and all again.
func flipPolicy(ctx context.Context, w *World) error {
	local, cluster := corev1.ServiceExternalTrafficPolicyLocal, corev1.ServiceExternalTrafficPolicyCluster
	for _, policy := range []corev1.ServiceExternalTrafficPolicy{local, cluster, local, cluster} {
		err := errors.Join(w.change(ctx, func(s *corev1.Service) { s.Spec.ExternalTrafficPolicy = policy }), pause(ctx, time.Second))
		if err != nil {
			return err
		}
	}
	return nil
}

func flipAddresses(ctx context.Context, w *World) error {
	for _, vip := range []lab.Addrs{lab.VIP(1), w.VIP, lab.VIP(1), w.VIP} {
		text := vip.V4.String() + "," + vip.V6.String()
		err := errors.Join(
			w.change(ctx, func(s *corev1.Service) { s.Annotations[lab.AnnotationVIPs] = text }),
			pause(ctx, 700*time.Millisecond))
		if err != nil {
			return err
		}
	}
	return nil
}

// burstSize is how many Services are created and deleted at once. They have
// only IPv6 addresses, of which there are enough.
const burstSize = 300

func burst(ctx context.Context, w *World) error {
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(16)
	for i := range burstSize {
		group.Go(func() error {
			name := fmt.Sprintf("burst-%d", i)
			vip := netip.MustParseAddr(fmt.Sprintf("2001:db8:0:1:1::%x", i+1))
			_, err := w.CreateService(groupCtx, lab.ServiceSpec{
				Name: name, VIPs: []netip.Addr{vip}, Pods: []string{podOf(w.Owner)},
				Change: func(s *corev1.Service) {
					single := corev1.IPFamilyPolicySingleStack
					s.Spec.IPFamilyPolicy, s.Spec.IPFamilies = &single, []corev1.IPFamily{corev1.IPv6Protocol}
				},
			})
			return errors.Join(err, w.DeleteService(groupCtx, name))
		})
	}
	return group.Wait()
}

// roll replaces the pod of one node after the other.
func roll(ctx context.Context, w *World) error {
	for _, node := range w.Nodes() {
		w.Step("replacing the pod of %s", node)
		err := errors.Join(w.Stop(ctx, node), w.ResetState(node), w.Start(ctx, node))
		if err != nil {
			return err
		}
		if err := w.await(ctx, ready, node+" is ready", func() error { return w.whole(ctx) }); err != nil {
			return err
		}
	}
	return nil
}
