package reconcile

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/vipod/vipod/shared/schema"
	"github.com/vipod/vipod/vipd/internal/plan"
)

// Metrics are vipd's own.
type Metrics struct {
	grants       atomic.Pointer[schema.Grants]
	addresses    *prometheus.GaugeVec
	passes       *prometheus.CounterVec
	duration     prometheus.Histogram
	kernelErrors *prometheus.CounterVec
	rejected     prometheus.Counter
}

// NewMetrics registers the metrics.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{
		addresses: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "vipod_vipd_addresses", Help: "Addresses of VIPs by what is in the kernel: present, muted or absent."},
			[]string{"state"}),
		passes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "vipod_vipd_reconcile_total", Help: "Passes of the reconcile loop by result."}, []string{"result"}),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "vipod_vipd_reconcile_duration_seconds", Help: "Time that a pass took.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, 1, 5}}),
		kernelErrors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "vipod_vipd_kernel_errors_total", Help: "Operations that the kernel refused."}, []string{"op"}),
		rejected: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "vipod_vipd_documents_rejected_total", Help: "Documents of elector that could not be read, once per error."}),
	}
	reg.MustRegister(m.addresses, m.passes, m.duration, m.kernelErrors, m.rejected)
	for _, g := range plan.Grants {
		reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "vipod_vipd_fence_remaining_seconds", Help: "Time until the fence closes for VIPs of this grant.",
			ConstLabels: prometheus.Labels{"grant": string(g)},
		}, func() float64 { return m.left(g).Seconds() }))
	}
	return m
}

// left is what is left of the grant that the kernel was given.
func (m *Metrics) left(g plan.Grant) time.Duration {
	grants := m.grants.Load()
	if grants == nil {
		return 0
	}
	return grants.Left(g, now())
}

func (m *Metrics) pass(took time.Duration, err error) {
	result := "ok"
	if err != nil {
		result = "error"
	}
	m.passes.WithLabelValues(result).Inc()
	m.duration.Observe(took.Seconds())
}
