package reconcile

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/vipod/vipod/egressd/internal/plan"
)

// Metrics are egressd's own.
type Metrics struct {
	elements     *prometheus.GaugeVec
	pods         *prometheus.GaugeVec
	backends     prometheus.Gauge
	forgotten    prometheus.Counter
	passes       *prometheus.CounterVec
	duration     prometheus.Histogram
	kernelErrors prometheus.Counter
	rejected     prometheus.Counter
	tunnels      *tunnelMetrics
}

// NewMetrics registers the metrics. dropped returns the packets that the
// tables have dropped since they were made.
func NewMetrics(reg prometheus.Registerer, dropped func() (map[plan.Kind]uint64, error)) *Metrics {
	m := &Metrics{
		elements: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "vipod_egressd_elements", Help: "Elements of sets and maps in the kernel by table."}, []string{"table"}),
		pods: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "vipod_egressd_pods", Help: "Pods by what becomes of their connections: translated, forwarded to the owner or held."}, []string{"state"}),
		backends: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "vipod_egressd_backends", Help: "Backends over which connections to the control plane are spread here."}),
		forgotten: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "vipod_egressd_connections_forgotten_total", Help: "Tracked connections that were forgotten since they had become wrong."}),
		passes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "vipod_egressd_reconcile_total", Help: "Passes of the reconcile loop by result."}, []string{"result"}),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "vipod_egressd_reconcile_duration_seconds", Help: "Time that a pass took.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, 1, 5}}),
		kernelErrors: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "vipod_egressd_kernel_errors_total", Help: "Transactions that the kernel refused."}),
		rejected: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "vipod_egressd_documents_rejected_total", Help: "Documents of elector that could not be read, once per error."}),
	}
	reg.MustRegister(m.elements, m.pods, m.backends, m.forgotten, m.passes, m.duration, m.kernelErrors, m.rejected)
	reg.MustRegister(drops{dropped})
	m.tunnels = newTunnelMetrics(reg)
	return m
}

var dropDesc = prometheus.NewDesc("vipod_egressd_dropped_packets_total",
	"Packets dropped or refused by table: egress those of pods that had no VIP to leave with or were not known, firewall those to other ports, wireguard those of tunnels that are for no port of a VIP or have no grant.",
	[]string{"table"}, nil)

// drops reads the kernel's counters when somebody asks.
type drops struct {
	read func() (map[plan.Kind]uint64, error)
}

// Describe implements prometheus.Collector.
func (drops) Describe(c chan<- *prometheus.Desc) { c <- dropDesc }

// Collect implements prometheus.Collector.
func (d drops) Collect(c chan<- prometheus.Metric) {
	counts, err := d.read()
	if err != nil {
		c <- prometheus.NewInvalidMetric(dropDesc, err)
		return
	}
	for kind, n := range counts {
		c <- prometheus.MustNewConstMetric(dropDesc, prometheus.CounterValue, float64(n), string(kind))
	}
}

func (m *Metrics) pass(took time.Duration, err error) {
	result := "ok"
	if err != nil {
		result = "error"
	}
	m.passes.WithLabelValues(result).Inc()
	m.duration.Observe(took.Seconds())
}
