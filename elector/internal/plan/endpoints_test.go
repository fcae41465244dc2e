package plan

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

func TestEndpointsDecideWhoServes(t *testing.T) {
	bare := func(node string, c discoveryv1.EndpointConditions) discoveryv1.Endpoint {
		return discoveryv1.Endpoint{NodeName: &node, Conditions: c}
	}
	yes, no := true, false
	web := svc("shop/web", ips("198.51.100.80"))
	v6 := slice(web, "v6", at("n1"))
	v6.AddressType = discoveryv1.AddressTypeIPv6
	fqdn := slice(web, "fqdn", at("n1"))
	fqdn.AddressType = discoveryv1.AddressTypeFQDN
	other := slice(svc("shop/other"), "v4", at("n1"))
	elsewhere := slice(svc("pub/web"), "v4", at("n1"))
	unlabelled := slice(web, "v4", at("n1"))
	unlabelled.Labels = nil

	const (
		none     = "no endpoint of the Service serves on any node"
		nameless = "no endpoint that serves names its node, as externalTrafficPolicy Local and egress need"
		notHere  = "no endpoint of the Service serves on node n1"
	)
	for _, test := range []struct {
		name string
		// of policy Cluster, and of policy Local: why not on n1.
		cluster, local string
		// candidates are those of policy Local.
		candidates string
		slices     []*discoveryv1.EndpointSlice
	}{
		{"no slice", none, none, "any", nil},
		{"an empty slice", none, none, "any", []*discoveryv1.EndpointSlice{slice(web, "a")}},
		{"ready here and there", "", "", "n1,n2", []*discoveryv1.EndpointSlice{slice(web, "a", at("n2"), at("n1"), at("n1"))}},
		{"ready elsewhere only", "", notHere, "n2", []*discoveryv1.EndpointSlice{slice(web, "a", at("n2"))}},
		{"several slices of one family", "", "", "n1,n2", []*discoveryv1.EndpointSlice{slice(web, "a", at("n2")), slice(web, "b"), slice(web, "c", at("n1"))}},
		{"IPv6 slices count", "", "", "n1", []*discoveryv1.EndpointSlice{v6}},
		{"host names do not", none, none, "any", []*discoveryv1.EndpointSlice{fqdn}},
		{"another Service's do not", none, none, "any", []*discoveryv1.EndpointSlice{other, elsewhere, unlabelled}},
		{"not ready", none, none, "any", []*discoveryv1.EndpointSlice{slice(web, "a", point("n1", false, false, false))}},
		{"unknown ready is ready", "", "", "n1", []*discoveryv1.EndpointSlice{slice(web, "a", bare("n1", discoveryv1.EndpointConditions{}))}},
		{"unknown serving is as ready", none, none, "any", []*discoveryv1.EndpointSlice{
			slice(web, "a", bare("n1", discoveryv1.EndpointConditions{Ready: &no, Terminating: &yes}))}},
		{"serving and not known to terminate", none, none, "any", []*discoveryv1.EndpointSlice{
			slice(web, "a", bare("n1", discoveryv1.EndpointConditions{Ready: &no, Serving: &yes}))}},
		{"serving while terminating, none ready", "", "", "n1", []*discoveryv1.EndpointSlice{slice(web, "a", point("n1", false, true, true))}},
		{"terminating without serving", none, none, "any", []*discoveryv1.EndpointSlice{slice(web, "a", point("n1", false, false, true))}},
		{"terminating here, ready elsewhere", "", notHere, "n2", []*discoveryv1.EndpointSlice{slice(web, "a", point("n1", false, true, true), at("n2"))}},
		{"no node named", "", nameless, "any", []*discoveryv1.EndpointSlice{slice(web, "a", at(""))}},
		{"a ready one without a node, a leaving one here", "", "", "n1", []*discoveryv1.EndpointSlice{slice(web, "a", at(""), point("n1", false, true, true))}},
	} {
		for policy, want := range map[corev1.ServiceExternalTrafficPolicy]string{
			corev1.ServiceExternalTrafficPolicyCluster: test.cluster, "": test.cluster, corev1.ServiceExternalTrafficPolicyLocal: test.local,
		} {
			t.Run(test.name+", policy "+string(policy), func(t *testing.T) {
				s := web.DeepCopy()
				s.Spec.ExternalTrafficPolicy = policy
				in := world(s)
				in.Slices = test.slices
				v := Plan(in).VIPs[0]
				if v.Why != want || v.Eligible != (want == "") || (v.Group == NoGroup) != (want == none || want == nameless) {
					t.Errorf("eligible=%t group=%d why=%q, want %q", v.Eligible, v.Group, v.Why, want)
				}
				candidates := "any"
				if policy == corev1.ServiceExternalTrafficPolicyLocal {
					candidates = test.candidates
				}
				if got := list(v.Candidates); got != candidates {
					t.Errorf("candidates %s, want %s", got, candidates)
				}
			})
		}
	}
}

