// Package metrics makes a daemon's registry. Names begin with vipod_, or with
// kube_vip_ where dashboards of kube-vip use them.
package metrics

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/vipod/vipod/shared/version"
)

// New returns a registry with the process's own metrics and a constant
// vipod_build_info of 1.
func New() *prometheus.Registry {
	r := prometheus.NewRegistry()
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name:        "vipod_build_info",
		Help:        "A constant 1 with the build's version and commit as labels.",
		ConstLabels: prometheus.Labels{"version": version.Version, "commit": version.Commit},
	})
	build.Set(1)
	r.MustRegister(build,
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

// Handler serves the registry in Prometheus' text format.
func Handler(r prometheus.Gatherer) http.Handler {
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{})
}
