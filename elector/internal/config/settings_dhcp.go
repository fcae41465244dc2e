package config

// dhcpSettings are about addresses that servers give.
var dhcpSettings = []setting{
	{"vip_ddns", "", []string{"ddns"}, "false", boolean(func(r *raw) *bool { return &r.ControlPlane.DDNS }),
		"DHCP lends the control plane's VIP, of the families of dns_mode. The server is told the host name in address, and enters it into DNS. A Service has the annotation kube-vip.io/ddns."},
	{"dhcp_backoff_attempts", "", []string{"dhcpBackoffAttempts"}, "0", integer(func(r *raw) *int { return &r.DHCPAttempts }, 0, 1000),
		"After how many failures no DHCP server is asked any more; 0 is never. kube-vip's default is 3."},
	{"dns_mode", "", []string{"dnsMode"}, "first", nameMode(func(r *raw) *NameMode { return &r.NameMode }),
		"Which addresses of a host name the control plane's VIP gets; first is IPv4 where there is one. A Service gets one of each family that it has."},
}
