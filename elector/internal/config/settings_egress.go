package config

import (
	"net/netip"
	"time"

	"github.com/vipod/vipod/shared/schema"
)

// egress are the settings of what egressd does for Services.
var egress = []setting{
	{"egress_podcidr", "", []string{"egressPodCIDR"}, "auto", prefixes(func(r *raw) *[]netip.Prefix { return &r.Egress.PodCIDRs }),
		"The cluster's networks of pods, which a Service's VIP does not go to as a source; with auto those of all Nodes' spec.podCIDRs."},
	{"vipod_egress_unknown_pods", "", []string{"egressUnknownPods"}, string(UnknownGuarded), unknownPods(func(r *raw) *UnknownPods { return &r.Egress.Unknown }),
		"Where a pod is held back from the outside until the API server knows its address, so that no packet of a Service with egress leaves with the node's: guarded is on nodes with a pod of such a Service, one that has just been assigned to the node included; held is on every node while there is such a Service; free is nowhere."},
	{"mirror_dest_interface", "", []string{"mirrorDestInterface"}, "", mirror(func(r *raw) *string { return &r.Mirror }),
		"An interface that gets a copy of everything that goes over that of Services (vip_servicesinterface, else vip_interface, else that of the default route), in both directions."},
	{"enable_service_security", "", []string{"onlyAllowTrafficServicePorts"}, "false", boolean(func(r *raw) *bool { return &r.Services.Firewall }),
		"Drop what comes to a Service's VIP on other ports than the Service's. ICMP passes."},
}

// balance are the settings of control-plane load balancing.
var balance = []setting{
	{"lb_enable", "", []string{"enableLoadBalancer"}, "false", boolean(func(r *raw) *bool { return &r.ControlPlane.Balance.Enabled }),
		"Spread connections to the control plane's VIP over the API servers of all ready Nodes labelled node-role.kubernetes.io/control-plane. Needs egressd."},
	{"lb_port", "", []string{"lbPort"}, "6443", port(func(r *raw) *uint16 { return &r.ControlPlane.Balance.Port }),
		"Port of the VIP whose connections are spread."},
	{"lb_fwdmethod", "", []string{"lbForwardingMethod"}, "nftables", method(),
		"How: by nftables with masquerading, for which local and masquerade are kube-vip's names. There is no IPVS in this build."},
	{"backend_health_check_interval", "", nil, "1", duration(func(r *raw) *time.Duration { return &r.ControlPlane.Balance.Interval }, time.Second, 100*time.Millisecond),
		"Time between two questions to each API server; two answers against what is thought of it change that. kube-vip's default is 5 s."},
}

// method is what lb_fwdmethod may be: what an API server's answer through this
// node amounts to.
func method() value {
	return value{allowed: "nftables, local or masquerade: this build has no IPVS, so no tunnel, directroute or bypass", set: func(_ *raw, text string) error {
		switch text {
		case "nftables", "local", "masquerade":
			return nil
		}
		return errNotAllowed
	}}
}

// unknownPods is a choice of UnknownPods.
func unknownPods(field func(*raw) *UnknownPods) value {
	return into("guarded, held or free", field, func(text string) (UnknownPods, error) {
		switch u := UnknownPods(text); u {
		case UnknownGuarded, UnknownHeld, UnknownFree:
			return u, nil
		}
		return "", errNotAllowed
	})
}

// mirror is the name of an interface, or empty.
func mirror(field func(*raw) *string) value {
	return matching("the name of an interface, or empty (nothing is copied)", field, func(s string) bool {
		return s != Auto && schema.ValidateInterface(s) == nil
	})
}
