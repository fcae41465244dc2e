package config

import (
	"errors"
	"flag"
	"io"
	"io/fs"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

var compareAddr = cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{})

// input is what a test gives to Parse.
type input struct {
	args  []string
	env   map[string]string
	file  string
	files map[string]string
}

func (in input) parse(t *testing.T) (*Config, error) {
	t.Helper()
	fset := flag.NewFlagSet("elector", flag.ContinueOnError)
	fset.SetOutput(io.Discard)
	flags := AddFlags(fset)
	if err := fset.Parse(in.args); err != nil {
		t.Fatal(err)
	}
	return Parse(Sources{
		Flags:     flags,
		LookupEnv: func(name string) (string, bool) { v, ok := in.env[name]; return v, ok },
		Environ:   in.environ,
		ReadFile:  in.readFile,
		Hostname:  func() (string, error) { return "Node-1.example", nil },
	})
}

func (in input) environ() []string {
	var all []string
	for name, text := range in.env {
		all = append(all, name+"="+text)
	}
	return all
}

func (in input) readFile(path string) ([]byte, error) {
	if path == "/config.yaml" && in.file != "" {
		return []byte(in.file), nil
	}
	if text, ok := in.files[path]; ok {
		return []byte(text), nil
	}
	return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
}

// env returns the least that is valid, and then pairs of name and value.
func env(pairs ...string) map[string]string {
	m := map[string]string{"svc_enable": "true"}
	for i := 0; i+1 < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	return m
}

func defaults() Config {
	return Config{
		NodeName:         "node-1.example",
		MetricsAddress:   ":2112",
		Components:       []string{"elector", "vipd", "linkd", "arpd", "bgpd", "egressd", "metricsd"},
		Namespace:        "kube-system",
		Subnet:           Subnet{IPv4: 32, IPv6: 128},
		Protocol:         248,
		AnnounceInterval: time.Minute,
		NameMode:         NameFirst,
		LeaseDuration:    5 * time.Second,
		RetryPeriod:      time.Second,
		Mode:             ModeL2,
		Table:            Table{ID: 198, Type: 1},
		BGP:              BGP{AS: 65000, Hold: 30 * time.Second, Keepalive: 10 * time.Second, Restart: 2 * time.Minute, Retry: 5 * time.Second},
		ControlPlane: ControlPlane{
			Port: 6443, LeaseNamespace: "kube-system", LeaseName: "plndr-cp-lock",
			Health:  Health{Period: 5 * time.Second, Timeout: 3 * time.Second, FailureThreshold: 3},
			Balance: Balance{Port: 6443, Interval: time.Second},
		},
		Services: Services{Enabled: true, Class: "kube-vip.io/kube-vip-class", ClassLegacy: true},
		Egress:   Egress{Unknown: UnknownGuarded},
	}
}

