package e2e

import (
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vipod/vipod/deploy/lab"
	"github.com/vipod/vipod/deploy/probe"
)

const (
	// requestsPerSecond is what all electors together may ask of the API
	// server at rest: each node renews its Lease, one the control plane's.
	requestsPerSecond = 4
	restTime          = 20 * time.Second
	manyServices      = 20
)

func TestE2EAtRestTheAPIServerIsAskedFourTimesASecond(t *testing.T) {
	e := begin(t)
	leases := e.leases()
	for i, vip := range e.vips(manyServices) {
		e.create(lab.ServiceSpec{Name: fmt.Sprintf("many-%d", i), VIPs: vip.Slice(), Pods: e.allPods()})
	}
	for i := range manyServices {
		e.owned(fmt.Sprintf("many-%d", i))
	}
	if now := e.leases(); !slices.Equal(now, leases) {
		t.Errorf("Leases before %d Services: %q, after: %q", manyServices, leases, now)
	}
	time.Sleep(allRounds) // the first announcements, and Events about what was just done
	electors, server := e.asked(), e.leaseWrites()
	e.refreshesAreSpread(restTime)
	told, counted := e.asked()-electors, e.leaseWrites()-server
	t.Logf("in %v: electors tell of %v requests, the API server of %v writes to Leases", restTime, told, counted)
	// Every timer may fire once more at the edges of this time.
	if most := requestsPerSecond * (restTime.Seconds() + 1); told > most {
		t.Errorf("%v requests in %v, want at most %d a second", told, restTime, requestsPerSecond)
	}
	// The API server has a Lease of its own, renewed every 10 s.
	if own := 1 + restTime.Seconds()/10; counted > told+own {
		t.Errorf("the API server counts %v writes to Leases, of which electors tell only %v", counted, told)
	}
}

// refreshesAreSpread watches for d how addresses are announced at rest: each
// once a minute, and never many at once.
func (e *env) refreshesAreSpread(d time.Duration) {
	e.t.Helper()
	var capture *probe.Capture
	e.must(e.InNS("client", func() (err error) {
		capture, err = probe.Listen("eth0")
		return err
	}))
	time.Sleep(d)
	capture.Close()
	var refreshes []probe.Frame
	for _, f := range capture.Frames() {
		if f.Claims() && f.Unsolicited {
			refreshes = append(refreshes, f)
		}
	}
	due := 2 * manyServices * d.Seconds() / time.Minute.Seconds()
	e.t.Logf("%d refreshing frames in %v, about %.0f due", len(refreshes), d, due)
	if n := float64(len(refreshes)); n < due/3 || n > due*3 {
		e.t.Errorf("%v refreshing frames in %v, want about %.0f", n, d, due)
	}
	for i := range refreshes {
		const burst = 6 // of three nodes, by chance
		if i >= burst && refreshes[i].Time.Sub(refreshes[i-burst].Time) < 100*time.Millisecond {
			e.t.Errorf("%d refreshing frames within 100 ms, the last %s", burst+1, refreshes[i])
		}
	}
}

// leases returns the names of all Leases.
func (e *env) leases() []string {
	e.t.Helper()
	list, err := e.Client().CoordinationV1().Leases("").List(e.ctx, metav1.ListOptions{})
	e.must(err)
	var names []string
	for _, l := range list.Items {
		names = append(names, l.Name)
	}
	return names
}

// asked returns how many requests the electors say they have made.
func (e *env) asked() (sum float64) {
	e.t.Helper()
	for _, node := range e.Nodes() {
		sum += e.scrape(node).sum("vipod_elector_api_requests_total")
	}
	return sum
}

// leaseWrites returns how many writes of Leases the API server says it had.
func (e *env) leaseWrites() (sum float64) {
	e.t.Helper()
	body, err := e.Client().Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(e.ctx)
	e.must(err)
	p, err := parsePage(string(body))
	e.must(err)
	for _, verb := range []string{"POST", "PUT", "PATCH", "DELETE"} {
		sum += p.sum("apiserver_request_total", `resource="leases"`, `verb="`+verb+`"`)
	}
	return sum
}
