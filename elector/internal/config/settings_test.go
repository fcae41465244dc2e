package config

import (
	"bytes"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite golden files")

const page = "../../SETTINGS.md"

func TestSettingsPageIsGenerated(t *testing.T) {
	got := Markdown()
	if *update {
		if err := os.WriteFile(page, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("SETTINGS.md is old, run with -update (-have +want)\n%s", diff)
	}
}

func TestNamesAndFlagsAreUnique(t *testing.T) {
	seen := map[string]string{}
	for row := range rows() {
		for _, name := range row.names() {
			if other, ok := seen[name]; ok {
				t.Errorf("%s is %s and %s", name, other, row.name)
			}
			seen[name] = row.name
		}
	}
	fset := flag.NewFlagSet("elector", flag.ContinueOnError)
	AddFlags(fset) // panics on a flag that is there twice
	for _, taken := range []string{"o", "state-dir", "log-level"} {
		if fset.Lookup(taken) != nil {
			t.Errorf("--%s is every daemon's own flag", taken)
		}
	}
}

func TestDefaultsAreAllowed(t *testing.T) {
	for row := range rows() {
		if err := row.setDefault(&raw{}); err != nil {
			t.Error(err)
		}
		if row.doc == "" || row.allowed == "" {
			t.Errorf("%s: no doc, or nothing is allowed", row.name)
		}
	}
}

func TestHelpNamesEverySettingThatHasAFlag(t *testing.T) {
	fset := flag.NewFlagSet("elector", flag.ContinueOnError)
	var out bytes.Buffer
	fset.SetOutput(&out)
	AddFlags(fset)
	fset.PrintDefaults()
	for row := range rows() {
		if len(row.flags) > 0 && !strings.Contains(out.String(), "file: "+row.name) {
			t.Errorf("--help does not name %s", row.name)
		}
	}
}

// Every setting of kube-vip is either understood or named as unknown; the
// list is that of its documentation.
func TestEverySettingOfKubeVipIsKnown(t *testing.T) {
	known := map[string]bool{}
	for row := range rows() {
		for _, name := range row.names() {
			known[name] = true
		}
	}
	for name := range strings.FieldsSeq(kubeVipNames) {
		if !known[name] {
			t.Errorf("%s is not in the table", name)
		}
	}
}

const kubeVipNames = `vip_loglevel instance_name INSTANCE_NAME vip_interface vip_interfaceloglobal vip_servicesinterface
vip_allow_interface_not_up vip_loseleadership vip_loseleadership_timeout_seconds vip_leaderelection vip_leasename
vip_leaseduration vip_renewdeadline vip_retryperiod vip_leaseannotations vip_nodename vip_address address port vip_subnet
vip_ddns cp_namespace cp_enable cp_detect kubernetes_addr svc_enable svc_election svc_namespace svc_leasename lb_class_only
lb_class_name lb_class_legacy_handling per_service_election_on_demand annotation vip_singlenode vip_startleader vip_arp
vip_arpRate vip_preserve_on_leadership_loss vip_wireguard vip_routingtable vip_routingtableid vip_routingtabletype
vip_routingprotocol vip_cleanroutingtable vip_skipdad dns_mode dhcp_mode dhcp_backoff_attempts disable_service_updates
bgp_enable bgp_attach_ip_to_interface bgp_routerinterface bgp_routerid bgp_as bgp_peers bgp_peeraddress bgp_peeras
bgp_peerpass bgp_multihop bgp_sourceif bgp_sourceip bgp_hold_time bgp_keepalive_interval mpbgp_nexthop mpbgp_ipv4 mpbgp_ipv6
control_plane_health_check_address control_plane_health_check_period_seconds control_plane_health_check_timeout_seconds
control_plane_health_check_failure_threshold control_plane_health_check_ca_path zebra_enable zebra_url zebra_version
zebra_software_name lb_enable lb_port lb_fwdmethod backend_health_check_interval enable_service_security
enable_node_labeling prometheus_server egress_podcidr egress_servicecidr egress_withnftables egress_enableinternalsnat
egress_clean EGRESS_CLEAN k8s_config_file enable_endpoints mirror_dest_interface iptables_backend health_check_port
enable_upnp config_file debounce_time vip_configmap`

func FuzzDecodeFile(f *testing.F) {
	for _, seed := range []string{
		"", "port: 6443\n", "vip_subnet: 24,64\naddress: [198.51.100.9]\n", "- a", "a: &x [*x]", "? [a]\n: b",
		"port: 1\n---\nport: 2", "\x00", "port: !!binary aGk=\n", "<<: {port: 1}\n", "*a", "&a", "port: |\n  1\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		values, err := decodeFile(data)
		again, errAgain := decodeFile(data)
		if diff := cmp.Diff(values, again, cmp.AllowUnexported(given{})); diff != "" || (err == nil) != (errAgain == nil) {
			t.Fatalf("two answers for one file\n%s", diff)
		}
		in := input{env: map[string]string{"config_file": "/config.yaml"}, files: map[string]string{"/config.yaml": string(data)}}
		c, err := in.parse(t)
		if err != nil {
			return
		}
		if c.Protocol < 4 || c.Protocol > 255 || c.RetryPeriod > c.LeaseDuration/2 || len(c.ControlPlane.Addresses) > maxAddresses ||
			!c.Services.Enabled && !c.ControlPlane.Enabled || c.ControlPlane.Enabled && len(c.ControlPlane.Addresses) == 0 {
			t.Fatalf("accepted: %+v", c)
		}
	})
}
