package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/vipod/vipod/deploy/lab"
	"github.com/vipod/vipod/deploy/probe"
)

const (
	// probeAgain is after what time vipod asks again for an address for which
	// a stranger answered.
	probeAgain = 30 * time.Second
	// defenceInterval is the least time between two defending frames
	// (RFC 5227 section 2.4 (b)).
	defenceInterval = 10 * time.Second
)

func TestE2EStrangerIsSeenBeforeAndAfterTheClaim(t *testing.T) {
	e := beside(t)
	mac := e.newStranger()
	// Before: somebody has one address of each of two Services.
	taken := e.vips(2)
	e.takes(taken[0].V4)
	e.takes(taken[1].V6)
	for i, vip := range taken {
		e.create(lab.ServiceSpec{Name: fmt.Sprintf("taken-%d", i), VIPs: vip.Slice(), Pods: e.allPods()})
	}
	e.told(soon, "taken-0", "ProbeConflict", mac, taken[0].V4.String())
	e.told(soon, "taken-1", "ProbeConflict", mac, taken[1].V6.String())
	refused := time.Now()

	// After: somebody comes to an address that is served.
	vip := e.vip()
	owner := e.served("contested", vip)
	time.Sleep(allRounds)
	e.contest("contested", owner, mac, vip)

	for i, vip := range taken {
		e.must(firstError(e.nowhere(vip.V4), e.nowhere(vip.V6), e.unserved(fmt.Sprintf("taken-%d", i))))
	}
	e.leaves(taken[0].V4)
	e.leaves(taken[1].V6)
	e.within(probeAgain+soon, "the Services are served when the stranger is gone", func() error {
		for i := range taken {
			if err := e.unserved(fmt.Sprintf("taken-%d", i)); err == nil {
				return fmt.Errorf("taken-%d is not", i)
			}
		}
		return nil
	})
	t.Logf("claimed %v after the refusal", time.Since(refused))
	for _, vip := range taken {
		e.answers(vip.V4, 80)
		e.answers(vip.V6, 80)
	}
	e.unharmed()
}

// contest lets the stranger claim a served Service's addresses: IPv4 again
// and again, IPv6 by duplicate address detection, as hosts do.
func (e *env) contest(name, owner, mac string, vip lab.Addrs) {
	e.t.Helper()
	const defences = "vipod_arpd_defences_total"
	before := e.scrape(owner).sum(defences)
	s := e.during(vip, func() {
		e.run(stranger, "sysctl -qw net.ipv6.conf.eth0.accept_dad=1")
		e.run(stranger, fmt.Sprintf("ip addr add %s/64 dev eth0", vip.V6))
		e.run(stranger, fmt.Sprintf("ip addr add %s/24 dev eth0", vip.V4))
		// One a second for longer than the time between two defences.
		e.run(stranger, fmt.Sprintf("arping -q -U -w %d -I eth0 %s", int(defenceInterval.Seconds())+2, vip.V4))
		e.told(soon, name, "AddressConflict", mac, vip.V4.String())
		e.within(soon, "the conflict is in the metrics", func() error {
			return want("the conflict", e.scrape(owner).sum("vipod_arpd_conflict", vip.V4.String()), 1)
		})
		e.must(firstError(e.only(owner, vip.V4), e.only(owner, vip.V6)))
		if out := e.run(stranger, "ip -6 addr show dev eth0 dadfailed"); !strings.Contains(out, vip.V6.String()) {
			e.t.Errorf("the stranger's duplicate address detection found nobody at %s", vip.V6)
		}
	})
	e.leaves(vip.V4)
	for _, seen := range s.seen {
		rounds := byRound(seen.ClaimsOf(e.mac(owner), time.Time{}))
		e.t.Logf("%s was defended %d times", seen.IP, len(rounds))
		// Two in this time, and perhaps one slow refresh.
		if len(rounds) > 3 || seen.IP.Is4() && len(rounds) == 0 {
			e.t.Errorf("%s was defended %d times", seen.IP, len(rounds))
		}
	}
	if n := e.scrape(owner).sum(defences) - before; n < 1 || n > 4 {
		e.t.Errorf("%v defences of two addresses, want 1 to 4", n)
	}
}

// byRound groups unsolicited claims that belong together.
func byRound(claims []probe.Frame) (rounds [][]probe.Frame) {
	for _, f := range claims {
		if !f.Unsolicited {
			continue
		}
		if last := len(rounds) - 1; last >= 0 && f.Time.Sub(rounds[last][0].Time) < roundSpacing/2 {
			rounds[last] = append(rounds[last], f)
			continue
		}
		rounds = append(rounds, []probe.Frame{f})
	}
	return rounds
}
