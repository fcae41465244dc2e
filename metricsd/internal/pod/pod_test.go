package pod_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vipod/vipod/metricsd/internal/pod"
	"github.com/vipod/vipod/shared/ownership"
	"github.com/vipod/vipod/shared/schema"
	"github.com/vipod/vipod/shared/statetest"
)

const key = "default.web"

// clock is set by the tests.
type clock struct{ now time.Duration }

// listen sets where the endpoint is to be.
func listen(address string) func(*schema.Node) {
	return func(n *schema.Node) { n.Settings.MetricsAddress = address }
}

func newReader(p *statetest.Pod) (*pod.Reader, *clock) {
	c := &clock{now: time.Hour}
	return pod.NewReader(slog.New(slog.DiscardHandler), p.Dir, p.Boot, func() time.Duration { return c.now }), c
}

func TestNetnsAnEmptyStateDirectoryIsNoProblem(t *testing.T) {
	p := statetest.New(t)
	r, _ := newReader(p)
	s, finished := r.Look()
	if s.Node != nil || len(s.VIPs)+len(s.Problems)+len(finished) > 0 {
		t.Errorf("got %+v, %v", s, finished)
	}
	if diff := cmp.Diff(names(), s.Components()); diff != "" {
		t.Errorf("components (-want +got):\n%s", diff)
	}
}

func TestNetnsDocumentsOfThreeDaemonsJoinByKey(t *testing.T) {
	p := statetest.New(t)
	vip := statetest.VIP(key, schema.StateActive, "eth0", "198.51.100.7", "2001:db8::7")
	p.Write(ownership.Elector, "vips/"+key, vip)
	p.Write(ownership.Vipd, "vips/"+key, statetest.Status(vip, schema.ConditionPresent, schema.False, "198.51.100.7"))
	p.Write(ownership.Arpd, "vips/"+key, statetest.Status(vip, schema.ConditionAnnounced, schema.True))
	// vipd still has an address that nobody wants any more.
	gone := statetest.VIP("default.gone", schema.StateActive, "eth0")
	p.Write(ownership.Vipd, "vips/default.gone", statetest.Status(gone, schema.ConditionPresent, schema.True, "198.51.100.9"))
	r, _ := newReader(p)
	s, _ := r.Look()
	want := []pod.VIPReport{
		{Key: "default.gone", Addresses: addresses("198.51.100.9", true)},
		{Key: key, State: schema.StateActive, Announced: true, Grant: schema.GrantNode,
			Addresses: append(addresses("198.51.100.7", true), addresses("2001:db8::7", false)...)},
	}
	if diff := cmp.Diff(want, s.Report(nil).VIPs, cmp.Comparer(sameIP)); diff != "" {
		t.Errorf("VIPs (-want +got):\n%s", diff)
	}
}

func TestNetnsABadFileIsAProblemAndTheLastGoodOneStays(t *testing.T) {
	p := statetest.New(t)
	p.WriteNode(p.Node(listen(":2112")))
	p.Write(ownership.Elector, "vips/"+key, statetest.VIP(key, schema.StateActive, "eth0", "198.51.100.7"))
	r, _ := newReader(p)
	r.Look()
	p.WriteRaw(ownership.Elector, "node", []byte("{"))
	p.WriteRaw(ownership.Elector, "vips/"+key, []byte(`{"schema":"vipod.vip/9","instance":"x"}`))
	s, _ := r.Look()
	if s.Node == nil || s.Node.Name != "node-a" || len(s.VIPs) != 1 || !s.VIPs[0].Active() {
		t.Errorf("last good documents are not in force: %+v", s)
	}
	if len(s.Problems) != 2 {
		t.Errorf("problems: %v, want two", s.Problems)
	}
}

