package schema_test

import (
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"github.com/vipod/vipod/shared/schema"
)

// zeroFields returns the paths of the fields that hold nothing.
func zeroFields(doc any) []string {
	var zero []string
	var walk func(path string, v reflect.Value)
	walk = func(path string, v reflect.Value) {
		switch {
		case v.IsZero():
			zero = append(zero, path)
		case v.Kind() == reflect.Pointer:
			walk(path, v.Elem())
		case v.Kind() == reflect.Slice:
			walk(path+"[0]", v.Index(0))
		case v.Kind() == reflect.Struct && strings.HasSuffix(v.Type().PkgPath(), "shared/schema"):
			for i := range v.NumField() {
				walk(path+"."+v.Type().Field(i).Name, v.Field(i))
			}
		}
	}
	walk("", reflect.ValueOf(doc))
	return zero
}

// check is one change to a valid document, and part of the error it causes.
type check[T any] struct {
	name   string
	change func(*T)
	want   string
}

func runChecks[T any, P schema.Pointer[T]](t *testing.T, document string, checks []check[T]) {
	t.Helper()
	for _, c := range checks {
		t.Run(c.name, func(t *testing.T) {
			doc := full()[document].(P)
			c.change(doc)
			err := doc.Validate()
			switch {
			case c.want == "" && err != nil:
				t.Errorf("error %v, want none", err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
}

func TestValidateVIP(t *testing.T) {
	ip := func(s string) func(*schema.VIP) {
		return func(v *schema.VIP) { v.Addresses[1].IP = netip.MustParseAddr(s) }
	}
	runChecks(t, "vip", []check[schema.VIP]{
		{"valid", func(*schema.VIP) {}, ""},
		{"no addresses", func(v *schema.VIP) { v.Addresses = nil }, ""},
		{"announcement of a later release", func(v *schema.VIP) { v.Announce = append(v.Announce, "bgp") }, ""},
		{"standby", func(v *schema.VIP) { v.State = schema.StateStandby }, ""},
		{"control plane", func(v *schema.VIP) {
			v.Key, v.Kind, v.Grant = schema.ControlPlaneKey, schema.KindControlPlane, schema.GrantControlPlane
		}, ""},
		{"link-local address", ip("fe80::1"), ""},
		{"bad key", func(v *schema.VIP) { v.Key = "../x" }, `key "../x"`},
		{"bad kind", func(v *schema.VIP) { v.Kind = "pod" }, `kind "pod"`},
		{"bad state", func(v *schema.VIP) { v.State = "" }, `state ""`},
		{"bad grant", func(v *schema.VIP) { v.Grant = "lease" }, `grant "lease"`},
		{"no ip", func(v *schema.VIP) { v.Addresses[1].IP = netip.Addr{} }, "addresses[1]: ip is missing"},
		{"zone", ip("fe80::1%eth0"), "zone"},
		{"IPv4-mapped", ip("::ffff:198.51.100.1"), "IPv4-mapped"},
		{"unspecified", ip("::"), "unspecified"},
		{"multicast", ip("ff02::1"), "multicast"},
		{"loopback", ip("127.1.2.3"), "loopback"},
		{"broadcast", ip("255.255.255.255"), "broadcast"},
		{"prefix length 0", func(v *schema.VIP) { v.Addresses[0].PrefixLength = 0 }, "addresses[0]: prefixLength 0 is not 1 to 32"},
		{"prefix length 33", func(v *schema.VIP) { v.Addresses[0].PrefixLength = 33 }, "prefixLength 33 is not 1 to 32"},
		{"prefix length 129", func(v *schema.VIP) { v.Addresses[1].PrefixLength = 129 }, "prefixLength 129 is not 1 to 128"},
		{"bad interface", func(v *schema.VIP) { v.Addresses[0].Interface = "a/b" }, `interface "a/b"`},
	})
}

func TestValidateNode(t *testing.T) {
	runChecks(t, "node", []check[schema.Node]{
		{"valid", func(*schema.Node) {}, ""},
		{"stopped", func(n *schema.Node) { n.Phase = schema.PhaseStopped }, ""},
		{"no name", func(n *schema.Node) { n.Name = "" }, "node is empty"},
		{"no boot id", func(n *schema.Node) { n.Boot = "" }, "boot is empty"},
		{"no phase", func(n *schema.Node) { n.Phase = "" }, `phase ""`},
		{"protocol of the kernel's", func(n *schema.Node) { n.Settings.Protocol = 3 }, "protocol 3"},
		{"protocol over a byte", func(n *schema.Node) { n.Settings.Protocol = 256 }, "protocol 256"},
		{"no lease duration", func(n *schema.Node) { n.Settings.LeaseDurationMillis = 0 }, "leaseDurationMillis 0"},
		{"endless lease", func(n *schema.Node) { n.Settings.LeaseDurationMillis = 1 << 62 }, "leaseDurationMillis"},
		{"negative interval", func(n *schema.Node) { n.Settings.AnnounceIntervalMillis = -1 }, "announceIntervalMillis -1"},
		{"endless interval", func(n *schema.Node) { n.Settings.AnnounceIntervalMillis = 1 << 62 }, "announceIntervalMillis"},
	})
}

func TestValidateGrant(t *testing.T) {
	runChecks(t, "grant", []check[schema.Grant]{
		{"valid", func(*schema.Grant) {}, ""},
		{"nothing granted", func(g *schema.Grant) { g.ValidUntil = nil }, ""},
		{"no boot id", func(g *schema.Grant) { g.Boot = "" }, "boot is empty"},
		{"unknown grant", func(g *schema.Grant) { g.ValidUntil["other"] = 1 }, `"other"`},
		{"a grant that needs none", func(g *schema.Grant) { g.ValidUntil[schema.GrantNone] = 1 }, `"none"`},
	})
}

func TestValidateReports(t *testing.T) {
	runChecks(t, "status", []check[schema.Status]{
		{"valid", func(*schema.Status) {}, ""},
		{"no key", func(s *schema.Status) { s.Key = "" }, `key ""`},
	})
	runChecks(t, "daemon", []check[schema.Daemon]{
		{"valid", func(*schema.Daemon) {}, ""},
		{"no links", func(d *schema.Daemon) { d.Links = nil }, ""},
		{"no name", func(d *schema.Daemon) { d.Name = "" }, "name is empty"},
		{"bad link", func(d *schema.Daemon) { d.Links[0].Name = "" }, "links[0]: interface"},
	})
}

func TestValidateEgress(t *testing.T) {
	runChecks(t, "egress", []check[schema.Egress]{
		{"valid", func(*schema.Egress) {}, ""},
		{"nothing but pods", func(e *schema.Egress) { *e = schema.Egress{Key: e.Key, Pods: e.Pods} }, ""},
		{"bad key", func(e *schema.Egress) { e.Key = "../x" }, `key "../x"`},
		{"pod without an address", func(e *schema.Egress) { e.Pods[0] = netip.Addr{} }, "pods[0]"},
		{"pod on the loopback", func(e *schema.Egress) { e.Pods[1] = netip.MustParseAddr("::1") }, "pods[1]: ::1 is no pod's address"},
		{"network with a host part", func(e *schema.Egress) { e.Denied[0] = netip.MustParsePrefix("192.0.2.1/24") }, "denied[0]: 192.0.2.1/24 is not a network"},
		{"no network", func(e *schema.Egress) { e.Allowed[0] = netip.Prefix{} }, "allowed[0]"},
		{"port 0", func(e *schema.Egress) { e.Ports[0].Port = 0 }, "ports[0]: port is 0"},
		{"unknown protocol", func(e *schema.Egress) { e.Flush.SourcePorts[0].Protocol = "ICMP" }, `flush.sourcePorts[0]: protocol "ICMP"`},
		{"lower case", func(e *schema.Egress) { e.Flush.DestinationPorts[0].Protocol = "tcp" }, `protocol "tcp"`},
	})
	runChecks(t, "vip", []check[schema.VIP]{
		{"firewall with port 0", func(v *schema.VIP) { v.Firewall.Ports[0].Port = 0 }, "firewall.ports[0]: port is 0"},
		{"firewall without ports", func(v *schema.VIP) { v.Firewall.Ports = nil }, ""},
		{"balance without a port", func(v *schema.VIP) { v.Balance.Port = 0 }, "balance.port is 0"},
		{"backend without a port", func(v *schema.VIP) { v.Balance.Backends[0] = netip.MustParseAddrPort("198.51.100.11:0") }, "balance.backends[0]"},
		{"no backends", func(v *schema.VIP) { v.Balance.Backends = nil }, ""},
		{"a pod at no address", func(v *schema.VIP) { v.Via[0] = netip.MustParseAddr("0.0.0.0") }, "via[0]"},
	})
	runChecks(t, "node", []check[schema.Node]{
		{"bad network", func(n *schema.Node) { n.Settings.InternalNetworks[0] = netip.MustParsePrefix("203.0.113.1/25") }, "settings.internalNetworks[0]"},
	})
}

func TestValidateKey(t *testing.T) {
	label := strings.Repeat("a", 63)
	for key, valid := range map[string]bool{
		schema.ControlPlaneKey:              true,
		schema.Key("default", "web"):        true,
		schema.Key("default", "web.v1"):     true,
		schema.Key("kube-system", "0-a"):    true,
		schema.Key(label, label):            true,
		strings.Repeat("a", 200):            true,
		strings.Repeat("a", 201):            false,
		"":                                  false,
		".":                                 false,
		"..":                                false,
		".hidden":                           false,
		"a/b":                               false,
		"../../etc/passwd":                  false,
		"a\x00b":                            false,
		"a\nb":                              false,
		"a b":                               false,
		"Default.web":                       false,
		"défaut.web":                        false,
		"default.web\x1b[2J":                false,
		"default.web" + string([]byte{255}): false,
	} {
		if err := schema.ValidateKey(key); (err == nil) != valid {
			t.Errorf("ValidateKey(%q) = %v, want valid %v", key, err, valid)
		}
	}
}

func TestKeysOfTwoServicesNeverMeet(t *testing.T) {
	// A namespace is a label, a name may have dots in theory.
	seen := map[string][2]string{}
	for _, namespace := range []string{"a", "b", "a-b", "ab"} {
		for _, name := range []string{"a", "b", "a.b", "b.a", "a-b"} {
			key := schema.Key(namespace, name)
			if other, ok := seen[key]; ok {
				t.Errorf("%s/%s has the key of %v", namespace, name, other)
			}
			if key == schema.ControlPlaneKey {
				t.Errorf("%s/%s has the control plane's key", namespace, name)
			}
			seen[key] = [2]string{namespace, name}
		}
	}
}

func TestValidateInterface(t *testing.T) {
	for name, valid := range map[string]bool{
		"eth0": true, "lo": true, "a": true, "eth0.100": true, "br-0123456789ab": true, "wlan@x": true, "...": true,
		"": false, ".": false, "..": false, "br-0123456789abc": false, "a/b": false, "a:1": false, "a b": false,
		"a\tb": false, "a\x00": false, "a\x7f": false, "é": false, "a\u00a0": false,
	} {
		if err := schema.ValidateInterface(name); (err == nil) != valid {
			t.Errorf("ValidateInterface(%q) = %v, want valid %v", name, err, valid)
		}
	}
}

func TestAddressAsPrefix(t *testing.T) {
	a := schema.Address{IP: netip.MustParseAddr("198.51.100.7"), PrefixLength: 24}
	if want := netip.MustParsePrefix("198.51.100.7/24"); a.Prefix() != want {
		t.Errorf("Prefix = %s, want %s", a.Prefix(), want)
	}
}

func TestSeenNamesTheDocument(t *testing.T) {
	for name, doc := range full() {
		seen := doc.Head().Seen()
		if want := (schema.Observed{Instance: meta("").Instance, Generation: 7}); seen != want {
			t.Errorf("%s: Seen = %+v, want %+v", name, seen, want)
		}
	}
}

func TestValidateLinksOfVIP(t *testing.T) {
	link := func(change func(*schema.LinkSpec)) func(*schema.VIP) {
		return func(v *schema.VIP) { change(&v.Links[0]) }
	}
	runChecks(t, "vip", []check[schema.VIP]{
		{"as it is", func(*schema.VIP) {}, ""},
		{"name", link(func(l *schema.LinkSpec) { l.Name = "a/b" }), "not a valid name"},
		{"parent", link(func(l *schema.LinkSpec) { l.Parent = "" }), "not a valid name"},
		{"its own parent", link(func(l *schema.LinkSpec) { l.Parent = l.Name }), "its own parent"},
		{"kind", link(func(l *schema.LinkSpec) { l.Kind = "bridge" }), "not vlan or macvlan"},
		{"vlan 0", link(func(l *schema.LinkSpec) { l.Kind, l.VLAN = schema.LinkVLAN, 0 }), "not 1 to 4094"},
		{"vlan 4095", link(func(l *schema.LinkSpec) { l.Kind, l.VLAN = schema.LinkVLAN, 4095 }), "not 1 to 4094"},
		{"vlan 4094", link(func(l *schema.LinkSpec) { l.Kind, l.VLAN = schema.LinkVLAN, 4094 }), ""},
		{"group's mac", link(func(l *schema.LinkSpec) { l.MAC = "01:00:5e:00:00:01" }), "not a host's"},
		{"zero mac", link(func(l *schema.LinkSpec) { l.MAC = "00:00:00:00:00:00" }), "not a host's"},
		{"long mac", link(func(l *schema.LinkSpec) { l.MAC = "02:00:00:00:00:00:00:01" }), "not a host's"},
		{"rp_filter", link(func(l *schema.LinkSpec) { l.RPFilter = 3 }), "not 0 to 2"},
		{"hostname", link(func(l *schema.LinkSpec) { l.DHCP.Hostname = strings.Repeat("x", 254) }), "254 bytes"},
	})
}

func TestValidateLinkStatus(t *testing.T) {
	lease := func(change func(*schema.Lease)) func(*schema.LinkStatus) {
		return func(s *schema.LinkStatus) { change(&s.Leases[0]) }
	}
	runChecks(t, "link", []check[schema.LinkStatus]{
		{"as it is", func(*schema.LinkStatus) {}, ""},
		{"key", func(s *schema.LinkStatus) { s.Key = "" }, "key"},
		{"link", func(s *schema.LinkStatus) { s.Links[0].Name = " " }, "links[0]"},
		{"address", lease(func(l *schema.Lease) { l.IP = netip.IPv4Unspecified() }), "leases[0]"},
		{"source", lease(func(l *schema.Lease) { l.Source = schema.SourceStatic }), "dhcp4 or dhcp6"},
		{"boot", lease(func(l *schema.Lease) { l.Boot = "" }), "boot is empty"},
	})
}
