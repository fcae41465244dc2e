package e2e

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/vipod/vipod/deploy/lab"
	"github.com/vipod/vipod/shared/ownership"
)

// ourClass is the default of lb_class_name.
const ourClass = "kube-vip.io/kube-vip-class"

// maxLife is the longest that an address may live without vipod, in seconds.
const maxLife = 120

func TestE2EServiceGetsItsAddresses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		want func(lab.Addrs) []netip.Addr
		// field asks by spec.loadBalancerIP, which holds one address.
		field bool
	}{
		{"v4", func(a lab.Addrs) []netip.Addr { return []netip.Addr{a.V4} }, false},
		{"v6", func(a lab.Addrs) []netip.Addr { return []netip.Addr{a.V6} }, false},
		{"dual", lab.Addrs.Slice, false},
		{"field-v4", func(a lab.Addrs) []netip.Addr { return []netip.Addr{a.V4} }, true},
		{"field-v6", func(a lab.Addrs) []netip.Addr { return []netip.Addr{a.V6} }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := beside(t)
			addrs, name := c.want(e.vip()), "addr-"+c.name
			spec := lab.ServiceSpec{Name: name, Pods: e.allPods()}
			if c.field {
				spec.Change = func(s *corev1.Service) { s.Spec.LoadBalancerIP = addrs[0].String() }
			} else {
				spec.VIPs = addrs
			}
			e.create(spec)
			owner := e.owned(name)
			// At once: the status comes after the address, never before.
			for _, ip := range addrs {
				e.inKernel(owner, ip)
			}
			e.hasStatus(name, owner, addrs)
			for _, ip := range addrs {
				e.must(e.only(owner, ip))
				e.answers(ip, 80)
			}
			e.told(soon, name, "VIPActive", owner, join(addrs[:1]))
		})
	}
}

// inKernel checks an address on its owner: vipod's mark, a host's prefix, no
// connection from it by choice of the kernel (preferred lifetime 0), an end if
// vipod dies, no duplicate address detection.
func (e *env) inKernel(node string, ip netip.Addr) {
	e.t.Helper()
	a, ok := e.address(node, ip)
	if !ok {
		e.t.Fatalf("%s is not in the kernel of %s", ip, node)
	}
	// A life is prolonged when half of it is over.
	if a.Protocol != protocol || a.Prefix.Bits() != ip.BitLen() || a.Preferred != 0 || a.Valid < maxLife/2-10 || a.Valid > maxLife {
		e.t.Errorf("%s on %s: protocol %d, prefix length %d, preferred %d, valid %d; want %d, %d, 0, about half of %d or more",
			ip, node, a.Protocol, a.Prefix.Bits(), a.Preferred, a.Valid, protocol, ip.BitLen(), maxLife)
	}
	if ip.Is6() && a.Flags&(unix.IFA_F_NODAD|unix.IFA_F_TENTATIVE) != unix.IFA_F_NODAD {
		e.t.Errorf("%s on %s has flags %#x, want nodad and not tentative", ip, node, a.Flags)
	}
}

// hasStatus checks what the Service says: every address with mode VIP and the
// Service's ports, and the node.
func (e *env) hasStatus(name, owner string, addrs []netip.Addr) {
	e.t.Helper()
	s := e.service(name)
	mode := corev1.LoadBalancerIPModeVIP
	var ports []corev1.PortStatus
	for _, p := range s.Spec.Ports {
		ports = append(ports, corev1.PortStatus{Port: p.Port, Protocol: p.Protocol})
	}
	var want []corev1.LoadBalancerIngress
	for _, ip := range slices.SortedFunc(slices.Values(addrs), netip.Addr.Compare) {
		want = append(want, corev1.LoadBalancerIngress{IP: ip.String(), IPMode: &mode, Ports: ports})
	}
	if diff := cmp.Diff(want, s.Status.LoadBalancer.Ingress); diff != "" {
		e.t.Errorf("status of %s (-want +got):\n%s", name, diff)
	}
	if host := s.Annotations[annotationHost]; host != owner {
		e.t.Errorf("%s of %s is %q, want %s", annotationHost, name, host, owner)
	}
}

func TestE2EStatusWaitsForTheAddress(t *testing.T) {
	e := begin(t)
	vip, name := e.vip(), "waiting"
	for _, node := range e.Nodes() {
		e.must(e.Pause(node, ownership.Vipd))
	}
	e.during(vip, func() {
		e.create(lab.ServiceSpec{Name: name, VIPs: vip.Slice(), Pods: e.allPods()})
		e.holds(calm, "without the address there is no status", func() error { return e.unserved(name) })
		for _, node := range e.Nodes() {
			e.must(e.Resume(node, ownership.Vipd))
		}
		owner := e.owned(name)
		e.must(firstError(e.only(owner, vip.V4), e.only(owner, vip.V6)))
	}).changedHands(0)
}

