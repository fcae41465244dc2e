package metricsd

import (
	"context"
	"encoding/json"
	"flag"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vipod/vipod/metricsd/internal/pod"
	"github.com/vipod/vipod/shared/daemon"
	"github.com/vipod/vipod/shared/ownership"
	"github.com/vipod/vipod/shared/schema"
	"github.com/vipod/vipod/shared/statetest"
)

// listen sets where the endpoint is to be.
func listen(address string) func(*schema.Node) {
	return func(n *schema.Node) { n.Settings.MetricsAddress = address }
}

func TestListenFlagTakesAnAddressOrNone(t *testing.T) {
	for value, ok := range map[string]bool{
		"": true, ":2112": true, "127.0.0.1:2112": true, "[2001:db8::1]:80": true,
		"2112": false, ":0": false, ":99999": false, "localhost:2112": false, ":http": false, "1.2.3:80": false,
	} {
		var o Options
		fs := flag.NewFlagSet("", flag.ContinueOnError)
		fs.SetOutput(io.Discard)
		fs.Var(&o.Listen, "listen", "")
		if err := fs.Parse([]string{"-listen", value}); (err == nil) != ok {
			t.Errorf("%q: %v, want ok: %t", value, err, ok)
		} else if ok && (!o.Listen.given || o.Listen.value != value) {
			t.Errorf("%q became %+v", value, o.Listen)
		}
	}
}

func free(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// run runs the daemon until the test ends and returns what stops it.
func run(t *testing.T, p *statetest.Pod, o *Options) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	env := &daemon.Env{Log: slog.New(slog.DiscardHandler), StateDir: p.Dir}
	done := make(chan error, 1)
	go func() { done <- o.Run(ctx, env) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
	}
	t.Cleanup(stop)
	return stop
}

// ask asks metricsd's own socket, without the check of its user.
func ask(t *testing.T, p *statetest.Pod, path string) (int, string) {
	t.Helper()
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", ownership.Socket(p.Dir, ownership.Metricsd))
	}
	c := http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
	r, err := c.Get("http://vipod" + path)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = r.Body.Close() }()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(b)
}

// eventually waits until the function returns no complaint.
func eventually(t *testing.T, complaint func() string) {
	t.Helper()
	var last string
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if last = complaint(); last == "" {
			return
		}
	}
	t.Fatal(last)
}

func selfReport(p *statetest.Pod) schema.Daemon {
	// Its owner is whoever runs the test.
	data, err := os.ReadFile(filepath.Join(ownership.Dir(p.Dir, ownership.Metricsd), "daemon.json"))
	if err != nil {
		return schema.Daemon{}
	}
	doc, err := schema.Decode[schema.Daemon](data)
	if err != nil {
		return schema.Daemon{}
	}
	return doc
}

func awaitListening(t *testing.T, p *statetest.Pod, status schema.ConditionStatus, reason string) {
	t.Helper()
	eventually(t, func() string {
		c, _ := schema.FindCondition(selfReport(p).Conditions, conditionListening)
		if c.Status != status || c.Reason != reason {
			return "condition " + string(c.Status) + " " + c.Reason + ", want " + string(status) + " " + reason
		}
		return ""
	})
}

func fetch(address string) (string, error) {
	c := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute}
	r, err := c.Get("http://" + address + "/metrics")
	if err != nil {
		return "", err
	}
	defer func() { _ = r.Body.Close() }()
	b, err := io.ReadAll(r.Body)
	return string(b), err
}