func TestEndpointlessServiceIsServedWithPolicyClusterOnly(t *testing.T) {
	in := world(svc("shop/web", ips("198.51.100.80"), note(annotationEndpointless, "True")),
		svc("shop/z", ips("198.51.100.81"), note(annotationEndpointless, "true"), local))
	in.Slices = nil
	check(t, in, `
		shop.web 198.51.100.80/32@eth0 group=0 eligible
		shop.z 198.51.100.81/32@eth0 group=-1 not here: no endpoint of the Service serves on any node
		group 0 [198.51.100.80] eligible=true candidates=any`)
}

func TestExcludedNodesDoNotServe(t *testing.T) {
	web, loc := svc("shop/web", ips("198.51.100.80")), svc("shop/z", ips("198.51.100.81"), local)
	exclude := func(in Input, nodes ...int) Input {
		for _, i := range nodes {
			in.Nodes[i].Excluded = true
		}
		return in
	}
	t.Run("another node", func(t *testing.T) {
		check(t, exclude(world(web, loc), 2), `
			shop.web 198.51.100.80/32@eth0 group=0 eligible
			shop.z 198.51.100.81/32@eth0 group=1 eligible
			group 0 [198.51.100.80] eligible=true candidates=n1,n2
			group 1 [198.51.100.81] eligible=true candidates=n1,n2`)
	})
	t.Run("this node", func(t *testing.T) {
		check(t, exclude(world(web, loc), 0), `
			shop.web 198.51.100.80/32@eth0 group=0 not here: node n1 is excluded from external load balancers by its label
			shop.z 198.51.100.81/32@eth0 group=1 not here: node n1 is excluded from external load balancers by its label
			group 0 [198.51.100.80] eligible=false candidates=n2,n3
			group 1 [198.51.100.81] eligible=false candidates=n2,n3`)
	})
	t.Run("every node", func(t *testing.T) {
		check(t, exclude(world(web, loc), 0, 1, 2), `
			shop.web 198.51.100.80/32@eth0 group=-1 not here: every node is excluded from external load balancers by its label
			shop.z 198.51.100.81/32@eth0 group=-1 not here: every node with an endpoint that serves is excluded from external load balancers by its label`)
	})
	t.Run("unless the label is to be ignored", func(t *testing.T) {
		in := exclude(world(web), 0, 1, 2)
		in.Config.Services.IgnoreExcludeLabel = true
		check(t, in, `
			shop.web 198.51.100.80/32@eth0 group=0 eligible
			group 0 [198.51.100.80] eligible=true candidates=any`)
	})
	t.Run("a node that has no Node object while others are excluded", func(t *testing.T) {
		in := exclude(world(web), 2)
		in.Nodes = in.Nodes[1:]
		check(t, in, `
			shop.web 198.51.100.80/32@eth0 group=0 not here: node n1 is not among the Nodes of the API server
			group 0 [198.51.100.80] eligible=false candidates=n2`)
	})
}
