package routed

import (
	"net/netip"
	"time"

	"github.com/vipod/vipod/deploy/lab"
	"github.com/vipod/vipod/deploy/probe"
)

// flows is how many connections ask side by side: routers spread by them.
const flows = 6

// noise is how long a flow may be silent for reasons of a busy machine.
const noise = 300 * time.Millisecond

// outcome is what became of the questions of all flows.
type outcome struct {
	lost, sent int
	silence    time.Duration // the longest of a flow
}

// asking asks an address by UDP from the router, a thousand times a second in
// all, until the function that it returns is called.
func (c *cluster) asking(ip netip.Addr) (stop func() outcome) {
	c.t.Helper()
	var probers []*probe.Prober
	for range flows {
		c.must(c.InNS(router, func() error {
			p, err := probe.Start(probe.Options{Iface: "eth0", Target: ip, UDPPort: lab.UDPPort, Every: flows * time.Millisecond})
			if err == nil {
				probers = append(probers, p)
			}
			return err
		}))
	}
	return func() (o outcome) {
		for _, p := range probers {
			r := p.Stop()
			o.lost, o.sent, o.silence = o.lost+r.Lost(), o.sent+r.Sent, max(o.silence, r.Gap)
		}
		return o
	}
}

// nothingIsLost does something while the address is asked.
func (c *cluster) nothingIsLost(ip netip.Addr, do func()) {
	c.t.Helper()
	stop := c.asking(ip)
	time.Sleep(300 * time.Millisecond)
	do()
	time.Sleep(500 * time.Millisecond)
	o := stop()
	c.t.Logf("%s: %d of %d lost, silence of at most %s", ip, o.lost, o.sent, o.silence)
	// A silence in which nothing is lost is the machine's.
	if o.lost > 0 && o.silence > noise {
		c.t.Errorf("no answer for %s", o.silence)
	}
}
