package reconcile

import (
	"fmt"
	"time"

	"github.com/vipod/vipod/arpd/internal/plan"
)

const (
	// receivePoll is the time between two looks at an address that the kernel
	// lists and does not receive for yet; it takes some milliseconds at most.
	receivePoll = time.Millisecond
	// receivePatience is for how long that is waited for. An address on a link
	// that is down is never received for.
	receivePatience = 100 * time.Millisecond
)

// arrivals are our addresses of IPv6 by when they were first listed, 0 once
// packets to them are received. The kernel lists an address before its worker
// has made the local route (addrconf_dad_work), and a neighbor that hears the
// announcement in between sends what the node routes elsewhere.
type arrivals map[plan.Key]time.Duration

// present returns the addresses that the kernel receives for, and whether
// there are some of which it soon will.
func (r *Reconciler) present(now time.Duration, protocol uint8) (list []plan.Present, awaited bool, err error) {
	addresses, err := r.kernel.Addresses()
	if err != nil {
		return nil, false, err
	}
	seen := arrivals{}
	for _, a := range addresses {
		p := plan.Present{Link: a.LinkIndex, IP: a.Prefix.Addr(), Protocol: a.Protocol}
		if a.Protocol == protocol && p.IP.Is6() {
			key := plan.Key{Link: p.Link, IP: p.IP}
			since, known := r.arrivals[key]
			if !known {
				since = max(now, 1)
			}
			if since != 0 {
				ok, err := r.kernel.Receives(p.IP)
				if err != nil {
					return nil, false, fmt.Errorf("asking how %s is routed: %w", p.IP, err)
				}
				if !ok && now < since+receivePatience {
					seen[key], awaited = since, true
					continue
				}
			}
			seen[key] = 0
		}
		list = append(list, p)
	}
	r.arrivals = seen
	return list, awaited, nil
}
