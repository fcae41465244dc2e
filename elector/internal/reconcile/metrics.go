package reconcile

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/vipod/vipod/shared/version"
)

// Metrics are elector's, those of kube-vip's names included.
type Metrics struct {
	activeServices *prometheus.GaugeVec
	isLeader       *prometheus.GaugeVec
	transitions    *prometheus.CounterVec
	serviceEvents  *prometheus.CounterVec

	owned         prometheus.Gauge
	grant         *prometheus.GaugeVec
	claims        *prometheus.CounterVec
	renewals      *prometheus.CounterVec
	renewSeconds  prometheus.Histogram
	planSeconds   prometheus.Histogram
	requests      *prometheus.CounterVec
	eventsDropped prometheus.Counter
	statusWrites  *prometheus.CounterVec
	refusals      prometheus.Gauge
	ready         prometheus.Gauge
}

// NewMetrics registers elector's metrics.
func NewMetrics(r prometheus.Registerer, node string) *Metrics {
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
	}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	seconds := func(name, help string) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: name, Help: help, Buckets: prometheus.ExponentialBuckets(0.001, 2, 14),
		})
	}
	m := &Metrics{
		activeServices: gauge("kube_vip_active_services", "Services served by this node.", "namespace"),
		isLeader:       gauge("kube_vip_is_leader", "1 while this node holds the Lease or owns the VIP.", "node", "lease_name"),
		transitions:    counter("kube_vip_leader_election_transitions_total", "How often this node became the owner.", "lease_name"),
		serviceEvents:  counter("kube_vip_manager_all_services_events", "Events of the watch over Services.", "type"),

		owned:        prometheus.NewGauge(prometheus.GaugeOpts{Name: "vipod_elector_owned_addresses", Help: "Addresses that this node owns."}),
		grant:        gauge("vipod_elector_grant_remaining_seconds", "For how long this node may still claim its addresses.", "grant"),
		claims:       counter("vipod_elector_claims_total", "Claims of addresses by how they ended.", "result"),
		renewals:     counter("vipod_elector_lease_renewals_total", "Updates of Leases by how they ended.", "lease", "result"),
		renewSeconds: seconds("vipod_elector_lease_renew_seconds", "Duration of an update of a Lease."),
		planSeconds:  seconds("vipod_elector_plan_seconds", "Duration of a plan."),
		requests:     counter("vipod_elector_api_requests_total", "Requests to the API server; code 0 is no answer.", "verb", "resource", "code"),
		eventsDropped: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "vipod_elector_events_dropped_total", Help: "Events that were not written, to spare the API server."}),
		statusWrites: counter("vipod_elector_service_status_writes_total", "Writes of Services' status by how they ended.", "result"),
		refusals:     prometheus.NewGauge(prometheus.GaugeOpts{Name: "vipod_elector_refusals", Help: "Requests of Services that are refused."}),
		ready:        prometheus.NewGauge(prometheus.GaugeOpts{Name: "vipod_elector_node_ready", Help: "1 while this node can serve VIPs."}),
	}
	build := gauge("kube_vip_build_info", "A constant 1 with version, build and node as labels.", "version", "build", "node")
	build.WithLabelValues(version.Version, version.Commit, node).Set(1)
	r.MustRegister(m.activeServices, m.isLeader, m.transitions, m.serviceEvents, m.owned, m.grant, m.claims, m.renewals,
		m.renewSeconds, m.planSeconds, m.requests, m.eventsDropped, m.statusWrites, m.refusals, m.ready, build)
	return m
}

// Request counts one request to the API server.
func (m *Metrics) Request(verb, resource string, code int) {
	m.requests.WithLabelValues(verb, resource, strconv.Itoa(code)).Inc()
}

// ServiceEvent counts one event of the watch over Services.
func (m *Metrics) ServiceEvent(kind string) { m.serviceEvents.WithLabelValues(kind).Inc() }