func TestNetnsGrantRunsOutAndIsNotHeldInAnotherBoot(t *testing.T) {
	p := statetest.New(t)
	p.Write(ownership.Elector, "vips/"+key, statetest.VIP(key, schema.StateActive, "eth0"))
	p.Write(ownership.Elector, "vips/"+schema.ControlPlaneKey, statetest.VIP(schema.ControlPlaneKey, schema.StateStandby, "eth0"))
	r, c := newReader(p)
	grant := func(boot string) {
		until := map[schema.GrantName]int64{schema.GrantNode: int64(time.Hour + 5*time.Second)}
		p.Write(ownership.Elector, "grant", &schema.Grant{Boot: boot, ValidUntil: until})
	}
	for _, test := range []struct {
		name string
		boot string
		now  time.Duration
		want time.Duration
	}{
		{"fresh", p.Boot, time.Hour, 5 * time.Second},
		{"later", p.Boot, time.Hour + 4*time.Second, time.Second},
		{"over", p.Boot, 2 * time.Hour, 0},
		{"another boot", "other", time.Hour, 0},
	} {
		grant(test.boot)
		c.now = test.now
		s, _ := r.Look()
		want := map[schema.GrantName]time.Duration{schema.GrantNode: test.want, schema.GrantControlPlane: 0}
		if diff := cmp.Diff(want, s.Granted); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}

func TestNetnsFailoverLastsFromActiveUntilAnnounced(t *testing.T) {
	p := statetest.New(t)
	r, c := newReader(p)
	look := func(after time.Duration) []pod.Failover {
		c.now += after
		_, finished := r.Look()
		return finished
	}
	standby := statetest.VIP(key, schema.StateStandby, "eth0", "198.51.100.7")
	p.Write(ownership.Elector, "vips/"+key, standby)
	p.Write(ownership.Arpd, "vips/"+key, statetest.Status(standby, schema.ConditionAnnounced, schema.True)) // of an earlier time
	if got := look(0); got != nil {
		t.Fatalf("standby finished %v", got)
	}
	active := statetest.VIP(key, schema.StateActive, "eth0", "198.51.100.7")
	p.Write(ownership.Elector, "vips/"+key, active)
	if got := look(time.Second); got != nil {
		t.Fatalf("an announcement of an older document finished %v", got)
	}
	p.Write(ownership.Arpd, "vips/"+key, statetest.Status(active, schema.ConditionAnnounced, schema.True))
	want := []pod.Failover{{Key: key, Took: 20 * time.Millisecond, Known: true}}
	if diff := cmp.Diff(want, look(20*time.Millisecond)); diff != "" {
		t.Errorf("finished (-want +got):\n%s", diff)
	}
	if got := look(time.Second); got != nil {
		t.Errorf("finished twice: %v", got)
	}
	again := statetest.VIP(key, schema.StateActive, "eth0", "198.51.100.7")
	again.Epoch = "8" // lost and won again between two looks
	p.Write(ownership.Elector, "vips/"+key, again)
	p.Write(ownership.Arpd, "vips/"+key, statetest.Status(again, schema.ConditionAnnounced, schema.True))
	if diff := cmp.Diff([]pod.Failover{{Key: key}}, look(time.Second)); diff != "" {
		t.Errorf("begin and end in one look (-want +got):\n%s", diff)
	}
}

func TestNetnsVIPThatWasActiveAtTheFirstLookIsNotMeasured(t *testing.T) {
	p := statetest.New(t)
	active := statetest.VIP(key, schema.StateActive, "eth0", "198.51.100.7")
	p.Write(ownership.Elector, "vips/"+key, active)
	r, c := newReader(p)
	r.Look()
	c.now += time.Second
	p.Write(ownership.Arpd, "vips/"+key, statetest.Status(active, schema.ConditionAnnounced, schema.True))
	if _, finished := r.Look(); finished != nil {
		t.Errorf("finished %v", finished)
	}
}

func TestAddressesOfOneVIPAreBounded(t *testing.T) {
	status := &schema.Status{Key: key}
	ip := mustIP("203.0.113.0")
	for range 1000 {
		ip = ip.Next()
		status.Addresses = append(status.Addresses, schema.AddressStatus{IP: ip, Present: true})
	}
	if n := len(pod.VIP{Key: key, Vipd: status}.Present()); n != 64 {
		t.Errorf("%d addresses, want 64", n)
	}
}

func TestTableOfTheWholePod(t *testing.T) {
	r := pod.Report{
		Node: "node-a", Phase: schema.PhaseRunning, Synced: true,
		Components: []pod.Component{
			{Name: "elector", Answer: pod.Answer{Enabled: true, Up: true, Ready: true, Version: "v0.1.0"},
				Conditions: []schema.Condition{{Type: "Ready", Status: schema.True}}},
			{Name: "vipd", Answer: pod.Answer{Enabled: true, Up: true, Version: "v0.1.0\x1b[2J", Message: "503\nnot\tyet"},
				Conditions: []schema.Condition{{Type: "Fenced", Status: schema.False, Message: "no nf_tables"}}},
			{Name: "arpd"},
		},
		VIPs: []pod.VIPReport{
			{Key: "default.web", State: schema.StateActive, Announced: true, Grant: schema.GrantNode, Remaining: 4.23,
				Addresses: append(addresses("198.51.100.7", true), addresses("2001:db8::7", false)...)},
			{Key: "default.none"},
		},
		Problems: map[string]string{"/x": "reading /x: wrong\nowner"},
	}
	var out strings.Builder
	if err := r.Print(&out); err != nil {
		t.Fatal(err)
	}
	want := `node node-a, running

COMPONENT  UP   READY  VERSION     CONDITIONS
elector    yes  yes    v0.1.0      -
vipd       yes  no     v0.1.0?[2J  Fenced=False no nf_tables; 503?not?yet
arpd       off  no     -           -

VIP           ADDRESS       STATE   PRESENT  ANNOUNCED  GRANT  REMAINING
default.web   198.51.100.7  active  yes      yes        node   4.2s
default.web   2001:db8::7   active  no       yes        node   4.2s
default.none  -             -       -        no         -      -

problem: reading /x: wrong?owner
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
}

// names are all daemons, in the order of the table.
func names() (list []string) {
	for _, d := range ownership.Table() {
		list = append(list, d.Name)
	}
	return list
}
