package config

import "net/netip"

// egress are the settings of what egressd does for Services.
var egress = []setting{
	{"egress_podcidr", "", []string{"egressPodCIDR"}, "auto", prefixes(func(r *raw) *[]netip.Prefix { return &r.Egress.PodCIDRs }),
		"The cluster's networks of pods, which a Service's VIP does not go to as a source; with auto those of all Nodes' spec.podCIDRs."},
	{"enable_service_security", "", []string{"onlyAllowTrafficServicePorts"}, "false", boolean(func(r *raw) *bool { return &r.Services.Firewall }),
		"Drop what comes to a Service's VIP on other ports than the Service's. ICMP passes."},
}
