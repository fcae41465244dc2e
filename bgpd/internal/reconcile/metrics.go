package reconcile

import (
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/vipod/vipod/bgpd/internal/bfd"
	"github.com/vipod/vipod/bgpd/internal/session"
)

// Metrics are bgpd's.
type Metrics struct {
	info     *prometheus.GaugeVec
	paths    prometheus.Gauge
	sent     *prometheus.GaugeVec
	sessions *prometheus.GaugeVec
	lost     *prometheus.GaugeVec
	ignored  *prometheus.GaugeVec
	bfd      *prometheus.GaugeVec
	shown    map[string]string // the address shown of each peer
}

// NewMetrics registers them.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
		reg.MustRegister(g)
		return g
	}
	m := &Metrics{
		info:     gauge("kube_vip_manager_bgp_session_info", "1 for the state that the session with a peer is in.", "state", "peer"),
		sent:     gauge("vipod_bgpd_paths_announced", "Paths that the peer was told.", "peer"),
		sessions: gauge("vipod_bgpd_sessions", "Sessions with the peer that came up since the start.", "peer"),
		lost:     gauge("vipod_bgpd_sessions_lost", "Sessions with the peer that ended against our will.", "peer"),
		bfd:      gauge("vipod_bgpd_bfd_up", "1 while BFD with the peer is up, 0 while it is not; nothing without BFD.", "peer"),
		ignored:  gauge("vipod_bgpd_updates_ignored", "UPDATE messages of the peer, none of which is looked into.", "peer"),
		paths:    prometheus.NewGauge(prometheus.GaugeOpts{Name: "vipod_bgpd_paths_wanted", Help: "Paths that shall be announced."}),
		shown:    map[string]string{},
	}
	reg.MustRegister(m.paths)
	return m
}

// show brings the gauges up to date.
func (m *Metrics) show(states map[string]session.State, paths int) {
	m.paths.Set(float64(paths))
	for name, address := range m.shown {
		st, still := states[name]
		if still && label(name, st) == address {
			continue
		}
		m.info.DeletePartialMatch(prometheus.Labels{"peer": address})
		for _, g := range []*prometheus.GaugeVec{m.sent, m.sessions, m.lost, m.ignored, m.bfd} {
			g.DeleteLabelValues(name)
		}
		delete(m.shown, name)
	}
	for _, name := range slices.Sorted(maps.Keys(states)) {
		st := states[name]
		m.shown[name] = label(name, st)
		for _, p := range session.Phases() {
			value := 0.0
			if p == phase(st) {
				value = 1
			}
			m.info.WithLabelValues(string(p), label(name, st)).Set(value)
		}
		m.showBFD(name, st)
		m.sent.WithLabelValues(name).Set(float64(len(st.Sent)))
		m.sessions.WithLabelValues(name).Set(float64(st.Sessions))
		m.lost.WithLabelValues(name).Set(float64(st.Lost))
		m.ignored.WithLabelValues(name).Set(float64(st.Ignored))
	}
}

func (m *Metrics) showBFD(name string, st session.State) {
	if st.BFD == "" && st.BFDProblem == "" {
		m.bfd.DeleteLabelValues(name)
		return
	}
	up := 0.0
	if st.BFD == bfd.Up.String() {
		up = 1
	}
	m.bfd.WithLabelValues(name).Set(up)
}

// label is a peer as kube-vip's metric has it: address and port.
func label(name string, st session.State) string {
	if st.Address.IsValid() {
		return st.Address.String()
	}
	return name
}
