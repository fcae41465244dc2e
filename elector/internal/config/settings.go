package config

import (
	"log/slog"
	"net/netip"
	"time"

	"github.com/vipod/vipod/shared/bgppeer"
)

// setting is one row of the table of settings.
type setting struct {
	// name is the name in the environment and the key in the file.
	name string
	// alias is another name for the same; may be empty.
	alias string
	// flags are names on the command line, without dashes; kube-vip's.
	flags []string
	// standard is the default, as text.
	standard string
	value
	// doc is what the setting means.
	doc string
}

// section is a part of the table, for people.
type section struct {
	title    string
	settings []setting
}

// raw is the configuration while it is put together.
type raw struct {
	Config
	configFile    string
	arp           bool
	bgp, table    bool
	wireguard     bool
	peers         []bgppeer.Peer
	peer          bgppeer.Peer // of the settings for a single one
	peerSecret    bool
	legacyAddress []netip.Addr
	arpRate       time.Duration
	renewDeadline time.Duration
	leaseName     string
}

// hour is the most that any time may be.
const hour = time.Hour

var sections = []section{
	{"What vipod does", []setting{
		{"cp_enable", "", []string{"controlplane"}, "false", boolean(func(r *raw) *bool { return &r.ControlPlane.Enabled }),
			"Serve the VIP of the control plane on this node."},
		{"svc_enable", "", []string{"services"}, "false", boolean(func(r *raw) *bool { return &r.Services.Enabled }),
			"Serve the VIPs of Services of type LoadBalancer on this node."},
		{"vip_arp", "", []string{"arp"}, "true", boolean(func(r *raw) *bool { return &r.arp }),
			"Make VIPs known by ARP and NDP, the mode unless another one is switched on. kube-vip's default is false."},
		{"vipod_components", "", []string{"components"}, "elector,vipd,linkd,arpd,bgpd,egressd,metricsd", components(func(r *raw) *[]string { return &r.Components }),
			"The daemons that are switched on for this node."},
	}},
	{"This node", []setting{
		{"vip_nodename", "", []string{"nodeName"}, "", nodeName(func(r *raw) *string { return &r.NodeName }),
			"This node's name; without it the host's name. Taken in lower case."},
		{"instance_name", "INSTANCE_NAME", []string{"instanceName"}, "", instance(func(r *raw) *string { return &r.InstanceName }),
			"Tells two vipods on one node apart."},
		{"vip_loglevel", "", []string{"log"}, "0", logLevel(func(r *raw) *slog.Level { return &r.LogLevel }),
			"Least level that is logged."},
		{"prometheus_server", "", []string{"prometheusHTTPServer"}, ":2112", listen(func(r *raw) *string { return &r.MetricsAddress }),
			"Where metricsd listens. Empty, in the environment too, is nowhere."},
		{"config_file", "", []string{"config", "config-file"}, "", path(func(r *raw) *string { return &r.configFile }),
			"YAML file of settings; its keys are the names in this table."},
	}},
	{"API server", []setting{
		{"k8s_config_file", "", []string{"k8sConfigPath"}, "", path(func(r *raw) *string { return &r.Kubeconfig }),
			"Kubeconfig; without it the pod's own credentials. kube-vip's default is /etc/kubernetes/admin.conf."},
		{"kubernetes_addr", "", nil, "", apiServer(func(r *raw) *string { return &r.APIServer }),
			"API server to use instead of the one that the credentials name."},
		{"cp_namespace", "", []string{"namespace", "n"}, "", namespace(func(r *raw) *string { return &r.Namespace }, "the pod's, else kube-system"),
			"Namespace of the Leases. In kube-vip the pod's own wins over it."},
	}},
	{"Links and addresses", []setting{
		{"vip_interface", "", []string{"interface"}, "", link(func(r *raw) *string { return &r.Interface }, "that of the default route"),
			"Where VIPs go."},
		{"vip_servicesinterface", "", []string{"serviceInterface"}, "", link(func(r *raw) *string { return &r.ServicesInterface }, "vip_interface"),
			"Where VIPs of Services go; a Service's annotation kube-vip.io/serviceInterface wins over it."},
		{"vip_allow_interface_not_up", "", []string{"allowInterfaceNotUp"}, "false", boolean(func(r *raw) *bool { return &r.AllowInterfaceDown }),
			"Serve VIPs on a link without carrier too. On one that an administrator set down a VIP is claimed and absent."},
		{"vip_subnet", "", []string{"vipSubnet"}, "", subnet(func(r *raw) *Subnet { return &r.Subnet }),
			"Prefix lengths of VIPs, 32,128 by default; auto takes that of the link's own subnet."},
		{"vip_routingprotocol", "", []string{"routingProtocol"}, "248", integer(func(r *raw) *int { return &r.Protocol }, 4, 255),
			"Mark of vipod's addresses in the kernel (IFA_PROTO). 0 to 3 are the kernel's own."},
		{"vip_interfaceloglobal", "", []string{"loInterfaceGlobalScope"}, "false", boolean(func(r *raw) *bool { return &r.LoopbackGlobalScope }),
			"Global instead of host scope for VIPs on lo."},
		{"vip_arpRate", "", []string{"arpRate"}, "", optional(duration(func(r *raw) *time.Duration { return &r.arpRate }, time.Millisecond, 500*time.Millisecond)),
			"kube-vip's name for vipod_announce_interval, in milliseconds; not both."},
		{"vipod_announce_interval", "", []string{"announceInterval"}, "60", duration(func(r *raw) *time.Duration { return &r.AnnounceInterval }, time.Second, 500*time.Millisecond),
			"Time between two refreshing announcements of a VIP. kube-vip's default is 3 s."},
	}},
	{"Leases", []setting{
		{"vip_leaseduration", "", []string{"leaseDuration"}, "5", duration(func(r *raw) *time.Duration { return &r.LeaseDuration }, time.Second, 2*time.Second),
			"How long a node owns its VIPs after a renewal, whole seconds; the longest outage after a crash. kube-vip's default is 15."},
		{"vip_retryperiod", "", []string{"leaseRetry"}, "1", duration(func(r *raw) *time.Duration { return &r.RetryPeriod }, time.Second, 100*time.Millisecond),
			"Time between two renewals, at most half of vip_leaseduration. kube-vip's default is 2."},
		{"vip_renewdeadline", "", []string{"leaseRenewDuration"}, "", optional(duration(func(r *raw) *time.Duration { return &r.renewDeadline }, time.Second, time.Millisecond)),
			"Checked to lie between the two and otherwise not used: a VIP is given up when its Lease ends."},
		{"vip_leasename", "", []string{"leaseName"}, "plndr-cp-lock", leaseName(func(r *raw) *string { return &r.leaseName }),
			"Lease of the control plane's VIP; kube-vip's name, so that the two exclude each other."},
	}},
	{"Control plane", []setting{
		{"address", "", []string{"address"}, "", hosts(func(r *raw) *[]netip.Addr { return &r.ControlPlane.Addresses }, func(r *raw) *[]string { return &r.ControlPlane.Names }),
			"The control plane's VIP: one address or more, or host names, which are followed. No Service gets it."},
		{"vip_address", "", []string{"vip"}, "", addresses(func(r *raw) *[]netip.Addr { return &r.legacyAddress }),
			"Old name of address."},
		{"port", "", []string{"port"}, "6443", port(func(r *raw) *uint16 { return &r.ControlPlane.Port }),
			"Port of the API server on this node."},
		{"control_plane_health_check_address", "", []string{"controlPlaneHealthCheckAddress"}, "", webURL(func(r *raw) *string { return &r.ControlPlane.Health.Address }),
			"URL that must answer 200 for this node to own the VIP; without it /readyz of the API server on this node."},
		{"control_plane_health_check_period_seconds", "", []string{"controlPlaneHealthCheckPeriodSeconds"}, "5", duration(func(r *raw) *time.Duration { return &r.ControlPlane.Health.Period }, time.Second, 100*time.Millisecond),
			"Time between two checks."},
		{"control_plane_health_check_timeout_seconds", "", []string{"controlPlaneHealthCheckTimeoutSeconds"}, "3", duration(func(r *raw) *time.Duration { return &r.ControlPlane.Health.Timeout }, time.Second, 100*time.Millisecond),
			"How long a check may take."},
		{"control_plane_health_check_failure_threshold", "", []string{"controlPlaneHealthCheckFailureThreshold"}, "3", integer(func(r *raw) *int { return &r.ControlPlane.Health.FailureThreshold }, 1, 1000),
			"How many checks in a row must fail before the VIP is given up."},
		{"control_plane_health_check_ca_path", "", []string{"controlPlaneHealthCheckCAPath"}, "", path(func(r *raw) *string { return &r.ControlPlane.Health.CAPath }),
			"Certificates to trust in checks besides the system's."},
	}},
	{"Services", []setting{
		{"svc_namespace", "", []string{"servicesNamespace"}, "", namespace(func(r *raw) *string { return &r.Services.Namespace }, "all"),
			"Only Services of this namespace."},
		{"lb_class_name", "", []string{"lbClassName"}, "kube-vip.io/kube-vip-class", class(func(r *raw) *string { return &r.Services.Class }),
			"The loadBalancerClass that is vipod's."},
		{"lb_class_only", "", []string{"lbClassOnly"}, "false", boolean(func(r *raw) *bool { return &r.Services.ClassOnly }),
			"Leave Services without a class alone."},
		{"lb_class_legacy_handling", "", []string{"lbClassNameLegacyHandling"}, "true", boolean(func(r *raw) *bool { return &r.Services.ClassLegacy }),
			"Serve Services without a class unless lb_class_only. When false, only if lb_class_name is empty."},
		{"disable_service_updates", "", []string{"disableServiceUpdates"}, "false", boolean(func(r *raw) *bool { return &r.Services.DisableUpdates }),
			"Write neither status nor annotations of Services."},
		{"vipod_service_cidr", "egress_servicecidr", []string{"serviceCIDR"}, "auto", prefixes(func(r *raw) *[]netip.Prefix { return &r.Services.CIDRs }),
			"The cluster's Service CIDRs, in which no VIP may lie; with auto every cluster IP in use is forbidden."},
		{"vipod_ignore_exclude_label", "", []string{"ignoreExcludeLabel"}, "false", boolean(func(r *raw) *bool { return &r.Services.IgnoreExcludeLabel }),
			"Serve Services on nodes labelled node.kubernetes.io/exclude-from-external-load-balancers, as kube-vip does."},
	}},
	{"DHCP and names", dhcpSettings},
	{"BGP and routing table", routed},
	{"Control-plane load balancing", balance},
	{"Egress and firewall", egress},
	{"Accepted without effect", accepted},
	{"Not in this build", unbuilt},
}
