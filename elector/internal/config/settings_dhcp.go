package config

// dhcpSettings are about addresses that servers give.
var dhcpSettings = []setting{
	{"dhcp_backoff_attempts", "", []string{"dhcpBackoffAttempts"}, "0", integer(func(r *raw) *int { return &r.DHCPAttempts }, 0, 1000),
		"After how many failures no DHCP server is asked any more; 0 is never. kube-vip's default is 3."},
	{"dns_mode", "", []string{"dnsMode"}, "first", nameMode(func(r *raw) *NameMode { return &r.NameMode }),
		"Which addresses of a host name the control plane's VIP gets; first is IPv4 where there is one. A Service gets one of each family that it has."},
}