func TestE2EServiceThatNoLongerAsksIsCleared(t *testing.T) {
	e := beside(t)
	vip, name := e.vip(), "leaving"
	e.served(name, vip)
	for _, c := range []struct {
		what       string
		away, back func(*corev1.Service)
	}{
		{"ignored",
			func(s *corev1.Service) { s.Annotations[annotationIgnore] = "true" },
			func(s *corev1.Service) { delete(s.Annotations, annotationIgnore) }},
		{"of type ClusterIP",
			func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeClusterIP },
			func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeLoadBalancer }},
		{"of another class", // a class can only be changed with the type
			toClass("example.org/other"), toClass(ourClass)},
		{"without addresses",
			func(s *corev1.Service) { delete(s.Annotations, lab.AnnotationVIPs) },
			func(s *corev1.Service) { s.Annotations[lab.AnnotationVIPs] = join(vip.Slice()) }},
	} {
		e.reshape(name, c.away)
		took := e.within(soon, "the Service is cleared when "+c.what, func() error {
			for _, ip := range vip.Slice() {
				if err := e.nowhere(ip); err != nil {
					return err
				}
			}
			return e.unserved(name)
		})
		e.reshape(name, c.back)
		owner := e.owned(name)
		e.hasStatus(name, owner, vip.Slice())
		e.answers(vip.V4, 80)
		e.answers(vip.V6, 80)
		t.Logf("%s: cleared after %v, and back", c.what, took)
	}
	e.must(e.DeleteService(e.ctx, name))
	e.within(soon, "the addresses are gone with the Service", func() error {
		return firstError(e.nowhere(vip.V4), e.nowhere(vip.V6))
	})
	e.unharmed()
}

// toClass returns the change to a Service of this class.
func toClass(class string) func(*corev1.Service) {
	return func(s *corev1.Service) {
		s.Spec.Type, s.Spec.LoadBalancerClass = corev1.ServiceTypeLoadBalancer, &class
	}
}

// reshape changes what a Service is. A class can be set only together with
// the type, so the Service is of type ClusterIP for a moment.
func (e *env) reshape(name string, change func(*corev1.Service)) {
	e.t.Helper()
	now := e.service(name)
	then := now.DeepCopy()
	change(then)
	if !reflect.DeepEqual(now.Spec.LoadBalancerClass, then.Spec.LoadBalancerClass) {
		e.change(name, func(s *corev1.Service) { s.Spec.Type, s.Spec.LoadBalancerClass = corev1.ServiceTypeClusterIP, nil })
	}
	e.change(name, change)
}

func TestE2EEditedAddressReplacesTheOldOne(t *testing.T) {
	e := beside(t)
	vips, name := e.vips(2), "edited"
	e.served(name, vips[0])
	e.annotate(name, lab.AnnotationVIPs, join(vips[1].Slice()))
	for _, ip := range vips[1].Slice() {
		e.answers(ip, 80)
	}
	e.within(soon, "the old addresses are gone", func() error {
		return firstError(e.nowhere(vips[0].V4), e.nowhere(vips[0].V6))
	})
	e.within(soon, "the status has the new addresses", func() error {
		if got := ingress(e.service(name)); !slices.Equal(got, vips[1].Slice()) {
			return fmt.Errorf("it has %v", got)
		}
		return nil
	})
}

func TestE2EOneOfTwoAddressesEditedLeavesTheOther(t *testing.T) {
	e := beside(t)
	vips, name := e.vips(2), "half"
	owner := e.served(name, vips[0])
	removed := e.watchRemovals(owner)
	e.watch(targets(vips[0].V6), func() {
		e.annotate(name, lab.AnnotationVIPs, join([]netip.Addr{vips[1].V4, vips[0].V6}))
		e.answers(vips[1].V4, 80)
		e.within(soon, "the old address is gone", func() error { return e.nowhere(vips[0].V4) })
	}).changedHands(0).lost(0)
	e.untouched(removed, vips[0].V6)
	e.stays(name, owner)
}

func TestE2EChangedPortLeavesTheAddressAlone(t *testing.T) {
	e := beside(t)
	vip, name := e.vip(), "ported"
	owner := e.served(name, vip)
	removed := e.watchRemovals(owner)
	e.during(vip, func() {
		e.change(name, func(s *corev1.Service) {
			s.Spec.Ports[0].Port, s.Spec.Ports[0].TargetPort = 8000, intstr.FromInt32(lab.HTTPPort)
		})
		e.answers(vip.V4, 8000)
		e.answers(vip.V6, 8000)
		e.within(soon, "the status has the new port", func() error {
			return want("the port", e.service(name).Status.LoadBalancer.Ingress[0].Ports[0].Port, 8000)
		})
	}).changedHands(0).lost(0)
	e.untouched(removed, vip.Slice()...)
	e.hasStatus(name, owner, vip.Slice())
	e.unharmed()
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
