package reconcile

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/vipod/vipod/linkd/internal/lease"
)

// countsCollector exports the counts of all DHCP clients, those that have ended
// included, as one counter by event.
type countsCollector struct {
	desc *prometheus.Desc

	mu             sync.Mutex
	ended, running lease.Counts
}

func newCountsCollector() *countsCollector {
	return &countsCollector{desc: prometheus.NewDesc("vipod_linkd_dhcp_events_total",
		"What happened to DHCP clients: messages sent, leases renewed and rebound, refusals (NAK), "+
			"acquisitions that failed, leases that expired, messages that could not be read.", []string{"event"}, nil)}
}

func (c *countsCollector) keep(n lease.Counts) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = sum(c.ended, n)
}

func (c *countsCollector) set(n lease.Counts) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running = n
}

func sum(a, b lease.Counts) lease.Counts {
	return lease.Counts{
		Sent: a.Sent + b.Sent, Renewed: a.Renewed + b.Renewed, Rebound: a.Rebound + b.Rebound, Refused: a.Refused + b.Refused,
		Failed: a.Failed + b.Failed, Expired: a.Expired + b.Expired, Malformed: a.Malformed + b.Malformed,
	}
}

// Describe implements prometheus.Collector.
func (c *countsCollector) Describe(ch chan<- *prometheus.Desc) { ch <- c.desc }

// Collect implements prometheus.Collector.
func (c *countsCollector) Collect(ch chan<- prometheus.Metric) {
	c.mu.Lock()
	n := sum(c.ended, c.running)
	c.mu.Unlock()
	for event, value := range map[string]uint64{
		"sent": n.Sent, "renewed": n.Renewed, "rebound": n.Rebound, "refused": n.Refused,
		"failed": n.Failed, "expired": n.Expired, "malformed": n.Malformed,
	} {
		ch <- prometheus.MustNewConstMetric(c.desc, prometheus.CounterValue, float64(value), event)
	}
}