func TestParse(t *testing.T) {
	for _, test := range []struct {
		name  string
		input input
		want  func(*Config)
	}{
		{"defaults", input{env: env()}, func(*Config) {}},
		{"everything a control plane sets", input{env: env(
			"svc_enable", "false", "cp_enable", "1", "address", "198.51.100.9, 2001:db8::9,198.51.100.9", "port", "8443",
			"vip_nodename", "CP-1", "vip_interface", "eth0", "vip_subnet", "24,64", "vip_leaseduration", "15",
			"vip_renewdeadline", "10", "vip_retryperiod", "2", "vip_leasename", "locks/cp", "cp_namespace", "vips",
			"k8s_config_file", "/etc/kubernetes/admin.conf", "kubernetes_addr", "https://kubernetes:6443",
			"vip_loglevel", "-4", "control_plane_health_check_address", "https://127.0.0.1:6443/livez",
			"control_plane_health_check_period_seconds", "500ms", "control_plane_health_check_ca_path", "/ca.crt",
			"vip_arpRate", "3000", "vip_interfaceloglobal", "t", "instance_name", "blue", "prometheus_server", "",
		)}, func(c *Config) {
			c.Services.Enabled = false
			c.ControlPlane = ControlPlane{
				Enabled: true, Port: 8443, LeaseNamespace: "locks", LeaseName: "cp",
				Addresses: []netip.Addr{netip.MustParseAddr("198.51.100.9"), netip.MustParseAddr("2001:db8::9")},
				Health: Health{Address: "https://127.0.0.1:6443/livez", Period: 500 * time.Millisecond,
					Timeout: 3 * time.Second, FailureThreshold: 3, CAPath: "/ca.crt"},
				Balance: Balance{Port: 6443, Interval: time.Second},
			}
			c.NodeName, c.Interface, c.Subnet = "cp-1", "eth0", Subnet{IPv4: 24, IPv6: 64}
			c.LeaseDuration, c.RetryPeriod, c.Namespace = 15*time.Second, 2*time.Second, "vips"
			c.Kubeconfig, c.APIServer = "/etc/kubernetes/admin.conf", "https://kubernetes:6443"
			c.LogLevel, c.AnnounceInterval = slog.LevelDebug, 3*time.Second
			c.LoopbackGlobalScope, c.InstanceName, c.MetricsAddress = true, "blue", ""
		}},
		{"everything for Services", input{env: env(
			"svc_namespace", "shop", "vip_servicesinterface", "auto", "vip_subnet", "auto", "lb_class_name", "",
			"lb_class_only", "true", "lb_class_legacy_handling", "false", "disable_service_updates", "true",
			"egress_servicecidr", "10.96.0.1/12,2001:db8:1::/112", "vipod_ignore_exclude_label", "true",
			"vip_allow_interface_not_up", "true", "vipod_components", "vipd", "vip_routingprotocol", "4",
			"vipod_announce_interval", "2m",
		)}, func(c *Config) {
			c.Services = Services{
				Enabled: true, Namespace: "shop", ClassOnly: true, DisableUpdates: true, IgnoreExcludeLabel: true,
				CIDRs: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/12"), netip.MustParsePrefix("2001:db8:1::/112")},
			}
			c.ServicesInterface, c.Subnet = "auto", Subnet{Auto: true, IPv4: 32, IPv6: 128}
			c.AllowInterfaceDown, c.Components, c.Protocol = true, []string{"elector", "vipd"}, 4
			c.AnnounceInterval = 2 * time.Minute
		}},
		{"flag over environment over file over default", input{
			args: []string{"--leaseRetry=2s", "--config", "/config.yaml"},
			env:  env("vip_retryperiod", "3", "port", "7443"),
			file: "vip_retryperiod: 4\nport: 8443\nvip_routingprotocol: 100\nvip_leaseduration: 10\n",
		}, func(c *Config) {
			c.RetryPeriod, c.ControlPlane.Port, c.Protocol, c.LeaseDuration = 2*time.Second, 7443, 100, 10*time.Second
		}},
		{"boolean flags without a value", input{args: []string{"--services", "--arp", "--lbClassOnly"}},
			func(c *Config) { c.Services.ClassOnly = true }},
		{"file named by the environment, with lists and text as it stands", input{
			env:  env("config_file", "/config.yaml"),
			file: "# comment\nvip_subnet: 24,64\naddress: [198.51.100.9, '2001:db8::9']\nvip_loglevel: warn\nvip_interface: ~\n",
		}, func(c *Config) {
			c.Subnet, c.LogLevel = Subnet{IPv4: 24, IPv6: 64}, slog.LevelWarn
			c.ControlPlane.Addresses = []netip.Addr{netip.MustParseAddr("198.51.100.9"), netip.MustParseAddr("2001:db8::9")}
		}},
		{"empty file", input{env: env("config_file", "/config.yaml"), file: "# nothing\n"}, func(*Config) {}},
		{"empty text is as good as none", input{env: env("port", "", "vip_arp", "", "bgp_enable", "", "vip_retryperiod", "")}, func(*Config) {}},
		{"old name of address", input{env: env("vip_address", "198.51.100.9")},
			func(c *Config) { c.ControlPlane.Addresses = []netip.Addr{netip.MustParseAddr("198.51.100.9")} }},
		{"single prefix length over 32 is IPv6's", input{env: env("vip_subnet", "64")},
			func(c *Config) { c.Subnet = Subnet{IPv4: 32, IPv6: 64} }},
		{"single prefix length is IPv4's", input{env: env("vip_subnet", "24")},
			func(c *Config) { c.Subnet = Subnet{IPv4: 24, IPv6: 128} }},
		{"the pod's namespace", input{env: env(), files: map[string]string{namespaceFile: "vips\n"}},
			func(c *Config) { c.Namespace, c.ControlPlane.LeaseNamespace = "vips", "vips" }},
		{"load balancing", input{env: env("lb_enable", "true", "lb_port", "443", "lb_fwdmethod", "local", "backend_health_check_interval", "5")},
			func(c *Config) { c.ControlPlane.Balance = Balance{Enabled: true, Port: 443, Interval: 5 * time.Second} }},
		{"egress and firewall", input{env: env("egress_podcidr", "203.0.113.0/25,2001:db8:0:2::/64", "enable_service_security", "true", "egress_clean", "true")},
			func(c *Config) {
				c.Egress.PodCIDRs = []netip.Prefix{netip.MustParsePrefix("203.0.113.0/25"), netip.MustParsePrefix("2001:db8:0:2::/64")}
				c.Services.Firewall = true
				c.Notices = []string{"egress_clean: " + alwaysClean}
			}},
		{"WireGuard", input{env: env("vip_wireguard", "true", "svc_election", "true")},
			func(c *Config) { c.Mode, c.Elect.Services = ModeWireGuard, true }},
		{"modes that are off", input{env: env("bgp_enable", "false", "vip_wireguard", "0", "lb_enable", "F", "health_check_port", "0",
			"mirror_dest_interface", "", "vip_leaderelectiontype", "kubernetes", "vip_leaseannotations", "{}")}, func(*Config) {}},
		{"settings without effect are told once a reason", input{env: env("zebra_url", "x", "zebra_version", "6", "svc_leasename", "x")},
			func(c *Config) {
				c.Notices = []string{"svc_leasename: " + alwaysElect, "zebra_url, zebra_version: " + noZebra}
			}},
		{"unknown settings in the environment are told", input{env: env("vip_inteface", "x", "vip_cidr", "32", "svc_other", "x")},
			func(c *Config) {
				c.Notices = []string{
					`"vip_cidr": no effect: unknown setting in the environment`,
					`"vip_inteface": no effect: unknown setting in the environment: did you mean vip_interface?`,
				}
			}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := test.input.parse(t)
			if err != nil {
				t.Fatal(err)
			}
			want := defaults()
			test.want(&want)
			if diff := cmp.Diff(&want, got, compareAddr); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestParseErrors(t *testing.T) {
	for _, test := range []struct {
		name  string
		input input
		want  []string
	}{
		{"nothing switched on", input{}, []string{"cp_enable, svc_enable: no features: want at least one of them true"}},
		{"all at once, each with its origin", input{
			args: []string{"--port=0", "--config-file", "/config.yaml"},
			env:  env("vip_arp", "maybe", "vip_leaseduration", "1"),
			file: "vip_routingprotocol: 3\nvip_interfaze: eth0\n",
		}, []string{
			`config_file /config.yaml: line 2: "vip_interfaze": unknown setting: did you mean vip_interface?`,
			`vip_arp (environment): "maybe" is not allowed: want true or false`,
			`vip_routingprotocol (file, line 1): "3" is not allowed: want a number, 4 to 255`,
			`vip_leaseduration (environment): "1" is not allowed: want seconds, or a duration such as 1500ms, 2s to 1h0m0s`,
			`port (flag --port): "0" is not allowed: want a port, 1 to 65535`,
		}},
		{"protocol of another range", input{env: env("vip_routingprotocol", "256")},
			[]string{`vip_routingprotocol (environment): "256" is not allowed: want a number, 4 to 255`}},
		{"no mode", input{env: env("vip_arp", "false")}, []string{"vip_arp, bgp_enable, vip_routingtable, vip_wireguard: no mode: want one of them true"}},
		{"two modes", input{env: env("vip_arp", "true", "bgp_enable", "true")},
			[]string{"vip_arp, bgp_enable, vip_routingtable, vip_wireguard: several modes: want one of them true"}},
		{"BGP without peers", input{env: env("bgp_enable", "true")},
			[]string{"bgp_peers: missing: BGP mode needs a peer: bgp_peers, bgp_peeraddress, vipod_bgp_config or annotation"}},
		{"BGP settings against each other", input{env: env("bgp_enable", "true", "bgp_peers", "192.0.2.1:65001", "bgp_sourceip", "192.0.2.9",
			"bgp_sourceif", "eth0", "mpbgp_nexthop", "fixed", "bgp_peeraddress", "192.0.2.1")}, []string{
			"bgp_sourceip, bgp_sourceif: both are given: want one of them",
			"mpbgp_nexthop fixed needs mpbgp_ipv4 or mpbgp_ipv6",
			"peer 192.0.2.1: given twice: want it once",
		}},
		{"anycast without BGP", input{env: env("vipod_pod_anycast", "203.0.113.0/24")},
			[]string{"vipod_pod_anycast: needs BGP mode: want bgp_enable true"}},
		{"BFD", input{env: env("bgp_enable", "true", "bgp_peers", "192.0.2.1:65001::true:::true")},
			[]string{"bgp_peers: peer 192.0.2.1: BFD and multihop: want one of them: BFD is for peers on the same link"}},
		{"peer in the wrong form", input{env: env("bgp_enable", "true", "bgp_peers", "192.0.2.1:65001:hunter2:perhaps")},
			[]string{"bgp_peers (environment): peer 1: the part for multihop is neither true nor false; a password with a colon goes into a file"}},
		{"control plane without address", input{env: env("cp_enable", "true")},
			[]string{"address: missing: cp_enable needs the address of the control plane's VIP"}},
		{"dynamic DNS without a name", input{env: env("cp_enable", "true", "address", "api.example.com,198.51.100.9", "vip_ddns", "true")},
			[]string{"vip_ddns: true is not allowed: want one host name and nothing else in address, by which DHCP is asked"}},
		{"dynamic DNS and routers", input{env: env("address", "api.example.com", "vip_ddns", "true", "vip_routingtable", "true")},
			[]string{"vip_ddns: true is not allowed: an address from DHCP is of one link, and with routing table routers bring what is for a VIP"}},
		{"no mode of names", input{env: env("dns_mode", "both")},
			[]string{`dns_mode (environment): "both" is not allowed: want first, ipv4, ipv6 or dual`}},
		{"DHCP as address", input{env: env("address", "0.0.0.0")},
			[]string{`address (environment): "0.0.0.0" asks for DHCP, and the control plane needs a fixed address`}},
		{"address with a prefix length", input{env: env("address", "198.51.100.9/24")},
			[]string{`address (environment): "198.51.100.9/24" has a prefix length: want the address alone, and the length in vip_subnet`}},
		{"address that is no address", input{env: env("address", "198.51.100.900")},
			[]string{`address (environment): "198.51.100.900" is not allowed: want addresses such as 198.51.100.7, or host names, with commas between`}},
		{"one of several addresses that is none", input{env: env("address", "198.51.100.9, 198.51.100.900,2001:db8::9")},
			[]string{`address (environment): "198.51.100.900" is not allowed: want addresses such as 198.51.100.7, or host names, with commas between`}},
		{"one of several ranges that is none", input{env: env("vipod_service_cidr", "10.96.0.0/12,10.96.0.0/33")},
			[]string{`vipod_service_cidr (environment): "10.96.0.0/33" is not allowed: want ranges such as 10.96.0.0/12 with commas between, or auto`}},
		{"multicast address", input{env: env("vip_address", "ff02::1")},
			[]string{`vip_address (environment): "ff02::1" cannot be a VIP: it has a zone, or is IPv4-mapped, multicast, loopback or link-local`}},
		{"two names, two addresses", input{env: env("address", "198.51.100.9", "vip_address", "198.51.100.8")},
			[]string{"address, vip_address: both are given and they differ: want one of them"}},
		{"lease of half a second more", input{env: env("vip_leaseduration", "2500ms")},
			[]string{"vip_leaseduration: 2.5s is not allowed: want whole seconds, since Leases store no less"}},
		{"renewals too far apart", input{env: env("vip_retryperiod", "3")},
			[]string{"vip_retryperiod: 3s is not allowed: want at most 2.5s, half of vip_leaseduration, so that one lost renewal does not cost the VIPs"}},
		{"deadline outside", input{env: env("vip_renewdeadline", "5")},
			[]string{"vip_renewdeadline: 5s is not allowed: want more than vip_retryperiod (1s) and less than vip_leaseduration (5s)"}},
		{"fast announcements", input{env: env("vip_arpRate", "100")},
			[]string{`vip_arpRate (environment): "100" is not allowed: want milliseconds, or a duration such as 1500ms, 500ms to 1h0m0s`}},
		{"two intervals", input{env: env("vip_arpRate", "3000", "vipod_announce_interval", "60")},
			[]string{"vip_arpRate, vipod_announce_interval: both are given: want one of them"}},
		{"forwarding method of IPVS", input{env: env("lb_fwdmethod", "tunnel")},
			[]string{`lb_fwdmethod (environment): "tunnel" is not allowed: want nftables, local or masquerade: this build has no IPVS, so no tunnel, directroute or bypass`}},
		{"unknown daemon", input{env: env("vipod_components", "vipd,natd")},
			[]string{`vipod_components (environment): "natd" is not allowed: want names of daemons with commas between: elector, vipd, linkd, arpd, bgpd, egressd, metricsd`}},
		{"no such file", input{env: env("config_file", "/nowhere")},
			[]string{"config_file: open /nowhere: file does not exist"}},
		{"file that is no mapping", input{env: env("config_file", "/config.yaml"), file: "- a\n- b\n"},
			[]string{"config_file /config.yaml: line 1: want settings, each as name: value"}},
		{"two documents", input{env: env("config_file", "/config.yaml"), file: "port: 1\n---\nport: 2\n"},
			[]string{"config_file /config.yaml: want one YAML document, and nothing behind it"}},
		{"key twice, by its alias too", input{env: env("config_file", "/config.yaml"), file: "vipod_service_cidr: auto\negress_servicecidr: auto\n"},
			[]string{"config_file /config.yaml: line 2: vipod_service_cidr: given twice: want it once"}},
		{"nested value", input{env: env("config_file", "/config.yaml"), file: "address: {a: b}\nport: [[1]]\n"},
			[]string{"config_file /config.yaml: line 1: address: want a single value or a list of them\n" +
				"line 2: port: want single values without commas in the list"}},
		{"file in a file", input{env: env("config_file", "/config.yaml"), file: "config_file: /other\n"},
			[]string{"config_file /config.yaml: line 1: config_file: a file cannot name another one"}},
		{"key of a flag", input{env: env("config_file", "/config.yaml"), file: "controlplane: true\n"},
			[]string{`config_file /config.yaml: line 1: "controlplane": unknown setting: did you mean cp_enable?`}},
		{"control characters are quoted and long values cut", input{env: env("vip_nodename", "\x1b[2J"+strings.Repeat("x", 1000))},
			[]string{`vip_nodename (environment): "\x1b[2J` + strings.Repeat("x", 96) + `..." is not allowed: want the name of a Node`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := test.input.parse(t)
			if err == nil {
				t.Fatalf("no error, but %+v", got)
			}
			if diff := cmp.Diff(strings.Join(test.want, "\n"), err.Error()); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestHostnameThatIsNoNodeNameIsAnError(t *testing.T) {
	s := Sources{
		LookupEnv: func(name string) (string, bool) { v, ok := env()[name]; return v, ok },
		ReadFile:  input{}.readFile,
		Hostname:  func() (string, error) { return "my_host", nil },
	}
	if _, err := Parse(s); err == nil || !strings.Contains(err.Error(), `vip_nodename: missing: the host's name "my_host"`) {
		t.Error(err)
	}
	s.Hostname = func() (string, error) { return "", errors.New("no name") }
	if _, err := Parse(s); err == nil || !strings.Contains(err.Error(), "vip_nodename: missing: no name") {
		t.Error(err)
	}
}

func TestAddressTakesHostNames(t *testing.T) {
	c, err := input{env: env("cp_enable", "true", "address", "API.example.com.,198.51.100.9,api.example.com", "dns_mode", "dual")}.parse(t)
	if err != nil {
		t.Fatal(err)
	}
	want := ControlPlane{Addresses: []netip.Addr{netip.MustParseAddr("198.51.100.9")}, Names: []string{"api.example.com"}}
	got := ControlPlane{Addresses: c.ControlPlane.Addresses, Names: c.ControlPlane.Names}
	if diff := cmp.Diff(want, got, cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{})); diff != "" || c.NameMode != NameDual {
		t.Errorf("mode %s, control plane (-want +got):\n%s", c.NameMode, diff)
	}
}
