package reconcile

import (
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/vipod/vipod/linkd/internal/lease"
	"github.com/vipod/vipod/linkd/internal/plan"
	"github.com/vipod/vipod/shared/bootclock"
)

// Metrics are linkd's.
type Metrics struct {
	passes       *prometheus.CounterVec
	passSeconds  prometheus.Histogram
	kernelErrors *prometheus.CounterVec
	rejected     prometheus.Counter
	links        *prometheus.GaugeVec
	states       *prometheus.GaugeVec
	expires      *prometheus.GaugeVec
	dhcp         *countsCollector
}

// NewMetrics registers the metrics.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	m := &Metrics{
		passes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "vipod_linkd_passes_total", Help: "Passes over documents and kernel, by result.",
		}, []string{"result"}),
		passSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "vipod_linkd_pass_seconds", Help: "Time of a pass.", Buckets: prometheus.ExponentialBuckets(0.0005, 4, 8),
		}),
		kernelErrors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "vipod_linkd_kernel_errors_total", Help: "Operations on links that the kernel refused.",
		}, []string{"op"}),
		rejected: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "vipod_linkd_documents_rejected_total", Help: "Documents of elector that could not be read.",
		}),
		links: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "vipod_linkd_links", Help: "Links that VIPs need: owned, adopted, or refused.",
		}, []string{"state"}),
		states: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "vipod_linkd_dhcp_clients", Help: "DHCP clients by family and state.",
		}, []string{"family", "state"}),
		expires: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "vipod_linkd_dhcp_lease_expiry_boottime_seconds",
			Help: "When a lease expires, on the clock of vipod_linkd_boottime_seconds.",
		}, []string{"link", "family"}),
		dhcp: newCountsCollector(),
	}
	boot := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "vipod_linkd_boottime_seconds", Help: "CLOCK_BOOTTIME now.",
	}, func() float64 { return bootclock.Now().Seconds() })
	registry.MustRegister(m.passes, m.passSeconds, m.kernelErrors, m.rejected, m.links, m.states, m.expires, m.dhcp, boot)
	return m
}

func (m *Metrics) pass(took time.Duration, err error) {
	result := "ok"
	if err != nil {
		result = "failed"
	}
	m.passes.WithLabelValues(result).Inc()
	m.passSeconds.Observe(took.Seconds())
}

func (m *Metrics) failed(op plan.Op) {
	m.kernelErrors.WithLabelValues(strings.TrimPrefix(fmt.Sprintf("%T", op), "plan.")).Inc()
}

// ended keeps the counts of a client that is no more.
func (m *Metrics) ended(c lease.Counts) { m.dhcp.keep(c) }

func (m *Metrics) count(r *Reconciler) {
	m.links.Reset()
	for _, v := range r.verdicts {
		switch {
		case v.Owned:
			m.links.WithLabelValues("owned").Inc()
		case v.There:
			m.links.WithLabelValues("adopted").Inc()
		default:
			m.links.WithLabelValues("refused").Inc()
		}
	}
	m.states.Reset()
	m.expires.Reset()
	var running lease.Counts
	for key, c := range r.clients {
		family := "ipv6"
		if key.is4 {
			family = "ipv4"
		}
		s := c.Status()
		running = sum(running, s.Counts)
		m.states.WithLabelValues(family, string(s.State)).Inc()
		if s.Held {
			m.expires.WithLabelValues(key.link, family).Set(s.Lease.Expire.Seconds())
		}
	}
	m.dhcp.set(running)
}
