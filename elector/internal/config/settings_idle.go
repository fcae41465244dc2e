package config

// accepted are kube-vip's settings that may be given and change nothing.
var accepted = []setting{
	{"svc_leasename", "", []string{"servicesLeaseName"}, "", idle(alwaysElect), "Lease of all Services."},
	{"vip_skipdad", "", nil, "", idleBool(alwaysSo), "Skip duplicate address detection; the Lease and a probe have proven uniqueness."},
	{"vip_loseleadership", "", []string{"loseLeadership"}, "", idleBool(alwaysSo), "Give VIPs up when the link goes down."},
	{"vip_loseleadership_timeout_seconds", "", []string{"loseLeadershiptTimeoutSeconds"}, "", idle("no effect: vipod gives VIPs up as soon as the link is down"), "How long the link may be down."},
	{"debounce_time", "", []string{"debounceTime"}, "", idle(alwaysSo), "Take events together."},
	{"zebra_url", "", []string{"zebraUrl"}, "", idle(noZebra), "BGP through FRR."},
	{"zebra_version", "", []string{"zebraVersion"}, "", idle(noZebra), "BGP through FRR."},
	{"zebra_software_name", "", []string{"zebraSoftwareName"}, "", idle(noZebra), "BGP through FRR."},
	{"vip_cleanroutingtable", "", []string{"cleanRoutingTable"}, "", idleBool(alwaysSo), "Remove routes that nothing wants."},
	{"dhcp_mode", "", []string{"dhcpMode"}, "", idle("no effect: a Service says by 0.0.0.0 and :: which families it wants, and with kube-vip.io/ddns by its own; the control plane's VIP has dns_mode"), "Families of DHCP."},
	{"egress_withnftables", "", []string{"egressWithNftables"}, "", idleBool(alwaysNft), "Egress by nftables."},
	{"egress_enableinternalsnat", "", nil, "", idleBool(neverInside), "Leave the cluster's own networks out of egress."},
	{"egress_clean", "EGRESS_CLEAN", nil, "", idleBool(alwaysClean), "Remove egress rules at start."},
	{"iptables_backend", "", nil, "", idle(dead), "Parsed by kube-vip and not used."},
	{"vip_singlenode", "", nil, "", idleBool(dead), "Left over from an old version."},
	{"vip_startleader", "", nil, "", idleBool(dead), "Left over from an old version."},
	{"vip_configmap", "", []string{"configMap", "c"}, "", idle(dead), "Left over from an old version."},
}

// unbuilt are kube-vip's switches of what this build does not have.
var unbuilt = []setting{
	{"zebra_enable", "", []string{"zebra"}, "", offBool("BGP through FRR"), "BGP through FRR."},
	{"vip_leaderelectiontype", "", []string{"leaderElectionType"}, "", off("elections in etcd", "kubernetes"), "Where elections are held."},
	{"vip_leaseannotations", "", nil, "", off("annotations of the Lease", "{}"), "Annotations of the control plane's Lease."},
	{"vip_preserve_on_leadership_loss", "", []string{"preserveVipOnLeadershipLoss"}, "", offBool("VIPs that outlive their Lease"), "Keep the address after the Lease is lost."},
	{"cp_detect", "", []string{"autodetectcp"}, "", offBool("detection of the API server by its certificate, since that trusts whoever answers (kubernetes_addr says where it is)"), "Find the API server by its certificate."},
	{"enable_node_labeling", "", []string{"enableNodeLabeling"}, "", offBool("labels on Nodes"), "Label the Node that owns a VIP."},
	{"enable_endpoints", "", []string{"enableEndpoints"}, "", offBool("Endpoints, EndpointSlices only"), "Endpoints instead of EndpointSlices."},
	{"enable_upnp", "", nil, "", offBool("UPnP"), "UPnP."},
	{"health_check_port", "", []string{"healthCheckPort"}, "", off("health check over TCP (a probe runs the subcommand healthz)"), "Health check over TCP."},
}
