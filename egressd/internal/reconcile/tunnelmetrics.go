package reconcile

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/vipod/vipod/egressd/internal/tunnel"
	"github.com/vipod/vipod/egressd/internal/wg"
)

// tunnelMetrics are those of tunnels. What devices count is read when somebody
// asks.
type tunnelMetrics struct {
	described  prometheus.Gauge
	handshakes *prometheus.CounterVec
	device     atomic.Pointer[deviceReader]
}

// deviceReader is the kernel and whose tunnels are asked for.
type deviceReader struct {
	kernel wg.Kernel
	alias  string
}

var (
	handshakeDesc = prometheus.NewDesc("vipod_egressd_wireguard_last_handshake_seconds",
		"How long ago the far end of a tunnel that is up last answered; absent where it never did.", []string{"tunnel"}, nil)
	peersDesc = prometheus.NewDesc("vipod_egressd_wireguard_peers", "Far ends of the tunnels that are up here.", nil, nil)
	bytesDesc = prometheus.NewDesc("vipod_egressd_wireguard_bytes_total",
		"Bytes that went through a tunnel since it came up.", []string{"tunnel", "direction"}, nil)
)

func newTunnelMetrics(reg prometheus.Registerer) *tunnelMetrics {
	m := &tunnelMetrics{
		described: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "vipod_egressd_wireguard_tunnels", Help: "Tunnels that the file describes."}),
		handshakes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "vipod_egressd_wireguard_handshakes_total", Help: "Handshakes that were seen, by tunnel."}, []string{"tunnel"}),
	}
	reg.MustRegister(m.described, m.handshakes, m)
	return m
}

// Describe implements prometheus.Collector.
func (m *tunnelMetrics) Describe(c chan<- *prometheus.Desc) {
	c <- handshakeDesc
	c <- peersDesc
	c <- bytesDesc
}

// Collect implements prometheus.Collector.
func (m *tunnelMetrics) Collect(c chan<- prometheus.Metric) {
	r := m.device.Load()
	if r == nil {
		return
	}
	actual, err := r.kernel.Observe(r.alias, nil)
	if err != nil {
		c <- prometheus.NewInvalidMetric(peersDesc, err)
		return
	}
	peers := 0
	for name, l := range actual.Links {
		for _, p := range l.Peers {
			peers++
			collectPeer(c, name, p)
		}
	}
	c <- prometheus.MustNewConstMetric(peersDesc, prometheus.GaugeValue, float64(peers))
}

func collectPeer(c chan<- prometheus.Metric, name string, p tunnel.Peer) {
	if p.Handshake > 0 {
		c <- prometheus.MustNewConstMetric(handshakeDesc, prometheus.GaugeValue, p.Handshake.Seconds(), name)
	}
	c <- prometheus.MustNewConstMetric(bytesDesc, prometheus.CounterValue, float64(p.Received), name, "in")
	c <- prometheus.MustNewConstMetric(bytesDesc, prometheus.CounterValue, float64(p.Sent), name, "out")
}
