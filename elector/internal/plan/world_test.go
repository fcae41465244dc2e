package plan

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vipod/vipod/elector/internal/config"
	"github.com/vipod/vipod/shared/schema"
)

var compareAddr = cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{})

// born is when the world of the tests began; Services are created after it.
var born = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// world returns an Input in which node n1 of three serves on eth0.
func world(services ...*corev1.Service) Input {
	in := Input{
		Config: &config.Config{
			NodeName: "n1",
			Subnet:   config.Subnet{IPv4: 32, IPv6: 128},
			Services: config.Services{Enabled: true, Class: "kube-vip.io/kube-vip-class", ClassLegacy: true},
		},
		Services: services,
		Nodes: []Node{
			{Name: "n1", Addresses: addrs("198.51.100.1", "2001:db8::1")},
			{Name: "n2", Addresses: addrs("198.51.100.2", "2001:db8::2")},
			{Name: "n3", Addresses: addrs("198.51.100.3", "2001:db8::3")},
		},
		Links: []schema.Link{
			{Name: "lo", Index: 1, Up: true, Addresses: prefixes("127.0.0.1/8", "::1/128")},
			{Name: "eth0", Index: 2, Up: true, DefaultIPv4: true, DefaultIPv6: true,
				Addresses: prefixes("198.51.100.1/24", "2001:db8::1/64")},
			{Name: "eth1", Index: 3, Up: true, Addresses: prefixes("203.0.113.1/24")},
			{Name: "eth2", Index: 4, Addresses: prefixes("192.0.2.1/24")},
		},
		APIServers: addrs("198.51.100.250"),
		Healthy:    true,
	}
	for _, s := range services {
		in.Slices = append(in.Slices, slice(s, "v4", at("n1"), at("n2"), at("n3")))
	}
	return in
}

// svc returns a Service "namespace/name" that is the older the earlier its
// name is in the alphabet, with changes applied.
func svc(path string, changes ...func(*corev1.Service)) *corev1.Service {
	ns, n, _ := strings.Cut(path, "/")
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: ns, Name: n, UID: types.UID("uid-" + n), Annotations: map[string]string{},
			CreationTimestamp: metav1.NewTime(born.Add(time.Duration(n[0]) * time.Second)),
		},
		Spec: corev1.ServiceSpec{
			Type:                  corev1.ServiceTypeLoadBalancer,
			ExternalTrafficPolicy: corev1.ServiceExternalTrafficPolicyCluster,
			IPFamilies:            []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol},
			Ports:                 []corev1.ServicePort{{Port: 80, Protocol: corev1.ProtocolTCP}},
		},
	}
	for _, change := range changes {
		change(s)
	}
	return s
}

func note(annotation, value string) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Annotations[annotation] = value }
}

func ips(list string) func(*corev1.Service) { return note(annotationAddresses, list) }

func onPort(port int32) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Spec.Ports[0].Port = port }
}

func local(s *corev1.Service) {
	s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
}

// slice returns an EndpointSlice of a Service.
func slice(s *corev1.Service, suffix string, points ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.Namespace, Name: s.Name + "-" + suffix,
			Labels: map[string]string{discoveryv1.LabelServiceName: s.Name},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   points,
	}
}

// at returns a ready endpoint on a node.
func at(node string) discoveryv1.Endpoint { return point(node, true, true, false) }

func point(node string, ready, serving, terminating bool) discoveryv1.Endpoint {
	e := discoveryv1.Endpoint{
		Addresses:  []string{"10.1.1.1"},
		Conditions: discoveryv1.EndpointConditions{Ready: &ready, Serving: &serving, Terminating: &terminating},
	}
	if node != "" {
		e.NodeName = &node
	}
	return e
}

func addrs(texts ...string) []netip.Addr {
	var all []netip.Addr
	for _, t := range texts {
		all = append(all, netip.MustParseAddr(t))
	}
	return all
}

func prefixes(texts ...string) []netip.Prefix {
	var all []netip.Prefix
	for _, t := range texts {
		all = append(all, netip.MustParsePrefix(t))
	}
	return all
}

// text prints what a test compares: VIPs, groups and refusals, one a line.
func (o Output) text() string {
	var lines []string
	for _, v := range o.VIPs {
		lines = append(lines, v.text())
	}
	for i, g := range o.Groups {
		lines = append(lines, fmt.Sprintf("group %d %v eligible=%t candidates=%s", i, g.Addresses, g.Eligible, list(g.Candidates)))
	}
	for _, r := range o.Refusals {
		lines = append(lines, fmt.Sprintf("refusal %s/%s %s: %s", r.Namespace, r.Name, r.Reason, r.Message))
	}
	return strings.Join(lines, "\n")
}

func (v VIP) text() string {
	var where []string
	for _, a := range v.Addresses {
		where = append(where, a.Prefix().String()+"@"+a.Interface)
	}
	line := fmt.Sprintf("%s %s group=%d", v.Key, strings.Join(where, ","), v.Group)
	if v.Eligible {
		return line + " eligible"
	}
	return line + " not here: " + v.Why
}

func list(candidates []string) string {
	if candidates == nil {
		return "any"
	}
	return strings.Join(candidates, ",")
}

// check compares a plan with lines of text, of which indentation does not
// count.
func check(t *testing.T, in Input, want string) {
	t.Helper()
	var lines []string
	for line := range strings.Lines(want) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	if diff := cmp.Diff(strings.Join(lines, "\n"), Plan(in).text()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
