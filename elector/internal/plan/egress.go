package plan

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/vipod/vipod/elector/internal/config"
	"github.com/vipod/vipod/shared/schema"
)

// Annotations about egress, by kube-vip's names and, where kube-vip's does not
// say what it does, our own.
const (
	annotationEgress       = "kube-vip.io/egress"
	annotationEgressIPv6   = "kube-vip.io/egress-ipv6"
	annotationEgressPorts  = "kube-vip.io/egress-destination-ports"
	annotationEgressSource = "kube-vip.io/egress-source-ports"
	annotationEgressAllow  = "kube-vip.io/egress-allowed-networks"
	annotationEgressDeny   = "kube-vip.io/egress-denied-networks"
	annotationEgressAPI    = "kube-vip.io/egress-detect-api-server"
	annotationFlush        = "kube-vip.io/flush-conntrack"
	annotationEgressInside = "vipod.io/egress-internal"
	annotationEgressAcross = "vipod.io/egress-across-nodes"
)

// maxItems is how many networks or ports an annotation may list.
const maxItems = 64

// wantsEgress says whether the Service's pods are to leave with its VIP.
func (s *service) wantsEgress() bool { return isTrue(s.Service, annotationEgress) }

// acrossNodes says whether pods on any node are to leave through the one that
// owns the VIP.
func (s *service) acrossNodes() bool {
	return s.wantsEgress() && isTrue(s.Service, annotationEgressAcross)
}

// egressPlan finds what leaves this node with a Service's VIP.
type egressPlan struct {
	*planner
	// pods says which Service has a pod, among all nodes' pods.
	pods map[netip.Addr]*service
	// nodes are the addresses of nodes, which pods on the node's network have.
	nodes map[netip.Addr]bool
	// points are the endpoints by Service.
	points map[name][]*discoveryv1.Endpoint
	// local are this node's pods by namespace.
	local map[string][]Pod
	// across: a Service's pods may leave through another node.
	across bool
	// guarded: a Service has a pod on this node, or one on its way here.
	guarded bool
}

// egress fills in Output.Egress and Output.Internal from the Services that are
// ours, the oldest first: a pod of several leaves with the VIP of the oldest.
func (p *planner) egress(services []*service) {
	p.out.Internal = p.internal()
	services = slices.DeleteFunc(slices.Clone(services), func(s *service) bool { return !s.wantsEgress() })
	if len(services) == 0 {
		return
	}
	p.out.FollowPods, p.out.Across = true, map[string]bool{}
	e := &egressPlan{
		planner: p, pods: map[netip.Addr]*service{}, nodes: map[netip.Addr]bool{},
		points: map[name][]*discoveryv1.Endpoint{}, local: map[string][]Pod{},
	}
	for _, pod := range p.in.Pods {
		e.local[pod.Namespace] = append(e.local[pod.Namespace], pod)
	}
	for _, n := range p.in.Nodes {
		for _, a := range n.Addresses {
			e.nodes[a] = true
		}
	}
	for _, slice := range p.in.Slices {
		key := name{slice.Namespace, slice.Labels[discoveryv1.LabelServiceName]}
		if slice.AddressType != discoveryv1.AddressTypeFQDN {
			for i := range slice.Endpoints {
				e.points[key] = append(e.points[key], &slice.Endpoints[i])
			}
		}
	}
	for _, s := range services {
		doc := e.document(s)
		if s.acrossNodes() {
			e.across = true
			p.out.Across[doc.Key] = true
		}
		if len(doc.Pods)+len(doc.Elsewhere) > 0 {
			p.out.Egress = append(p.out.Egress, doc)
		}
		e.guarded = e.guarded || len(doc.Pods) > 0
	}
	if guard := e.guard(); guard != nil {
		p.out.Egress = append(p.out.Egress, guard)
	}
}

// internal are the cluster's own networks: those of pods, as configured or as
// the Nodes have them, and those of cluster IPs as far as they are configured.
func (p *planner) internal() []netip.Prefix {
	list := append(p.podNetworks(), p.in.Config.Services.CIDRs...)
	slices.SortFunc(list, netip.Prefix.Compare)
	return slices.Compact(list)
}

// podNetworks are the cluster's networks of pods.
func (p *planner) podNetworks() []netip.Prefix {
	list := slices.Clone(p.in.Config.Egress.PodCIDRs)
	if len(list) == 0 {
		for _, n := range p.in.Nodes {
			list = append(list, n.PodCIDRs...)
		}
	}
	slices.SortFunc(list, netip.Prefix.Compare)
	return slices.Compact(list)
}

