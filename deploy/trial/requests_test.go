package trial

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

const metricsPage = `# HELP apiserver_request_total Counter of requests
# TYPE apiserver_request_total counter
apiserver_request_total{code="200",component="apiserver",dry_run="",group="coordination.k8s.io",resource="leases",scope="resource",subresource="",verb="PUT",version="v1"} 12
apiserver_request_total{code="409",component="apiserver",dry_run="",group="coordination.k8s.io",resource="leases",scope="resource",subresource="",verb="PUT",version="v1"} 1
apiserver_request_total{code="200",component="apiserver",dry_run="",group="",resource="services",scope="resource",subresource="status",verb="PATCH",version="v1"} 3
apiserver_request_total{code="200",component="",dry_run="",group="",resource="",scope="",subresource="/readyz",verb="GET",version=""} 7
apiserver_request_total{code="200",component="",dry_run="",group="",resource="",scope="",subresource="/metrics",verb="GET",version=""} 9
apiserver_requested_deprecated_apis{group=""} 1
`

func TestRequestsAreCountedByVerbAndResource(t *testing.T) {
	c, err := parseRequests([]byte(metricsPage))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Requests{"PUT leases": 13, "PATCH services/status": 3, "GET /readyz": 7}, c); diff != "" {
		t.Error(diff)
	}
	if got := c.Objects(); got != 16 {
		t.Errorf("%v requests about objects, want 16", got)
	}
	more := c.Since(Requests{"PUT leases": 10, "GET /readyz": 7})
	if diff := cmp.Diff(Requests{"PUT leases": 3, "PATCH services/status": 3}, more); diff != "" {
		t.Error(diff)
	}
	if _, err := parseRequests([]byte("apiserver_request_total{verb=\"GET\"} many\n")); err == nil {
		t.Error("no error about a number that is none")
	}
}
