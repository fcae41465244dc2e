package plan

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/vipod/vipod/elector/internal/config"
	"github.com/vipod/vipod/shared/schema"
)

func own(namespace, label string, ips ...string) Pod {
	return Pod{Namespace: namespace, Labels: map[string]string{"app": label}, IPs: addrs(ips...)}
}

func selecting(label string) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Spec.Selector = map[string]string{"app": label} }
}

// guardOf returns what holds unknown pods back, nil for nothing.
func guardOf(out Output) *schema.Guard {
	for _, doc := range out.Egress {
		if doc.Key == schema.EgressGuardKey {
			return doc.Guard
		}
	}
	return nil
}

func TestAPodIsKnownByItsLabelsBeforeItIsAnEndpoint(t *testing.T) {
	on := note(annotationEgress, "true")
	web := svc("shop/web", on, ips("198.51.100.80"), selecting("web"), note(annotationEgressPods, "app in (job,cron)"))
	in := egressWorld([]*corev1.Service{web}, slice(web, "v4", pod("203.0.113.2", "n1", true)))
	in.Pods = []Pod{own("shop", "web", "203.0.113.3"), own("shop", "job", "203.0.113.4", "2001:db8:0:2:1::4"), own("shop", "other", "203.0.113.5"),
		own("evil", "web", "203.0.113.6")}
	out := Plan(in)
	if diff := cmp.Diff("shop.web [203.0.113.2 203.0.113.3 203.0.113.4 2001:db8:0:2:1::4]", show(out.Egress[1:])); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	want := &schema.Guard{Networks: prefixes("203.0.113.0/28", "2001:db8:0:2:1::/80"), Known: addrs("203.0.113.5", "203.0.113.6")}
	if diff := cmp.Diff(want, guardOf(out), compareAddr); diff != "" {
		t.Errorf("guard (-want +got)\n%s", diff)
	}
}

func TestASelectorThatIsNoneHoldsTheServicesPodsBack(t *testing.T) {
	web := svc("shop/web", note(annotationEgress, "true"), ips("198.51.100.80"), note(annotationEgressPods, "app in job"))
	in := egressWorld([]*corev1.Service{web}, slice(web, "v4", pod("203.0.113.2", "n1", true)))
	out := Plan(in)
	if len(out.Egress) != 1 || out.Egress[0].Hold == "" || len(out.Refusals) != 1 {
		t.Errorf("documents %s, refusals %v", show(out.Egress), refusals(out))
	}
}

func TestUnknownPodsAreHeldBackWhereOneOfAServiceIsOrComes(t *testing.T) {
	for _, test := range []struct {
		name    string
		unknown config.UnknownPods
		pods    []Pod
		want    bool
	}{
		{"no pod of the Service", config.UnknownGuarded, []Pod{own("shop", "other", "203.0.113.5")}, false},
		{"a pod of the Service", config.UnknownGuarded, []Pod{own("shop", "web", "203.0.113.5")}, true},
		{"one on its way here", config.UnknownGuarded, []Pod{own("shop", "web")}, true},
		{"everywhere", config.UnknownHeld, []Pod{}, true},
		{"nowhere", config.UnknownFree, []Pod{own("shop", "web", "203.0.113.5")}, false},
		{"pods are not known", config.UnknownHeld, nil, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			web := svc("shop/web", note(annotationEgress, "true"), ips("198.51.100.80"), selecting("web"))
			in := egressWorld([]*corev1.Service{web}, slice(web, "v4", pod("203.0.113.18", "n2", true)))
			in.Pods, in.Config.Egress.Unknown = test.pods, test.unknown
			out := Plan(in)
			if got := guardOf(out) != nil; got != test.want || !out.FollowPods {
				t.Errorf("guard: %t, want %t; pods followed: %t", got, test.want, out.FollowPods)
			}
		})
	}
}

func TestNobodysPodsAreReadWithoutEgress(t *testing.T) {
	out := Plan(egressWorld([]*corev1.Service{svc("shop/web", ips("198.51.100.80"))}))
	if out.FollowPods || len(out.Egress) > 0 {
		t.Errorf("pods followed: %t, documents: %s", out.FollowPods, show(out.Egress))
	}
}

func TestTheGuardTakesTheNodesNetworksWithinThoseThatAreConfigured(t *testing.T) {
	web := svc("shop/web", note(annotationEgress, "true"), ips("198.51.100.80"))
	in := egressWorld([]*corev1.Service{web})
	in.Pods, in.Config.Egress = []Pod{}, config.Egress{Unknown: config.UnknownHeld, PodCIDRs: prefixes("203.0.113.0/25", "2001:db8:7::/64")}
	if diff := cmp.Diff(prefixes("203.0.113.0/28", "2001:db8:7::/64"), guardOf(Plan(in)).Networks, compareAddr); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestPodsOfOtherNodesAreNamedWhereTheyMayLeaveThroughThisOne(t *testing.T) {
	web := svc("shop/web", note(annotationEgress, "true"), note(annotationEgressAcross, "true"), ips("198.51.100.80"))
	in := egressWorld([]*corev1.Service{web}, slice(web, "v4", pod("203.0.113.18", "n2", true)))
	in.Pods, in.Config.Egress.Unknown = []Pod{own("shop", "web", "203.0.113.2")}, config.UnknownGuarded
	out := Plan(in)
	if diff := cmp.Diff("shop.web [] elsewhere [203.0.113.18]", show(out.Egress[1:])); diff != "" || !out.Across["shop.web"] {
		t.Errorf("(-want +got)\n%s", diff)
	}
	want := &schema.Guard{Networks: prefixes("203.0.113.0/28", "203.0.113.16/28", "2001:db8:0:2:1::/80", "2001:db8:0:2:2::/80"), Known: addrs("203.0.113.2")}
	if diff := cmp.Diff(want, guardOf(out), compareAddr); diff != "" {
		t.Errorf("guard (-want +got)\n%s", diff)
	}
	if v := out.VIPs[0]; !v.Eligible {
		t.Errorf("a node without a pod cannot own the VIP: %s", v.Why)
	}
}
