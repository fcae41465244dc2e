package metrics_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/vipod/vipod/shared/metrics"
	"github.com/vipod/vipod/shared/version"
)

func TestRegistryServesBuildAndProcess(t *testing.T) {
	answer := httptest.NewRecorder()
	metrics.Handler(metrics.New()).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if answer.Code != http.StatusOK {
		t.Fatalf("status %d", answer.Code)
	}
	body := answer.Body.String()
	for _, want := range []string{
		`vipod_build_info{commit="` + version.Commit + `",version="` + version.Version + `"} 1` + "\n",
		"\ngo_goroutines ",
		"\nprocess_resident_memory_bytes ",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("metrics lack %q:\n%s", want, body)
		}
	}
}
