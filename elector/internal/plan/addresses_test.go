package plan

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestAddressesOfAService(t *testing.T) {
	loadBalancerIP := func(ip string) func(*corev1.Service) {
		return func(s *corev1.Service) { s.Spec.LoadBalancerIP = ip }
	}
	for _, test := range []struct {
		name    string
		changes []func(*corev1.Service)
		want    string
	}{
		{"none asked for", nil, ""},
		{"both families, trimmed, sorted, once each", []func(*corev1.Service){ips(" 2001:db8::80 , 198.51.100.80,,198.51.100.80 ")}, `
			shop.web 198.51.100.80/32@eth0,2001:db8::80/128@eth0 group=0 eligible
			group 0 [198.51.100.80 2001:db8::80] eligible=true candidates=any`},
		{"spec.loadBalancerIP", []func(*corev1.Service){loadBalancerIP("198.51.100.81")}, `
			shop.web 198.51.100.81/32@eth0 group=0 eligible
			group 0 [198.51.100.81] eligible=true candidates=any`},
		{"the annotation wins over spec.loadBalancerIP", []func(*corev1.Service){loadBalancerIP("198.51.100.81"), ips("198.51.100.80")}, `
			shop.web 198.51.100.80/32@eth0 group=0 eligible
			group 0 [198.51.100.80] eligible=true candidates=any`},
		{"the status is no source", []func(*corev1.Service){func(s *corev1.Service) {
			s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "198.51.100.80"}}
		}}, ""},
		{"a bad one leaves the good ones", []func(*corev1.Service){ips("198.51.100.80,nonsense!")}, `
			shop.web 198.51.100.80/32@eth0 group=0 eligible
			group 0 [198.51.100.80] eligible=true candidates=any
			refusal shop/web AddressRefused: address "nonsense!" is refused: it is not an IP address`},
		{"a family that the Service does not have", []func(*corev1.Service){ips("2001:db8::80"), func(s *corev1.Service) {
			s.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol}
		}}, `refusal shop/web AddressRefused: address "2001:db8::80" is refused: it is of family IPv6, which the Service does not have`},
		{"families not known", []func(*corev1.Service){ips("2001:db8::80"), func(s *corev1.Service) { s.Spec.IPFamilies = nil }}, `
			shop.web 2001:db8::80/128@eth0 group=0 eligible
			group 0 [2001:db8::80] eligible=true candidates=any`},
		{"16 are allowed, 17 are not", []func(*corev1.Service){ips(strings.Repeat("198.51.100.80,", 17))},
			`refusal shop/web TooManyAddresses: annotation kube-vip.io/loadbalancerIPs has 17 addresses, more than 16; the Service gets no VIP`},
		{"a huge list", []func(*corev1.Service){ips(strings.Repeat("x", 256<<10))},
			`refusal shop/web TooManyAddresses: annotation kube-vip.io/loadbalancerIPs has 262144 bytes, more than 4096; the Service gets no VIP`},
		{"control characters are quoted, long values cut", []func(*corev1.Service){ips("\x1b[31m" + strings.Repeat("é", 500))},
			`refusal shop/web AddressRefused: address "\x1b[31m` + strings.Repeat("é", 95) + `..." is refused: it is not an IP address`},
		{"a huge spec.loadBalancerIP", []func(*corev1.Service){loadBalancerIP(strings.Repeat("a", 256<<10))},
			`refusal shop/web AddressRefused: address "` + strings.Repeat("a", 100) + `..." is refused: it is not an IP address`},
	} {
		t.Run(test.name, func(t *testing.T) { check(t, world(svc("shop/web", test.changes...)), test.want) })
	}
}

