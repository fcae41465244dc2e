package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/vipod/vipod/deploy/lab"
	"github.com/vipod/vipod/shared/ownership"
)

func TestE2EDaemonsRunWithTheirOwnUIDAndCapabilitiesOnly(t *testing.T) {
	e := beside(t)
	for _, node := range e.Nodes() {
		for _, d := range ownership.Table() {
			p, _ := e.Daemon(node, d.Name)
			got, err := procStatus(p.PID)
			e.must(err)
			uid, gid := fmt.Sprintf("%[1]d %[1]d %[1]d %[1]d", d.UID), fmt.Sprintf("%[1]d %[1]d %[1]d %[1]d", ownership.Group)
			for field, want := range map[string]string{
				"Uid": uid, "Gid": gid, "Groups": "", "NoNewPrivs": "1",
				"CapPrm": mask(d), "CapEff": mask(d), "CapBnd": mask(d),
			} {
				if got[field] != want {
					t.Errorf("%s on %s: %s is %q, want %q", d.Name, node, field, got[field], want)
				}
			}
		}
	}
}

func TestE2EMetricsOfTheWholePodAreOnOnePage(t *testing.T) {
	e := begin(t)
	vip, name := e.vip(), "measured"
	owner := e.served(name, vip)
	key := `key="default.` + name + `"`
	e.within(soon, "the owner's page tells of its VIP", func() error {
		p := e.scrape(owner)
		var errs []error
		for _, series := range []string{"vipod_vip_desired", "vipod_vip_present", "vipod_vip_announced"} {
			errs = append(errs, want(series, p.sum(series, key), 2)) // two addresses
		}
		return firstError(append(errs,
			want("kube_vip_is_leader", p.sum("kube_vip_is_leader", `lease_name="vipod-`+owner+`"`, `component="elector"`), 1),
			want("services", p.sum("kube_vip_active_services", `namespace="default"`) >= 1, true),
			want("failovers", p.sum("vipod_failovers_total") >= 1, true),
		)...)
	})
	p := e.scrape(owner)
	if left := p.sum("vipod_grant_remaining_seconds", `grant="node"`); left <= 0 || left > leaseDuration.Seconds() {
		t.Errorf("%v s are left of the grant, want more than 0 and at most %v", left, leaseDuration)
	}
	for _, component := range lab.DaemonNames() {
		label := fmt.Sprintf("component=%q", component)
		e.must(want("up, "+component, p.sum("vipod_component_up", label), 1))
		if len(p.find("go_goroutines", label)) != 1 {
			t.Errorf("no go_goroutines of %s", component)
		}
	}
	for _, series := range p.find("vipod_vip_desired", `address="`+vip.V4.String()+`"`) {
		if p[series] != 1 {
			t.Errorf("%s is %v", series, p[series])
		}
	}
	for _, node := range e.others(owner) {
		if p := e.scrape(node); p.sum("vipod_vip_desired", key) != 0 {
			t.Errorf("%s desires the VIP as well", node)
		}
	}
	e.stop(owner, unix.SIGKILL, ownership.Arpd)
	e.must(want("a killed component is up", e.scrape(owner).sum("vipod_component_up", `component="arpd"`), 0))
	e.start(owner, ownership.Arpd)
	e.within(soon, "it is up again", func() error {
		return want("up", e.scrape(owner).sum("vipod_component_up", `component="arpd"`), 1)
	})
	if page := e.visit(owner, "2112", "/"); !strings.Contains(page, "default."+name) {
		t.Errorf("the page for people does not show the VIP:\n%s", page)
	}
}

// unconcerned are the daemons that have nothing to do for a VIP over ARP and
// NDP without further wishes.
var unconcerned = []string{ownership.Linkd, ownership.Bgpd, ownership.Egressd}

func TestE2EEveryBinaryPrintsItsStatus(t *testing.T) {
	e := beside(t)
	vip, name := e.vip(), "printed"
	owner := e.served(name, vip)
	for _, daemon := range lab.DaemonNames() {
		for _, command := range []string{"status", "healthz"} {
			if out, err := e.as(daemon, owner, nil, command); err != nil {
				t.Errorf("%s %s: %v: %s", daemon, command, err, out)
			}
		}
		if slices.Contains(unconcerned, daemon) {
			continue
		}
		table, err := e.as(daemon, owner, nil, "status")
		if err != nil || !strings.Contains(table, vip.V4.String()) || !strings.Contains(table, vip.V6.String()) {
			t.Errorf("%s status: %v, want both addresses in\n%s", daemon, err, table)
		}
		out, err := e.as(daemon, owner, nil, "status", "-o", "json")
		if err != nil || !json.Valid([]byte(out)) || !strings.Contains(out, vip.V4.String()) {
			t.Errorf("%s status -o json: %v\n%s", daemon, err, out)
		}
	}
	table, err := e.as(ownership.Metricsd, owner, nil, "status")
	e.must(err)
	for _, component := range lab.DaemonNames() {
		if !strings.Contains(table, component) {
			t.Errorf("metricsd status shows no %s:\n%s", component, table)
		}
	}
}
