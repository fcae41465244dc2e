package plan

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Annotations of a Service, by kube-vip's names.
const (
	annotationAddresses    = "kube-vip.io/loadbalancerIPs"
	annotationIgnore       = "kube-vip.io/ignore"
	annotationInterface    = "kube-vip.io/serviceInterface"
	annotationLease        = "kube-vip.io/leaseName"
	annotationEndpointless = "kube-vip.io/allow-reconcile-without-endpoints"
	annotationVLAN         = "kube-vip.io/serviceVLAN"
	annotationMacvlan      = "kube-vip.io/macvlanName"
	annotationMAC          = "kube-vip.io/hwaddr"
	annotationRequested    = "kube-vip.io/requestedIP"
	annotationHostname     = "kube-vip.io/loadbalancerHostname"
	annotationBroadcast    = "kube-vip.io/dhcp-broadcast"
	annotationRPFilter     = "kube-vip.io/rp_filter"
	annotationDDNS         = "kube-vip.io/ddns"
)

// withoutEffect are annotations that ask for what this build does not have;
// the Service is served without it.
var withoutEffect = []string{
	"kube-vip.io/forwardUPNP",
}

// isTrue says whether an annotation is there and true, in any case.
func isTrue(s *corev1.Service, annotation string) bool {
	return strings.EqualFold(s.Annotations[annotation], "true")
}
