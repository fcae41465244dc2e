package gather_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/vipod/vipod/metricsd/internal/gather"
	"github.com/vipod/vipod/metricsd/internal/pod"
	"github.com/vipod/vipod/shared/ownership"
	"github.com/vipod/vipod/shared/schema"
	"github.com/vipod/vipod/shared/sock"
	"github.com/vipod/vipod/shared/statetest"
)

var update = flag.Bool("update", false, "write the golden files")

// listen sets where the endpoint is to be.
func listen(address string) func(*schema.Node) {
	return func(n *schema.Node) { n.Settings.MetricsAddress = address }
}

// newGatherer returns one over real files and sockets with a stopped clock.
func newGatherer(p *statetest.Pod) *gather.Gatherer {
	siblings, names := map[string]gather.Sibling{}, []string{}
	for _, d := range ownership.Table() {
		if d.Name != ownership.Metricsd {
			names = append(names, d.Name)
			siblings[d.Name] = sock.NewClient(p.Dir, d.Name)
		}
	}
	return &gather.Gatherer{
		Log:      slog.New(slog.DiscardHandler),
		Reader:   pod.NewReader(slog.New(slog.DiscardHandler), p.Dir, p.Boot, func() time.Duration { return time.Hour }),
		Siblings: siblings,
		Timeout:  time.Minute,
		Own:      prometheus.NewRegistry(),
		Counters: gather.NewCounters(names),
	}
}

// daemon answers like a daemon that has these metrics.
func daemon(metrics string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/metrics", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, metrics) })
	mux.HandleFunc("/readyz", func(http.ResponseWriter, *http.Request) {})
	return mux
}

func page(t *testing.T, g *gather.Gatherer) string {
	t.Helper()
	text, err := g.Page(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := gather.Parse(text); err != nil {
		t.Fatalf("page cannot be read: %v", err)
	}
	return string(text)
}

func TestNetnsPageOfTheWholePodIsTheGoldenOne(t *testing.T) {
	p := statetest.New(t)
	p.WriteNode(p.Node(listen(":2112")))
	until := map[schema.GrantName]int64{schema.GrantNode: int64(time.Hour + 4500*time.Millisecond)}
	p.Write(ownership.Elector, "grant", &schema.Grant{Boot: p.Boot, ValidUntil: until})
	web := statetest.VIP("default.web", schema.StateActive, "eth0", "198.51.100.7", "2001:db8::7")
	p.Write(ownership.Elector, "vips/default.web", web)
	p.Write(ownership.Elector, "vips/default.old", statetest.VIP("default.old", schema.StateDraining, "eth0", "198.51.100.8"))
	p.Write(ownership.Elector, "vips/_control-plane", statetest.VIP(schema.ControlPlaneKey, schema.StateStandby, "eth0", "203.0.113.1"))
	p.Write(ownership.Vipd, "vips/default.web",
		statetest.Status(web, schema.ConditionPresent, schema.True, "198.51.100.7", "2001:db8::7"))
	p.Write(ownership.Arpd, "vips/default.web", statetest.Status(web, schema.ConditionAnnounced, schema.True))
	p.Serve(ownership.Elector, daemon("# TYPE kube_vip_is_leader gauge\n"+
		"kube_vip_is_leader{node=\"node-a\",lease_name=\"plndr-cp-lock\"} 0\n"+
		"# TYPE kube_vip_active_services gauge\nkube_vip_active_services{namespace=\"default\"} 1\n"))
	p.Serve(ownership.Vipd, daemon("# TYPE vipod_build_info gauge\nvipod_build_info{version=\"v0.1.0\",commit=\"abc\"} 1\n"))
	got := page(t, newGatherer(p))

	const golden = "testdata/page.golden"
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("page (-golden +now):\n%s", diff)
	}
}

func TestNetnsAHostileSiblingCostsNoOtherItsMetrics(t *testing.T) {
	for _, test := range []struct {
		name   string
		arpd   http.Handler
		up     int
		reason string
	}{
		{"garbage", daemon("\x00\xff{{{ not metrics"), 1, "malformed"},
		{"20 MiB", daemon(strings.Repeat("x 1\n", 5<<20)), 1, "too_large"},
		{"5 MiB", daemon(strings.Repeat("x 1\n", 5<<18)), 1, "too_large"},
		{"duplicate families", daemon("# TYPE x gauge\nx 1\n# TYPE x gauge\nx 2\n"), 1, "malformed"},
		{"a family of metricsd", daemon("# TYPE vipod_component_up gauge\nvipod_component_up 1\n"), 1, "conflict"},
		{"an error page", http.NotFoundHandler(), 0, "unreachable"},
		{"hangs", hanging(false), 0, "timeout"},
		{"hangs in the middle", hanging(true), 0, "timeout"},
		{"redirects to itself", http.RedirectHandler("/metrics", http.StatusFound), 0, "unreachable"},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := statetest.New(t)
			p.Serve(ownership.Arpd, test.arpd)
			p.Serve(ownership.Vipd, daemon("vipd_works 1\n"))
			g := newGatherer(p)
			if test.reason == "timeout" {
				g.Timeout = gather.AskTimeout
			}
			page(t, g)
			got := page(t, g) // counts what was wrong with the first
			for _, want := range []string{
				`vipd_works{component="vipd"} 1`,
				`vipod_component_up{component="vipd"} 1`,
				fmt.Sprintf(`vipod_component_up{component="arpd"} %d`, test.up),
				fmt.Sprintf(`vipod_scrape_errors_total{component="arpd",reason=%q} 1`, test.reason),
			} {
				if !strings.Contains(got, want+"\n") {
					t.Errorf("page lacks %s:\n%.3000s", want, got)
				}
			}
		})
	}
}

