package e2e

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipod/vipod/deploy/lab"
)

// freeClusterIP is an address that a Service could get inside of the cluster.
const freeClusterIP = "2001:db8:0:f::ffff"

// annotationsMax is how many bytes the API server takes in all annotations of
// an object, keys and values.
const annotationsMax = 256 * 1024

func TestE2EHostileServicesAreRefusedWithAnEvent(t *testing.T) {
	e := beside(t)
	vip := e.vip()
	owner := e.served("bystander", vip)
	node, err := lab.NodeAddrs("n2")
	e.must(err)
	clusterIP := e.service("bystander").Spec.ClusterIPs[0]
	rows := []struct {
		name, value string
		words       []string
	}{
		{"node-v4", node.V4.String(), []string{"AddressRefused", "node n2"}},
		{"node-v6", node.V6.String(), []string{"AddressRefused", "node n2"}},
		{"api-server", lab.APIAddrs().V4.String(), []string{"AddressRefused", "API server"}},
		{"control-plane", lab.ControlPlaneVIP().V6.String(), []string{"AddressRefused", "control plane"}},
		{"cluster-ip", clusterIP, []string{"AddressRefused", "cluster IP"}},
		{"service-cidr", freeClusterIP, []string{"AddressRefused", "Service CIDR"}},
		{"loopback", "127.0.0.1", []string{"AddressRefused", "loopback"}},
		{"multicast", "ff02::1", []string{"AddressRefused", "multicast"}},
		// It asks for an address by DHCP, and here nobody gives one.
		{"unspecified", "0.0.0.0", []string{"DHCPNoServer", "eth0"}},
		{"malformed", "198.51.100.256", []string{"AddressRefused", "not an IP address"}},
		{"control-characters", "\x1b[2J\r\n\x00198.51.100.1", []string{"AddressRefused", `\x1b[2J`}},
		{"huge", strings.Repeat("1", annotationsMax-1024), []string{"TooManyAddresses", "bytes"}},
		{"thousand", thousand(), []string{"TooManyAddresses"}},
		{"duplicate", vip.V4.String(), []string{"AddressInUse", "bystander"}},
	}
	e.during(vip, func() {
		for _, row := range rows {
			e.create(lab.ServiceSpec{Name: "bad-" + row.name, Pods: e.allPods(),
				Annotations: map[string]string{lab.AnnotationVIPs: row.value}})
		}
		for _, row := range rows {
			e.told(soon, "bad-"+row.name, row.words...)
		}
	}).changedHands(0).lost(0)
	for _, row := range rows {
		if err := e.unserved("bad-" + row.name); err != nil {
			t.Errorf("%s: %v", row.name, err)
		}
		for _, event := range e.events("bad-" + row.name) {
			if strings.ContainsFunc(event, func(r rune) bool { return r < ' ' }) {
				t.Errorf("%s: an Event with control characters: %q", row.name, event)
			}
		}
	}
	e.stays("bystander", owner)
	e.must(firstError(e.only(owner, vip.V4), e.only(owner, vip.V6)))
	e.unharmed()

	// One good address among bad ones is served.
	good := e.vip()
	e.create(lab.ServiceSpec{Name: "half-bad", Pods: e.allPods(),
		Annotations: map[string]string{lab.AnnotationVIPs: "127.0.0.1, " + good.V4.String() + ",nonsense!"}})
	owner = e.owned("half-bad")
	e.hasStatus("half-bad", owner, []netip.Addr{good.V4})
	e.told(soon, "half-bad", "AddressRefused", "loopback")
}

// thousand returns a thousand addresses.
func thousand() string {
	var list []string
	for i := range 1000 {
		list = append(list, fmt.Sprintf("2001:db8:0:1::%x", 0x1000+i))
	}
	return strings.Join(list, ",")
}

func TestE2EAddressIsFreeForTheNextWhenItsOwnerLeaves(t *testing.T) {
	e := beside(t)
	vip := e.vip()
	e.served("first", vip)
	e.create(lab.ServiceSpec{Name: "second", VIPs: vip.Slice(), Pods: e.allPods()})
	e.told(soon, "second", "AddressInUse", "first")
	e.must(e.unserved("second"))
	e.must(e.DeleteService(e.ctx, "first"))
	e.owned("second")
	e.answers(vip.V4, 80)
}

func TestE2ESpecLoadBalancerIPIsJudgedToo(t *testing.T) {
	e := beside(t)
	e.create(lab.ServiceSpec{Name: "bad-field", Pods: e.allPods(),
		Change: func(s *corev1.Service) { s.Spec.LoadBalancerIP = lab.APIAddrs().V4.String() }})
	e.told(soon, "bad-field", "AddressRefused", "API server")
	e.must(e.unserved("bad-field"))
}