func TestRefusedAddresses(t *testing.T) {
	for _, test := range []struct{ name, address, reason, why string }{
		{"DHCP misspelt", "0:0::0", ReasonAddressRefused, "asks for DHCP in a way that is not 0.0.0.0 or ::"},
		{"too many octets", "198.51.100.1.1", ReasonAddressRefused, "is not an IP address"},
		{"leading zero", "198.51.100.080", ReasonAddressRefused, "is not an IP address"},
		{"prefix", "198.51.100.80/24", ReasonAddressRefused, "is not an IP address"},
		{"zone", "2001:db8::80%eth0", ReasonAddressRefused, "has a zone"},
		{"IPv4-mapped", "::ffff:198.51.100.80", ReasonAddressRefused, "is an IPv4 address written as IPv6"},
		{"loopback", "127.0.0.53", ReasonAddressRefused, "is a loopback address"},
		{"IPv6 loopback", "::1", ReasonAddressRefused, "is a loopback address"},
		{"multicast", "224.0.0.251", ReasonAddressRefused, "is a multicast address"},
		{"IPv6 multicast", "ff02::1", ReasonAddressRefused, "is a multicast address"},
		{"link-local", "169.254.169.254", ReasonAddressRefused, "is a link-local address"},
		{"IPv6 link-local", "fe80::1", ReasonAddressRefused, "is a link-local address"},
		{"limited broadcast", "255.255.255.255", ReasonAddressRefused, "is the broadcast address"},
		{"this network", "0.1.2.3", ReasonAddressRefused, "is in 0.0.0.0/8, which no host has (RFC 1122)"},
		{"broadcast of the subnet", "198.51.100.255", ReasonAddressRefused, "is the first or last address of 198.51.100.0/24, which no host has"},
		{"network of the subnet", "203.0.113.0", ReasonAddressRefused, "is the first or last address of 203.0.113.0/24, which no host has"},
		{"this node's", "198.51.100.1", ReasonAddressRefused, "is an address of node n1"},
		{"another node's", "2001:db8::3", ReasonAddressRefused, "is an address of node n3"},
		{"the API server's", "198.51.100.250", ReasonAddressRefused, "is an address of the API server"},
		{"the control plane's VIP", "198.51.100.9", ReasonAddressRefused, "is the VIP of the control plane"},
		{"a cluster IP", "10.96.0.10", ReasonAddressRefused, "is the cluster IP of a Service"},
		{"a second cluster IP", "2001:db8:1::a", ReasonAddressRefused, "is the cluster IP of a Service"},
		{"in the Service CIDR", "10.97.1.1", ReasonAddressRefused, "is in the Service CIDR 10.97.0.0/16"},
	} {
		t.Run(test.name, func(t *testing.T) {
			dns := svc("kube-system/dns", func(s *corev1.Service) {
				s.Spec.Type, s.Spec.ClusterIP = corev1.ServiceTypeClusterIP, "10.96.0.10"
				s.Spec.ClusterIPs = []string{"10.96.0.10", "2001:db8:1::a"}
			})
			headless := svc("kube-system/peers", func(s *corev1.Service) { s.Spec.Type, s.Spec.ClusterIP = "", corev1.ClusterIPNone })
			in := world(svc("shop/web", ips(test.address+",203.0.113.80")), dns, headless)
			in.Config.ControlPlane.Addresses = addrs("198.51.100.9")
			in.Config.Services.CIDRs = prefixes("10.97.0.0/16")
			check(t, in, `
				shop.web 203.0.113.80/32@eth0 group=0 eligible
				group 0 [203.0.113.80] eligible=true candidates=any
				refusal shop/web `+test.reason+`: address "`+test.address+`" is refused: it `+test.why)
		})
	}
}

// An address of one node's link is known to that node alone: the plan stays the
// same on all of them, and the others find it by their probe.
func TestAddressThatOnlyThisNodesLinkKnowsIsNotServedHereAndNotRefused(t *testing.T) {
	check(t, world(svc("shop/web", ips("203.0.113.1,203.0.113.80"))), `
		shop.web 203.0.113.1/32@eth0,203.0.113.80/32@eth0 group=0 not here: 203.0.113.1 is this node's own address, on interface eth1
		group 0 [203.0.113.1 203.0.113.80] eligible=false candidates=any`)
}

func TestLastAddressOfAPointToPointLinkIsAHost(t *testing.T) {
	in := world(svc("shop/web", ips("203.0.113.129")))
	in.Links[2].Addresses = prefixes("203.0.113.128/31")
	check(t, in, `
		shop.web 203.0.113.129/32@eth0 group=0 eligible
		group 0 [203.0.113.129] eligible=true candidates=any`)
}