// document returns what egressd is to do for the Service on this node. One
// whose annotations cannot be honoured has its pods held back: any source that
// they left with would be a wrong one.
func (e *egressPlan) document(s *service) *schema.Egress {
	doc := &schema.Egress{
		Key: schema.Key(s.Namespace, s.Name), IPv6Only: isTrue(s.Service, annotationEgressIPv6),
		Internal: isTrue(s.Service, annotationEgressInside),
	}
	hold := func(format string, args ...any) {
		if doc.Hold == "" {
			doc.Hold = fmt.Sprintf(format, args...)
			e.refuse(s, ReasonEgressRefused, "its pods are held back: %s", doc.Hold)
		}
	}
	if e.spread(s) {
		hold("the VIP has no owner without an election, so that answers could come to any node: set svc_election")
	}
	networks := func(annotation string) []netip.Prefix {
		list, err := parseNetworks(s.Annotations[annotation])
		if err != nil {
			hold("annotation %s: %v", annotation, err)
		}
		return list
	}
	ports := func(annotation string) []schema.Port {
		list, err := parsePorts(s.Annotations[annotation])
		if err != nil {
			hold("annotation %s: %v", annotation, err)
		}
		return list
	}
	doc.Denied, doc.Allowed = networks(annotationEgressDeny), networks(annotationEgressAllow)
	doc.Ports = ports(annotationEgressPorts)
	sources := ports(annotationEgressSource)
	if isTrue(s.Service, annotationFlush) {
		doc.Flush = &schema.Flush{SourcePorts: sources, DestinationPorts: doc.Ports}
	}
	if isTrue(s.Service, annotationEgressAPI) {
		for _, a := range e.in.APIServers {
			doc.Denied = append(doc.Denied, netip.PrefixFrom(a, a.BitLen()))
		}
	}
	slices.SortFunc(doc.Denied, netip.Prefix.Compare)
	doc.Denied = slices.Compact(doc.Denied)
	selectors, err := s.selectors()
	if err != nil {
		hold("%v", err)
	}
	doc.Pods, doc.Elsewhere = e.podsOf(s, selectors)
	for _, ip := range doc.Pods {
		if !doc.Internal && (ip.Is6() || !doc.IPv6Only) && !slices.ContainsFunc(e.out.Internal, func(p netip.Prefix) bool { return p.Addr().Is4() == ip.Is4() }) {
			hold("no %s network of pods is known, so that what stays inside of the cluster cannot be told: set egress_podcidr", family(ip))
		}
	}
	return doc
}

// podsOf returns the addresses of the Service's pods on this node: all that
// its EndpointSlices name, ready or not, since a pod that is not ready sends
// as well, and all that its selectors match, endpoint or not.
func (e *egressPlan) podsOf(s *service, selectors []labels.Selector) (pods, elsewhere []netip.Addr) {
	shared, onNode := "", ""
	take := func(ip netip.Addr, here bool) {
		switch other := e.pods[ip]; {
		case e.nodes[ip]:
			onNode = ip.String()
		case other != nil && other != s:
			shared = fmt.Sprintf("%s leaves with the VIP of Service %s, which is older", ip, other.path())
		default:
			e.pods[ip] = s
			if here {
				pods = append(pods, ip)
			} else if s.acrossNodes() {
				elsewhere = append(elsewhere, ip)
			}
		}
	}
	for _, point := range e.points[name{s.Namespace, s.Name}] {
		for _, text := range point.Addresses {
			if ip, err := netip.ParseAddr(text); err == nil && isPod(ip) { // no API server lets other endpoints pass
				take(ip, point.NodeName != nil && *point.NodeName == e.in.Config.NodeName)
			}
		}
	}
	selected, expected := e.selected(s, selectors)
	e.guarded = e.guarded || expected
	for _, ip := range selected {
		take(ip, true)
	}
	if shared != "" {
		e.refuse(s, ReasonEgressConflict, "pod %s", shared)
	}
	if onNode != "" {
		e.refuse(s, ReasonEgressRefused, "the pod at %s is on its node's network and leaves with the node's address", onNode)
	}
	for _, list := range [][]netip.Addr{pods, elsewhere} {
		slices.SortFunc(list, netip.Addr.Compare)
	}
	return slices.Compact(pods), slices.Compact(elsewhere)
}

// isPod says whether a pod can have the address.
func isPod(ip netip.Addr) bool {
	return !ip.Is4In6() && !ip.IsLoopback() && !ip.IsMulticast() && !ip.IsUnspecified() && ip.Zone() == ""
}

func parseNetworks(text string) (list []netip.Prefix, err error) {
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item == "" {
			continue
		}
		p, err := netip.ParsePrefix(item)
		if ip, errAddr := netip.ParseAddr(item); err != nil && errAddr == nil && ip.Zone() == "" {
			p, err = netip.PrefixFrom(ip, ip.BitLen()), nil
		}
		if err != nil || p.Addr().Is4In6() {
			return nil, fmt.Errorf("%s is no network", config.Quote(item))
		}
		if list = append(list, p.Masked()); len(list) > maxItems {
			return nil, fmt.Errorf("more than %d networks", maxItems)
		}
	}
	return list, nil
}

// parsePorts reads "tcp:443,udp:53"; a bare port is one of TCP.
func parsePorts(text string) (list []schema.Port, err error) {
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item == "" {
			continue
		}
		protocol, number, ok := strings.Cut(item, ":")
		if !ok {
			protocol, number = string(corev1.ProtocolTCP), item
		}
		p := schema.Port{Protocol: schema.Protocol(strings.ToUpper(strings.TrimSpace(protocol)))}
		n, err := strconv.ParseUint(strings.TrimSpace(number), 10, 16)
		p.Port = uint16(n)
		if err != nil || n == 0 || p.Protocol != schema.TCP && p.Protocol != schema.UDP && p.Protocol != schema.SCTP {
			return nil, fmt.Errorf("%s is no port: want such as tcp:443, udp:53 or sctp:132", config.Quote(item))
		}
		if list = append(list, p); len(list) > maxItems {
			return nil, fmt.Errorf("more than %d ports", maxItems)
		}
	}
	return list, nil
}
