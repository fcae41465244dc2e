package e2e

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"github.com/vipod/vipod/deploy/lab"
)

// What vipod writes at Services and Leases.
const (
	annotationHost   = "kube-vip.io/vipHost"
	annotationIgnore = "kube-vip.io/ignore"
	annotationGroup  = "kube-vip.io/leaseName"
	annotationIdle   = "kube-vip.io/allow-reconcile-without-endpoints"
	annotationClaims = "kube-vip.io/lease-vips"
	controlPlane     = "plndr-cp-lock"
)

// create makes a Service that ends with the test.
func (e *env) create(spec lab.ServiceSpec) *corev1.Service {
	e.t.Helper()
	e.services = append(e.services, spec.Name)
	service, err := e.CreateService(e.ctx, spec)
	e.must(err)
	return service
}

// served makes a Service with all pods behind it and returns the node that
// owns it once both families answer.
func (e *env) served(name string, vip lab.Addrs) string {
	e.t.Helper()
	e.create(lab.ServiceSpec{Name: name, VIPs: vip.Slice(), Pods: e.allPods()})
	owner := e.owned(name)
	for _, ip := range vip.Slice() {
		e.answers(ip, 80)
	}
	return owner
}

// servedByOthers is served with no pod on the owner. What a client loses with
// a pod of a node that is cut off says nothing about the address.
func (e *env) servedByOthers(name string, vip lab.Addrs) string {
	e.t.Helper()
	owner := e.served(name, vip)
	var pods []string
	for _, node := range e.others(owner) {
		pods = append(pods, podOf(node))
	}
	e.must(e.SetEndpoints(e.ctx, name, pods...))
	time.Sleep(2 * time.Second) // kube-proxy follows once a second
	return owner
}

// removeAll deletes the test's Services and checks that nothing of them is
// left.
func (e *env) removeAll() {
	e.t.Helper()
	var addrs []netip.Addr
	// The newest first: it may wait for an older one's address.
	for _, name := range slices.Backward(e.services) {
		service, err := e.Client().CoreV1().Services(metav1.NamespaceDefault).Get(e.ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err == nil {
			addrs = append(addrs, ingress(service)...)
			err = e.DeleteService(e.ctx, name)
		}
		if err != nil {
			e.t.Errorf("removing Service %s: %v", name, err)
		}
	}
	for _, ip := range addrs {
		e.within(soon, ip.String()+" is gone with its Service", func() error { return e.nowhere(ip) })
	}
}

// service returns a Service as it is.
func (e *env) service(name string) *corev1.Service {
	e.t.Helper()
	service, err := e.Client().CoreV1().Services(metav1.NamespaceDefault).Get(e.ctx, name, metav1.GetOptions{})
	e.must(err)
	if service.Annotations == nil {
		service.Annotations = map[string]string{}
	}
	return service
}

// change changes a Service.
func (e *env) change(name string, change func(*corev1.Service)) {
	e.t.Helper()
	client := e.Client().CoreV1().Services(metav1.NamespaceDefault)
	e.must(retry.RetryOnConflict(retry.DefaultRetry, func() error {
		service, err := client.Get(e.ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if service.Annotations == nil {
			service.Annotations = map[string]string{}
		}
		change(service)
		_, err = client.Update(e.ctx, service, metav1.UpdateOptions{})
		return err
	}))
}

// annotate sets an annotation of a Service, or removes it with "".
func (e *env) annotate(name, key, value string) {
	e.t.Helper()
	e.change(name, func(s *corev1.Service) {
		if value == "" {
			delete(s.Annotations, key)
			return
		}
		s.Annotations[key] = value
	})
}

// ingress returns the addresses in a Service's status.
func ingress(s *corev1.Service) []netip.Addr {
	var addrs []netip.Addr
	for _, i := range s.Status.LoadBalancer.Ingress {
		if a, err := netip.ParseAddr(i.IP); err == nil {
			addrs = append(addrs, a)
		}
	}
	return addrs
}

// owned waits until a Service has an owner and returns it.
func (e *env) owned(name string) string {
	e.t.Helper()
	return e.moved(name, "")
}

// moved waits until a Service has another owner than this one.
func (e *env) moved(name, from string) (owner string) {
	e.t.Helper()
	limit := soon
	if from != "" {
		limit = takeover + soon // of the status alone; who answers is asked elsewhere
	}
	e.within(limit, fmt.Sprintf("Service %s has an owner other than %q", name, from), func() (err error) {
		owner, err = e.Owner(e.ctx, name)
		if err == nil && (owner == "" || owner == from) {
			err = fmt.Errorf("it is %q", owner)
		}
		return err
	})
	return owner
}

// stays fails the test unless a Service has this owner.
func (e *env) stays(name, owner string) {
	e.t.Helper()
	got, err := e.Owner(e.ctx, name)
	e.must(err)
	if got != owner {
		e.t.Errorf("Service %s is on %q, want it to stay on %s", name, got, owner)
	}
}

// unserved returns an error while a Service's status says anything.
func (e *env) unserved(name string) error {
	s := e.service(name)
	if len(s.Status.LoadBalancer.Ingress) > 0 || s.Annotations[annotationHost] != "" {
		return fmt.Errorf("host %q, status %v", s.Annotations[annotationHost], s.Status.LoadBalancer.Ingress)
	}
	return nil
}

// answers waits until a pod answers at an address, from the client.
func (e *env) answers(ip netip.Addr, port uint16) lab.Answer {
	e.t.Helper()
	var answer lab.Answer
	addr := netip.AddrPortFrom(ip, port)
	e.within(soon, addr.String()+" answers", func() (err error) {
		answer, err = e.Get(e.ctx, "client", addr)
		return err
	})
	return answer
}

// events returns the Events about a Service, "Reason: message" each.
func (e *env) events(service string) []string {
	e.t.Helper()
	list, err := e.Client().CoreV1().Events(metav1.NamespaceDefault).List(e.ctx, metav1.ListOptions{
		FieldSelector: "involvedObject.kind=Service,involvedObject.name=" + service,
	})
	e.must(err)
	var texts []string
	for _, event := range list.Items {
		texts = append(texts, event.Reason+": "+event.Message)
	}
	return texts
}

// told waits for an Event about a Service with all of the words.
func (e *env) told(d time.Duration, service string, words ...string) {
	e.t.Helper()
	e.within(d, fmt.Sprintf("an Event about %s with %q", service, words), func() error {
		events := e.events(service)
		for _, event := range events {
			if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(event, w) }) {
				return nil
			}
		}
		return fmt.Errorf("have %q", events)
	})
}

// lease returns a Lease of the namespace in which vipod's are.
func (e *env) lease(name string) *coordinationv1.Lease {
	e.t.Helper()
	lease, err := e.Client().CoordinationV1().Leases(lab.Namespace).Get(e.ctx, name, metav1.GetOptions{})
	e.must(err)
	return lease
}

// changeLease changes a Lease as a person would by hand.
func (e *env) changeLease(name string, change func(*coordinationv1.Lease)) {
	e.t.Helper()
	client := e.Client().CoordinationV1().Leases(lab.Namespace)
	e.within(soon, "Lease "+name+" is changed by hand", func() error {
		lease, err := client.Get(e.ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		change(lease)
		_, err = client.Update(e.ctx, lease, metav1.UpdateOptions{})
		return err
	})
}
