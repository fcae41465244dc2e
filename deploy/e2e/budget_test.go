package e2e

import (
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vipod/vipod/deploy/lab"
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
	time.Sleep(2 * calm) // Events about what was just done
	electors, server := e.asked(), e.leaseWrites()
	time.Sleep(restTime)
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
