package e2e

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipod/vipod/deploy/lab"
	"github.com/vipod/vipod/shared/ownership"
	"github.com/vipod/vipod/shared/schema"
	"github.com/vipod/vipod/shared/statefile"
)

func TestE2ESettingsOfANodeAreKubeVIPs(t *testing.T) {
	e := begin(t)
	vip, name := e.vip(), "settings"
	file := e.labFile("settings.yaml")
	e.must(os.WriteFile(file, []byte("vip_leaseduration: 7\nvipod_announce_interval: 30s\nprometheus_server: \":2114\"\n"), 0o644))
	e.restartWith("n1", []string{
		"config_file=" + file, "prometheus_server=:2113", // the environment wins over the file
		"vip_interface=auto", "vip_subnet=auto", "vip_routingprotocol=99",
	}, lab.DaemonNames()...)
	e.must(e.AwaitReady(e.ctx, "n1"))
	node, err := statefile.Read[schema.Node](filepath.Join(ownership.Dir(e.StateDir("n1"), ownership.Elector), "node.json"),
		ownership.UID(ownership.Elector))
	e.must(err)
	if s := node.Settings; s.Protocol != 99 || s.LeaseDurationMillis != 7000 || s.AnnounceIntervalMillis != 30000 || s.MetricsAddress != ":2113" {
		t.Errorf("settings in force: %+v", s)
	}
	e.create(lab.ServiceSpec{
		Name: name, VIPs: vip.Slice(), Pods: []string{"p1"}, Policy: corev1.ServiceExternalTrafficPolicyLocal,
	})
	e.must(want("the owner", e.owned(name), "n1"))
	for ip, network := range map[netip.Addr]netip.Prefix{vip.V4: lab.LAN4, vip.V6: lab.LAN6} {
		a, ok := e.address("n1", ip)
		if !ok || a.Protocol != 99 || a.Prefix.Bits() != network.Bits() {
			t.Errorf("%s is %+v, want protocol 99 and the prefix of %s", ip, a, network)
		}
		e.answers(ip, 80)
	}
	if page := e.visit("n1", "2113", "/metrics"); !strings.Contains(page, "vipod_vip_present") {
		t.Error("no metrics at the configured address")
	}
	e.must(want("the Lease's duration", *e.lease("vipod-n1").Spec.LeaseDurationSeconds, 7))
}

func TestE2EWrongSettingsAreRefusedByName(t *testing.T) {
	e := beside(t)
	file := e.labFile("wrong.yaml")
	e.must(os.WriteFile(file, []byte("svc_enable: true\nvip_interfaze: eth0\n"), 0o644))
	for _, c := range []struct {
		vars, flags string
		want        []string
	}{
		{vars: "svc_enable=true"},
		{vars: "svc_enable=true vip_routingprotocol=4"},
		{"svc_enable=true vip_routingprotocol=3", "", []string{"vip_routingprotocol", "4 to 255"}},
		{"svc_enable=true vip_routingprotocol=256", "", []string{"vip_routingprotocol", "4 to 255"}},
		{"svc_enable=true vip_leaseduration=0", "", []string{"vip_leaseduration", "2s"}},
		{"svc_enable=true bgp_enable=true", "", []string{"bgp_peers", "missing"}},
		{"svc_enable=true bgp_enable=true bgp_peers=198.51.100.9:65001:hunter2:perhaps", "", []string{"bgp_peers", "multihop"}},
		{"cp_enable=true", "", []string{"address", "missing"}},
		{"config_file=" + file, "", []string{"wrong.yaml", "line 2", "vip_interfaze", "vip_interface"}},
		// A flag wins over the environment: what is wrong there does not count.
		{"svc_enable=true vip_leaseduration=4", "--leaseDuration=1", []string{"leaseDuration"}},
	} {
		out, err := e.as(ownership.Elector, "n1", strings.Fields(c.vars), append([]string{"check"}, strings.Fields(c.flags)...)...)
		if (err != nil) != (c.want != nil) {
			t.Errorf("elector check with %s %s: %v: %s", c.vars, c.flags, err, out)
		}
		for _, w := range c.want {
			if !strings.Contains(out, w) {
				t.Errorf("elector check with %s %s does not say %q: %s", c.vars, c.flags, w, out)
			}
		}
	}
}

func TestE2ENodeWithoutArpdOwnsNothingAndWithoutAddressListensNowhere(t *testing.T) {
	e := begin(t)
	vips := e.vips(4)
	e.restartWith("n1", []string{"vipod_components=elector,vipd,metricsd", "prometheus_server="},
		ownership.Elector, ownership.Vipd, ownership.Metricsd)
	e.create(lab.ServiceSpec{
		Name: "only-here", VIPs: vips[0].Slice(), Pods: []string{"p1"}, Policy: corev1.ServiceExternalTrafficPolicyLocal,
	})
	for i, name := range []string{"elsewhere-1", "elsewhere-2", "elsewhere-3"} {
		if owner := e.served(name, vips[i+1]); owner == "n1" {
			t.Errorf("Service %s is on the node without arpd", name)
		}
	}
	e.told(leaseDuration+soon, "only-here", "NoEligibleNode", "arpd")
	e.must(firstError(e.nowhere(vips[0].V4), e.unserved("only-here")))
	if conn, err := e.Dial(e.ctx, "n1", "tcp", "127.0.0.1:2112"); err == nil {
		conn.Close()
		t.Error("metricsd listens although its address is empty")
	}
	if left := e.tagged("n1"); len(left) > 0 {
		t.Errorf("the node without arpd has %v", left)
	}
}
