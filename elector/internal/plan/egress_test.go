package plan

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/vipod/vipod/elector/internal/config"
	"github.com/vipod/vipod/shared/schema"
)

// egressWorld is a world with Services whose slices are given.
func egressWorld(services []*corev1.Service, slices ...*discoveryv1.EndpointSlice) Input {
	in := world(services...)
	in.Slices = slices
	in.Nodes[0].PodCIDRs = prefixes("203.0.113.0/28", "2001:db8:0:2:1::/80")
	in.Nodes[1].PodCIDRs = prefixes("203.0.113.16/28", "2001:db8:0:2:2::/80")
	return in
}

// pod returns an endpoint with an address on a node, ready or not.
func pod(address, node string, ready bool) discoveryv1.Endpoint {
	p := point(node, ready, ready, false)
	p.Addresses = []string{address}
	return p
}

// show prints documents about egress, one a line.
func show(docs []*schema.Egress) string {
	var lines []string
	for _, d := range docs {
		line := fmt.Sprintf("%s %v", d.Key, d.Pods)
		for _, part := range []struct {
			name string
			set  bool
			what any
		}{
			{"elsewhere", len(d.Elsewhere) > 0, d.Elsewhere}, {"internal", d.Internal, ""}, {"ipv6only", d.IPv6Only, ""}, {"denied", len(d.Denied) > 0, d.Denied},
			{"allowed", len(d.Allowed) > 0, d.Allowed}, {"ports", len(d.Ports) > 0, d.Ports},
			{"flush", d.Flush != nil, d.Flush}, {"hold", d.Hold != "", d.Hold},
		} {
			if part.set {
				line += strings.TrimRight(fmt.Sprintf(" %s %v", part.name, part.what), " ")
			}
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

func TestEgressDocuments(t *testing.T) {
	on := note(annotationEgress, "true")
	refused := "refusal shop/web EgressRefused: its pods are held back: "
	for _, test := range []struct {
		name     string
		changes  []func(*corev1.Service)
		want     string
		refusals []string
	}{
		{"off", []func(*corev1.Service){note(annotationEgress, "false")}, "", nil},
		{"this node's pods, ready or not", []func(*corev1.Service){on}, "shop.web [203.0.113.2 203.0.113.3 2001:db8:0:2:1::2]", nil},
		{"networks and ports", []func(*corev1.Service){on, note(annotationEgressDeny, " 192.0.2.0/24, 2001:db8:9::/48,192.0.2.7/24"),
			note(annotationEgressAllow, "198.51.100.9"), note(annotationEgressPorts, "tcp:443, UDP:53,8080,sctp:132")},
			"shop.web [203.0.113.2 203.0.113.3 2001:db8:0:2:1::2] denied [192.0.2.0/24 2001:db8:9::/48] allowed [198.51.100.9/32] ports [{TCP 443} {UDP 53} {TCP 8080} {SCTP 132}]", nil},
		{"the API server", []func(*corev1.Service){on, note(annotationEgressAPI, "true")},
			"shop.web [203.0.113.2 203.0.113.3 2001:db8:0:2:1::2] denied [198.51.100.250/32]", nil},
		{"not the API server", []func(*corev1.Service){on, note(annotationEgressAPI, "false")}, "shop.web [203.0.113.2 203.0.113.3 2001:db8:0:2:1::2]", nil},
		{"inside too", []func(*corev1.Service){on, note(annotationEgressInside, "true"), note(annotationEgressIPv6, "true")},
			"shop.web [203.0.113.2 203.0.113.3 2001:db8:0:2:1::2] internal ipv6only", nil},
		{"forgetting", []func(*corev1.Service){on, note(annotationFlush, "true"), note(annotationEgressSource, "udp:5000")},
			"shop.web [203.0.113.2 203.0.113.3 2001:db8:0:2:1::2] flush &{[{UDP 5000}] []}", nil},
		{"a port that is none", []func(*corev1.Service){on, note(annotationEgressPorts, "tcp:https")},
			`shop.web [203.0.113.2 203.0.113.3 2001:db8:0:2:1::2] hold annotation kube-vip.io/egress-destination-ports: "tcp:https" is no port: want such as tcp:443, udp:53 or sctp:132`,
			[]string{refused + `annotation kube-vip.io/egress-destination-ports: "tcp:https" is no port: want such as tcp:443, udp:53 or sctp:132`}},
		{"a network that is none", []func(*corev1.Service){on, note(annotationEgressAllow, "192.0.2.0/24,10.0.0")},
			`shop.web [203.0.113.2 203.0.113.3 2001:db8:0:2:1::2] hold annotation kube-vip.io/egress-allowed-networks: "10.0.0" is no network`,
			[]string{refused + `annotation kube-vip.io/egress-allowed-networks: "10.0.0" is no network`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			web := svc("shop/web", append(test.changes, ips("198.51.100.80"))...)
			out := Plan(egressWorld([]*corev1.Service{web}, slice(web, "v4", pod("203.0.113.2", "n1", true), pod("203.0.113.18", "n2", true)),
				slice(web, "b", pod("203.0.113.3", "n1", false), pod("2001:db8:0:2:1::2", "n1", true))))
			if diff := cmp.Diff(test.want, show(out.Egress)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if diff := cmp.Diff(test.refusals, refusals(out)); diff != "" {
				t.Errorf("refusals (-want +got)\n%s", diff)
			}
			for _, d := range out.Egress {
				if err := d.Validate(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func refusals(out Output) (lines []string) {
	for _, r := range out.Refusals {
		lines = append(lines, fmt.Sprintf("refusal %s/%s %s: %s", r.Namespace, r.Name, r.Reason, r.Message))
	}
	return lines
}

func TestAPodLeavesWithTheOldestService(t *testing.T) {
	on := note(annotationEgress, "true")
	a, b := svc("shop/a", on, ips("198.51.100.80")), svc("evil/b", on, ips("198.51.100.81"))
	out := Plan(egressWorld([]*corev1.Service{b, a}, slice(b, "v4", pod("203.0.113.2", "n1", true), pod("203.0.113.3", "n1", true)),
		slice(a, "v4", pod("203.0.113.2", "n1", true))))
	if diff := cmp.Diff("evil.b [203.0.113.3]\nshop.a [203.0.113.2]", show(out.Egress)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	want := []string{"refusal evil/b EgressConflict: pod 203.0.113.2 leaves with the VIP of Service shop/a, which is older"}
	if diff := cmp.Diff(want, refusals(out)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestEgressNeedsAPodNetwork(t *testing.T) {
	web := svc("shop/web", note(annotationEgress, "true"), ips("198.51.100.80"))
	in := egressWorld([]*corev1.Service{web}, slice(web, "v4", pod("203.0.113.2", "n1", true), pod("198.51.100.1", "n1", true)))
	in.Nodes[0].PodCIDRs, in.Nodes[1].PodCIDRs = nil, nil
	out := Plan(in)
	if len(out.Egress) != 1 || !strings.Contains(out.Egress[0].Hold, "set egress_podcidr") || len(out.Egress[0].Pods) != 1 {
		t.Errorf("without a network: %s", show(out.Egress))
	}
	if diff := cmp.Diff([]string{
		"refusal shop/web EgressRefused: the pod at 198.51.100.1 is on its node's network and leaves with the node's address",
		"refusal shop/web EgressRefused: its pods are held back: no IPv4 network of pods is known, so that what stays inside of the cluster cannot be told: set egress_podcidr",
	}, refusals(out)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	in.Config.Egress.PodCIDRs = prefixes("203.0.113.0/25")
	in.Config.Services.CIDRs = prefixes("203.0.113.128/25")
	out = Plan(in)
	if diff := cmp.Diff(prefixes("203.0.113.0/25", "203.0.113.128/25"), out.Internal, compareAddr); diff != "" || out.Egress[0].Hold != "" {
		t.Errorf("configured: hold %q (-want +got)\n%s", out.Egress[0].Hold, diff)
	}
}

func TestEgressNeedsAnOwner(t *testing.T) {
	web := svc("shop/web", note(annotationEgress, "true"), ips("198.51.100.80"))
	in := egressWorld([]*corev1.Service{web}, slice(web, "v4", pod("203.0.113.2", "n1", true)))
	in.Config.Mode = config.ModeBGP
	if out := Plan(in); len(out.Egress) != 1 || !strings.Contains(out.Egress[0].Hold, "svc_election") {
		t.Errorf("without an election: %s", show(out.Egress))
	}
	in.Config.Elect.Services = true
	if out := Plan(in); len(out.Egress) != 1 || out.Egress[0].Hold != "" {
		t.Errorf("with an election: %s", show(out.Egress))
	}
}

func TestServicesThatNeedEgressdLiveWhereItWorks(t *testing.T) {
	web := svc("shop/web", note(annotationEgress, "true"), ips("198.51.100.80"))
	plain := svc("shop/xen", ips("198.51.100.81"))
	in := egressWorld([]*corev1.Service{web, plain}, slice(web, "v4", pod("203.0.113.2", "n1", true)), slice(plain, "v4", at("n1")))
	eligible := func() (list []bool) {
		for _, v := range Plan(in).VIPs {
			list = append(list, v.Eligible)
		}
		return list
	}
	if diff := cmp.Diff([]bool{true, true}, eligible()); diff != "" {
		t.Errorf("egressd works (-want +got)\n%s", diff)
	}
	in.NoEgressd = "egressd does not answer"
	if diff := cmp.Diff([]bool{false, true}, eligible()); diff != "" {
		t.Errorf("no egressd (-want +got)\n%s", diff)
	}
	in.Config.Services.Firewall = true
	if diff := cmp.Diff([]bool{false, false}, eligible()); diff != "" {
		t.Errorf("no egressd, and a firewall (-want +got)\n%s", diff)
	}
	in.NoEgressd = ""
	in.Slices[0].Endpoints = []discoveryv1.Endpoint{pod("203.0.113.18", "n2", true)}
	if diff := cmp.Diff([]bool{false, true}, eligible()); diff != "" {
		t.Errorf("the pod is on another node (-want +got)\n%s", diff)
	}
}

func TestFirewallSections(t *testing.T) {
	web := svc("shop/web", ips("198.51.100.80"), func(s *corev1.Service) {
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Port: 132, Protocol: corev1.ProtocolSCTP})
	})
	free := svc("shop/xen", ips("198.51.100.81"), note(annotationNoFirewall, "true"))
	in := world(web, free)
	for _, v := range Plan(in).VIPs {
		if v.Firewall != nil {
			t.Errorf("%s has a firewall although it is off", v.Key)
		}
	}
	in.Config.Services.Firewall = true
	out := Plan(in)
	want := []*schema.Firewall{
		{Ports: []schema.Port{{Protocol: schema.TCP, Port: 80}, {Protocol: schema.SCTP, Port: 132}}},
		{Ports: []schema.Port{{Protocol: schema.TCP, Port: 80}}, Open: true},
	}
	for i, v := range out.VIPs {
		if diff := cmp.Diff(want[i], v.Firewall); diff != "" {
			t.Errorf("%s (-want +got)\n%s", v.Key, diff)
		}
	}
}

func FuzzEgressAnnotations(f *testing.F) {
	for _, seed := range []string{"", "8080", "tcp:443,udp:53", "sctp:", ":", "tcp:0", "tcp:65536", ",,", "192.0.2.0/24", "::/0",
		"::ffff:192.0.2.1", "fe80::1%eth0", "192.0.2.1/33", "tcp:443:1", "a\nb", strings.Repeat("tcp:1,", 70)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		web := svc("shop/web", note(annotationEgress, "true"), ips("198.51.100.80"), note(annotationEgressPorts, text),
			note(annotationEgressAllow, text), note(annotationEgressDeny, text), note(annotationEgressSource, text), note(annotationFlush, "true"))
		out := Plan(egressWorld([]*corev1.Service{web}, slice(web, "v4", pod("203.0.113.2", "n1", true))))
		if len(out.Egress) != 1 || len(out.Egress[0].Pods) != 1 || out.Egress[0].Pods[0] != netip.MustParseAddr("203.0.113.2") {
			t.Fatalf("the pod is not looked after: %s", show(out.Egress))
		}
		if err := out.Egress[0].Validate(); err != nil {
			t.Fatal(err)
		}
		if (out.Egress[0].Hold != "") != (len(out.Refusals) > 0) {
			t.Fatalf("hold %q, refusals %v", out.Egress[0].Hold, refusals(out))
		}
	})
}