func TestNetnsEndpointOpensWhereTheNodeSaysAndFollowsIt(t *testing.T) {
	p := statetest.New(t)
	run(t, p, &Options{})
	awaitListening(t, p, schema.Unknown, "NoSettings")
	first, second := free(t), free(t)
	for _, address := range []string{first, second} {
		p.WriteNode(p.Node(listen(address)))
		eventually(t, func() string {
			if body, _ := fetch(address); !strings.Contains(body, "vipod_component_up") {
				return address + " does not answer"
			}
			return ""
		})
	}
	if _, err := fetch(first); err == nil {
		t.Error("the former address still answers")
	}
	node := p.Node(listen(""))
	p.Write(ownership.Elector, "node", node)
	awaitListening(t, p, schema.True, "Off")
	if _, err := fetch(second); err == nil {
		t.Error("answers although it is off")
	}
	eventually(t, func() string {
		if selfReport(p).Observed != node.Seen() {
			return "the report is not about the last settings"
		}
		return ""
	})
}

func TestNetnsFlagOverridesTheNode(t *testing.T) {
	p := statetest.New(t)
	p.WriteNode(p.Node(listen(free(t))))
	address := free(t)
	run(t, p, &Options{Listen: Address{given: true, value: address}})
	eventually(t, func() string {
		if body, _ := fetch(address); !strings.Contains(body, `go_goroutines{component="metricsd"}`) {
			return "the flag's address does not answer"
		}
		return ""
	})
}

func TestNetnsAddressInUseIsAConditionAndNotTheEnd(t *testing.T) {
	p := statetest.New(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p.WriteNode(p.Node(listen(l.Addr().String())))
	run(t, p, &Options{})
	awaitListening(t, p, schema.False, "CannotListen")
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	awaitListening(t, p, schema.True, "Listening")
}

func TestNetnsSocketAnswersForThePod(t *testing.T) {
	p := statetest.New(t)
	p.Write(ownership.Elector, "vips/default.web", statetest.VIP("default.web", schema.StateActive, "eth0", "198.51.100.7"))
	p.WriteRaw(ownership.Vipd, "vips/default.web", []byte("nonsense"))
	run(t, p, &Options{})
	eventually(t, func() string {
		if code, body := ask(t, p, "/readyz"); code != http.StatusOK {
			return "not ready: " + body
		}
		return ""
	})
	if code, _ := ask(t, p, "/healthz"); code != http.StatusOK {
		t.Errorf("/healthz: %d", code)
	}
	if _, body := ask(t, p, "/metrics"); !strings.Contains(body, `vipod_vip_desired{address="198.51.100.7",key="default.web"} 1`) {
		t.Errorf("/metrics lacks the VIP:\n%s", body)
	}
	_, body := ask(t, p, "/status")
	var r pod.Report
	if err := json.Unmarshal([]byte(body), &r); err != nil {
		t.Fatal(err)
	}
	bad := filepath.Join(ownership.VIPs(p.Dir, ownership.Vipd), "default.web.json")
	if len(r.VIPs) != 1 || len(r.Components) != len(ownership.Table()) || r.Problems[bad] == "" {
		t.Errorf("status: %+v", r)
	}
	eventually(t, func() string {
		if c, _ := schema.FindCondition(selfReport(p).Conditions, schema.ConditionDocuments); c.Status != schema.False {
			return "the unreadable document is not reported"
		}
		return ""
	})
}

func TestNetnsPagesStayWhileThePodStops(t *testing.T) {
	p := statetest.New(t)
	node := p.Node(listen(""))
	node.Phase = schema.PhaseStopping
	p.Write(ownership.Elector, "node", node)
	p.Serve(ownership.Elector, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	stop := run(t, p, &Options{})
	eventually(t, func() string {
		if code, _ := ask(t, p, "/readyz"); code != http.StatusOK {
			return "not ready"
		}
		return ""
	})
	ended := make(chan struct{})
	go func() { defer close(ended); stop() }()
	time.Sleep(300 * time.Millisecond)
	if code, body := ask(t, p, "/healthz"); code != http.StatusOK {
		t.Errorf("gone before elector stopped: %s", body)
	}
	node = p.Node(listen(""))
	node.Phase = schema.PhaseStopped
	p.Write(ownership.Elector, "node", node)
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Error("still there although elector stopped")
	}
}
