package gather

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/vipod/vipod/metricsd/internal/pod"
)

var (
	descDesired = desc("vipod_vip_desired",
		"1 if this node is to hold and announce the address, 0 if not (any more, or not yet).", "key", "address")
	descPresent = desc("vipod_vip_present",
		"1 if the address is in the kernel and marked as ours.", "key", "address")
	descAnnounced = desc("vipod_vip_announced",
		"1 if the first announcements of the VIP were sent.", "key", "address")
	descGrant = desc("vipod_grant_remaining_seconds",
		"How long this node may go on claiming VIPs without another renewal, 0 if it may not.", "grant")
	descUp = desc("vipod_component_up",
		"1 if the component answers on its socket.", "component")
	descUnreadable = desc("vipod_documents_unreadable",
		"Documents of the state directory that cannot be read; the last good ones stay in force.")
)

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

// files turns a snapshot and the siblings' results into metrics.
type files struct {
	snapshot pod.Snapshot
	up       map[string]bool
}

// Describe implements prometheus.Collector.
func (f files) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		descDesired, descPresent, descAnnounced, descGrant, descUp, descUnreadable,
	} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (f files) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	for _, v := range f.snapshot.VIPs {
		present := v.Present()
		for _, ip := range slices.SortedFunc(maps.Keys(present), netip.Addr.Compare) {
			wanted := v.Wanted(ip)
			gauge(descDesired, number(wanted), v.Key, ip.String())
			gauge(descPresent, number(present[ip]), v.Key, ip.String())
			gauge(descAnnounced, number(wanted && v.Announced()), v.Key, ip.String())
		}
	}
	for grant, left := range f.snapshot.Granted {
		gauge(descGrant, left.Seconds(), string(grant))
	}
	for component, up := range f.up {
		gauge(descUp, number(up), component)
	}
	gauge(descUnreadable, float64(len(f.snapshot.Problems)))
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// Counters are what metricsd itself counts over time.
type Counters struct {
	registry  *prometheus.Registry
	failovers prometheus.Counter
	duration  prometheus.Histogram
	errors    *prometheus.CounterVec
}

// NewCounters returns counters at zero, those of the siblings' errors
// included.
func NewCounters(siblings []string) *Counters {
	c := &Counters{
		registry: prometheus.NewRegistry(),
		failovers: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "vipod_failovers_total",
			Help: "VIPs that this node took over or took back, counted when announced.",
		}),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "vipod_failover_duration_seconds",
			Help: "This node's share of a fail-over: from the VIP's document seen active until its announcement seen.",
			// From a pass of two daemons to a machine that does not get on.
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "vipod_scrape_errors_total",
			Help: "Answers of a component's socket that could not be used, in whole or in part.",
		}, []string{ComponentLabel, "reason"}),
	}
	for _, s := range siblings {
		for _, r := range Reasons() {
			c.errors.WithLabelValues(s, string(r))
		}
	}
	c.registry.MustRegister(c.failovers, c.duration, c.errors)
	return c
}

// Failovers counts what a look found finished.
func (c *Counters) Failovers(list []pod.Failover) {
	for _, f := range list {
		c.failovers.Inc()
		if f.Known {
			c.duration.Observe(f.Took.Seconds())
		}
	}
}

// gather returns the families that no sibling may add to.
func (c *Counters) gather(f files) ([]*dto.MetricFamily, error) {
	r := prometheus.NewRegistry()
	if err := r.Register(f); err != nil {
		return nil, err
	}
	return prometheus.Gatherers{r, c.registry}.Gather()
}