func TestOfTwoServicesOnOnePortTheOlderHasTheAddress(t *testing.T) {
	check(t, world(svc("shop/web", ips("198.51.100.80,198.51.100.81")), svc("shop/old", ips("198.51.100.80"))), `
		shop.old 198.51.100.80/32@eth0 group=0 eligible
		shop.web 198.51.100.81/32@eth0 group=1 eligible
		group 0 [198.51.100.80] eligible=true candidates=any
		group 1 [198.51.100.81] eligible=true candidates=any
		refusal shop/web AddressInUse: address 198.51.100.80 is refused: port 80/TCP on it belongs to Service shop/old, which is older`)
}

func TestOfTwoServicesOfOneAgeTheFirstByNameHasTheAddress(t *testing.T) {
	check(t, world(svc("shop/wb", ips("198.51.100.80")), svc("shop/wa", ips("198.51.100.80")), svc("pub/wz", ips("198.51.100.80"))), `
		pub.wz 198.51.100.80/32@eth0 group=0 eligible
		group 0 [198.51.100.80] eligible=true candidates=any
		refusal shop/wa AddressInUse: address 198.51.100.80 is refused: port 80/TCP on it belongs to Service pub/wz, which is older
		refusal shop/wb AddressInUse: address 198.51.100.80 is refused: port 80/TCP on it belongs to Service pub/wz, which is older`)
}

func TestOnePortOfTwoProtocolsIsNoClash(t *testing.T) {
	udp := func(s *corev1.Service) { s.Spec.Ports[0].Protocol = corev1.ProtocolUDP }
	if r := Plan(world(svc("shop/web", ips("198.51.100.80")), svc("shop/old", ips("198.51.100.80"), udp))).Refusals; len(r) > 0 {
		t.Error(r)
	}
}

func TestAServiceWithoutEndpointsKeepsItsPorts(t *testing.T) {
	old := svc("shop/old", ips("198.51.100.80"))
	in := world(svc("shop/web", ips("198.51.100.80")), old)
	in.Slices = in.Slices[:1]
	check(t, in, `
		shop.old 198.51.100.80/32@eth0 group=-1 not here: no endpoint of the Service serves on any node
		refusal shop/web AddressInUse: address 198.51.100.80 is refused: port 80/TCP on it belongs to Service shop/old, which is older`)
}

func TestAnnotationsThatCannotBeHonoured(t *testing.T) {
	served := `
		shop.web 198.51.100.80/32@eth0 group=0 eligible
		group 0 [198.51.100.80] eligible=true candidates=any
		`
	for _, test := range []struct {
		name    string
		changes []func(*corev1.Service)
		want    string
	}{
		{"UPnP", []func(*corev1.Service){note("kube-vip.io/forwardUPNP", "true")}, served +
			"refusal shop/web NotSupported: annotation kube-vip.io/forwardUPNP has no effect in this build; the Service is served without it"},
		{"UPnP that is off", []func(*corev1.Service){note("kube-vip.io/forwardUPNP", "false")}, served},
		{"a VLAN", []func(*corev1.Service){note(annotationVLAN, "eth0.4095")},
			`refusal shop/web InterfaceRefused: annotation kube-vip.io/serviceVLAN "eth0.4095" names VLAN 4095, which is not 1 to 4094; the Service gets no VIP`},
		{"an interface that cannot be", []func(*corev1.Service){note(annotationInterface, "../eth0")},
			`refusal shop/web InterfaceRefused: annotation kube-vip.io/serviceInterface "../eth0" is not the name of an interface; the Service gets no VIP`},
		{"a lease name with policy Local", []func(*corev1.Service){note(annotationLease, "common"), local},
			`refusal shop/web LeaseNameRefused: annotation kube-vip.io/leaseName needs externalTrafficPolicy Cluster; the Service gets no VIP`},
		{"a lease name that is none", []func(*corev1.Service){note(annotationLease, "a\nb")},
			`refusal shop/web LeaseNameRefused: annotation kube-vip.io/leaseName "a\nb" is not a name; the Service gets no VIP`},
	} {
		t.Run(test.name, func(t *testing.T) {
			check(t, world(svc("shop/web", append(test.changes, ips("198.51.100.80"))...)), test.want)
		})
	}
}