// hanging answers nothing, or half of an answer, until its client leaves.
func hanging(begin bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if begin {
			_, _ = io.WriteString(w, "x 1\n")
			_ = http.NewResponseController(w).Flush()
		}
		<-r.Context().Done()
	})
}

func TestNetnsASocketOfAnotherUserIsNotBelieved(t *testing.T) {
	p := statetest.New(t)
	p.ServeAs(ownership.Arpd, ownership.UID(ownership.Vipd), daemon("stolen 1\n"))
	got := page(t, newGatherer(p))
	if strings.Contains(got, "stolen") || !strings.Contains(got, `vipod_component_up{component="arpd"} 0`) {
		t.Errorf("page:\n%s", got)
	}
}

func TestNetnsAComponentThatIsSwitchedOffIsNotAsked(t *testing.T) {
	p := statetest.New(t)
	node := p.Node(listen(""))
	node.Components = slices.DeleteFunc(node.Components, func(name string) bool { return name == ownership.Arpd })
	p.Write(ownership.Elector, "node", node)
	g := newGatherer(p)
	if got := page(t, g); strings.Contains(got, `vipod_component_up{component="arpd"}`) {
		t.Errorf("page:\n%s", got)
	}
	for _, c := range g.Report(t.Context()).Components {
		// metricsd asks itself, whatever the settings say.
		if want := slices.Contains(node.Components, c.Name) || c.Name == ownership.Metricsd; c.Enabled != want {
			t.Errorf("%s enabled: %t, want %t", c.Name, c.Enabled, want)
		}
	}
}

func TestNetnsReportTellsUpReadyAndVersion(t *testing.T) {
	p := statetest.New(t)
	p.Write(ownership.Vipd, "daemon", &schema.Daemon{Name: ownership.Vipd,
		Conditions: []schema.Condition{{Type: "Fenced", Status: schema.False, Since: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}}})
	p.Serve(ownership.Elector, daemon("vipod_build_info{version=\"v0.1.0\"} 1\n"))
	mux := http.NewServeMux()
	mux.HandleFunc("/metrics", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "vip watch is not ready", http.StatusServiceUnavailable)
	})
	p.Serve(ownership.Vipd, mux)
	got := map[string]pod.Component{}
	for _, c := range newGatherer(p).Report(t.Context()).Components {
		got[c.Name] = c
	}
	if c := got["elector"]; !c.Up || !c.Ready || c.Version != "v0.1.0" {
		t.Errorf("elector: %+v", c)
	}
	if c := got["vipd"]; !c.Up || c.Ready || !strings.Contains(c.Message, "vip watch is not ready") || len(c.Conditions) != 1 {
		t.Errorf("vipd: %+v", c)
	}
	if c := got["arpd"]; c.Up || c.Ready || c.Message == "" {
		t.Errorf("arpd: %+v", c)
	}
}

func TestNetnsFailoversAreCountedAndThoseSeenFromBothEndsMeasured(t *testing.T) {
	p := statetest.New(t)
	g := newGatherer(p)
	g.Counters.Failovers([]pod.Failover{{Took: 20 * time.Millisecond, Known: true}, {}})
	got := page(t, g)
	for _, want := range []string{
		"vipod_failovers_total 2", "vipod_failover_duration_seconds_count 1",
		`vipod_failover_duration_seconds_bucket{le="0.01"} 0`, `vipod_failover_duration_seconds_bucket{le="0.025"} 1`,
	} {
		if !strings.Contains(got, want+"\n") {
			t.Errorf("page lacks %s:\n%s", want, got)
		}
	}
}

func TestNetnsABrokenComponentIsLoggedOnceUntilItChanges(t *testing.T) {
	p := statetest.New(t)
	node := p.Node(listen(""))
	node.Components = []string{ownership.Elector, ownership.Vipd, ownership.Arpd}
	p.WriteNode(node)
	p.Serve(ownership.Elector, daemon(""))
	p.Serve(ownership.Vipd, daemon(""))
	p.Serve(ownership.Egressd, daemon(""))
	p.Serve(ownership.Arpd, daemon("vipod_component_up 1\n"))
	g := newGatherer(p)
	var log bytes.Buffer
	g.Log = slog.New(slog.NewTextHandler(&log, nil))
	for range 3 {
		if _, err := g.Page(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	if n := strings.Count(log.String(), "\n"); n != 1 {
		t.Errorf("%d lines, want 1:\n%s", n, log.String())
	}
}
