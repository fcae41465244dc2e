package engine

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/vipod/vipod/arpd/internal/link"
	"github.com/vipod/vipod/arpd/internal/schedule"
)

type metrics struct {
	sent   *prometheus.CounterVec
	errors *prometheus.CounterVec
	delay  prometheus.Histogram
	name   map[int]string // interface names by index, for the counts of ports
	closed map[string]link.Counts
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		sent: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "vipod_arpd_frames_sent_total",
			Help: "Frames handed to the kernel, by interface and kind.",
		}, []string{"interface", "kind"}),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "vipod_arpd_send_errors_total",
			Help: "Frames that the kernel did not take or that the fence dropped, by interface.",
		}, []string{"interface"}),
		delay: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "vipod_arpd_announcement_delay_seconds",
			Help:    "Time from seeing an address in the kernel to its first announcement.",
			Buckets: []float64{.0005, .001, .002, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5},
		}),
		name:   map[int]string{},
		closed: map[string]link.Counts{},
	}
	r.MustRegister(m.sent, m.errors, m.delay)
	return m
}

var (
	receivedDesc = prometheus.NewDesc("vipod_arpd_frames_received_total",
		"ARP and neighbor discovery frames read, by interface.", []string{"interface"}, nil)
	malformedDesc = prometheus.NewDesc("vipod_arpd_frames_malformed_total",
		"Frames read that claim nothing or make no sense, by interface.", []string{"interface"}, nil)
	droppedDesc = prometheus.NewDesc("vipod_arpd_frames_dropped_total",
		"Frames lost because more came in than are read, by interface.", []string{"interface"}, nil)
	conflictsDesc = prometheus.NewDesc("vipod_arpd_conflicts_total",
		"Times that another host began to claim one of our addresses.", nil, nil)
	defencesDesc = prometheus.NewDesc("vipod_arpd_defences_total",
		"Announcements made in answer to another host's claim.", nil, nil)
	probesDesc = prometheus.NewDesc("vipod_arpd_probes_total",
		"Addresses probed, by result: free or answered.", []string{"result"}, nil)
)

// Describe implements prometheus.Collector.
func (e *Engine) Describe(c chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{receivedDesc, malformedDesc, droppedDesc, conflictsDesc, defencesDesc, probesDesc} {
		c <- d
	}
}

// Collect implements prometheus.Collector.
func (e *Engine) Collect(c chan<- prometheus.Metric) {
	e.mu.Lock()
	n := e.schedule.Counters()
	counts := e.counts()
	e.mu.Unlock()
	counter := func(d *prometheus.Desc, v uint64, labels ...string) {
		c <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	counter(conflictsDesc, n.Conflicts)
	counter(defencesDesc, n.Defences)
	counter(probesDesc, n.Free, "free")
	counter(probesDesc, n.Answered, "answered")
	for name, k := range counts {
		counter(receivedDesc, k.Received, name)
		counter(malformedDesc, k.Malformed, name)
		counter(droppedDesc, k.Dropped, name)
	}
}

// counts sums the counts of all ports, those that are closed included, by
// interface.
func (e *Engine) counts() map[string]link.Counts {
	sums := map[string]link.Counts{}
	for name, k := range e.metrics.closed {
		sums[name] = k
	}
	for at, p := range e.ports {
		add(sums, e.metrics.interfaceName(at.Link), p.Counts())
	}
	return sums
}

func (m *metrics) interfaceName(index int) string {
	if name, ok := m.name[index]; ok {
		return name
	}
	return strconv.Itoa(index)
}

func add(sums map[string]link.Counts, name string, k link.Counts) {
	s := sums[name]
	sums[name] = link.Counts{
		Received: s.Received + k.Received, Malformed: s.Malformed + k.Malformed, Dropped: s.Dropped + k.Dropped,
	}
}

func (m *metrics) count(d schedule.Send, err error) {
	if err != nil {
		m.errors.WithLabelValues(d.Interface).Inc()
		return
	}
	m.sent.WithLabelValues(d.Interface, d.Kind.String()).Inc()
}
