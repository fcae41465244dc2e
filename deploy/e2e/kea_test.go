package e2e

import (
	"cmp"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipod/vipod/deploy/lab"
	"github.com/vipod/vipod/shared/ownership"
	"github.com/vipod/vipod/shared/schema"
	"github.com/vipod/vipod/shared/statefile"
)

// keaConfig lends the addresses of a pool in their order, to be renewed every
// two seconds.
const keaConfig = `{"Dhcp%[1]s": {
	"interfaces-config": {"interfaces": ["br0"], "service-sockets-require-all": true},
	"lease-database": {"type": "memfile", "name": "%[5]s", "lfc-interval": 0},
	"valid-lifetime": 120, "renew-timer": 2, "rebind-timer": 60, %[4]s
	"subnet%[1]s": [{"id": 1, "subnet": "%[2]s", "interface": "br0", "pools": [{"pool": "%[3]s"}], "reservations": [%[6]s]}],
	"loggers": [{"name": "kea-dhcp%[1]s", "severity": "INFO", "output_options": [{"output": "stdout"}]}]
}}`

// kea are Kea's servers, which remember their leases.
type kea struct {
	*env
	dir string
	// pool4 and pool6 are what they lend; "" for what other tests' servers do.
	pool4, pool6 string
}

// four runs the server of IPv4 until the test ends, with what is reserved for
// hosts.
func (k kea) four(reserved string) *dhcpServer {
	k.t.Helper()
	return k.serve("4", lab.LAN4, cmp.Or(k.pool4, "198.51.100.145-198.51.100.155"), `"authoritative": true,`, reserved)
}

// six runs the server of IPv6 until the test ends.
func (k kea) six() *dhcpServer {
	k.t.Helper()
	return k.serve("6", lab.LAN6, cmp.Or(k.pool6, "2001:db8:0:1::d00-2001:db8:0:1::dbf"),
		`"server-id": {"type": "LL", "htype": 1, "identifier": "020000000001", "persist": false},`, "")
}

func (k kea) serve(family string, subnet netip.Prefix, pool, more, reserved string) *dhcpServer {
	k.t.Helper()
	config, leases := filepath.Join(k.dir, "kea"+family+".conf"), filepath.Join(k.dir, "kea"+family+".csv")
	k.must(os.WriteFile(config, fmt.Appendf(nil, keaConfig, family, subnet, pool, more, leases, reserved), 0o600))
	s := k.runServer("env", "KEA_LOCKFILE_DIR="+k.dir, "KEA_PIDFILE_DIR="+k.dir, "kea-dhcp"+family, "-c", config)
	k.within(soon, "Kea serves DHCPv"+family, func() error {
		return want("its greeting", s.said("DHCP"+family+"_STARTED"), 1)
	})
	return s
}

func TestE2EAChangedAddressFromDHCPTakesThePlaceOfTheOld(t *testing.T) {
	e := begin(t)
	name := "changed"
	k := kea{env: e, dir: t.TempDir()}
	server := k.four("")
	e.create(lab.ServiceSpec{Name: name, VIPs: anyAddrs[:1], Pods: e.allPods(), Change: func(s *corev1.Service) {
		single := corev1.IPFamilyPolicySingleStack
		s.Spec.IPFamilyPolicy, s.Spec.IPFamilies = &single, []corev1.IPFamily{corev1.IPv4Protocol}
	}})
	owner := e.owned(name)
	first := e.lentOne(name)
	e.answers(first, 80)
	mac := e.service(name).Annotations[annotationMAC]

	server.stop()
	second := netip.MustParseAddr("198.51.100.150")
	k.four(fmt.Sprintf(`{"hw-address": %q, "ip-address": %q}`, mac, second))
	e.within(soon, "another address is lent", func() error {
		report, err := statefile.Read[schema.LinkStatus](filepath.Join(ownership.Links(e.StateDir(owner)), schema.Key("default", name)+".json"),
			ownership.UID(ownership.Linkd))
		if err == nil && (len(report.Leases) != 1 || report.Leases[0].IP != second) {
			err = fmt.Errorf("leases %v", report.Leases)
		}
		return err
	})
	took := e.within(soon, "status and annotation tell it", func() error {
		s := e.service(name)
		return firstError(want("the status", join(ingress(s)), second.String()), want("the annotation", s.Annotations[annotationRequested], second.String()))
	})
	t.Logf("told in status and annotation %v after linkd had the lease", took.Round(time.Millisecond))
	e.must(firstError(e.only(owner, second), e.nowhere(first)))
	e.answers(second, 80)
}

// lentOne waits until the status of a Service has one address, of IPv4.
func (e *env) lentOne(name string) (ip netip.Addr) {
	e.t.Helper()
	e.within(soon, name+" has an address", func() error {
		addrs := ingress(e.service(name))
		if len(addrs) != 1 || !lent4.Contains(addrs[0]) {
			return fmt.Errorf("status %v", addrs)
		}
		ip = addrs[0]
		return nil
	})
	return ip
}
