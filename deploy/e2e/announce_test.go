package e2e

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipod/vipod/deploy/lab"
	"github.com/vipod/vipod/deploy/probe"
)

// A take-over is announced at once and four more times, more than a second
// apart, since Linux ignores updates within a second (arp(7), locktime).
const (
	rounds       = 5
	roundSpacing = 1100 * time.Millisecond
	// roundSlack is what a busy machine adds.
	roundSlack = 500 * time.Millisecond
	allRounds  = rounds * roundSpacing
)

func TestE2ETakeOverIsAnnouncedFiveTimes(t *testing.T) {
	e := beside(t)
	vip, name := e.vip(), "announced"
	var moved time.Time
	s := e.during(vip, func() {
		e.create(lab.ServiceSpec{
			Name: name, VIPs: vip.Slice(), Pods: []string{"p1"}, Policy: corev1.ServiceExternalTrafficPolicyLocal,
		})
		e.owned(name)
		time.Sleep(allRounds)
		moved = time.Now()
		e.must(e.SetEndpoints(e.ctx, name, "p2"))
		e.moved(name, "n1")
		time.Sleep(allRounds)
	}).changedHands(1)
	for _, seen := range s.seen {
		e.announced(seen.ClaimsOf(e.mac("n1"), time.Time{}), moved)
		e.announced(seen.ClaimsOf(e.mac("n2"), moved), time.Now())
		if late := seen.ClaimsOf(e.mac("n1"), s.firstClaim(seen, "n2")); len(late) > 0 {
			t.Errorf("the node before still claims: %s", late[0])
		}
	}
}

// announced checks the unsolicited claims until the given time.
func (e *env) announced(claims []probe.Frame, until time.Time) {
	e.t.Helper()
	claims = slices.DeleteFunc(slices.Clone(claims), func(f probe.Frame) bool { return f.Time.After(until) })
	list := byRound(claims)
	if len(list) < rounds {
		e.t.Fatalf("announced %d times, want %d: %v", len(list), rounds, list)
	}
	for i, round := range list[:rounds] {
		if i > 0 {
			gap := round[0].Time.Sub(list[i-1][0].Time)
			if gap < roundSpacing-roundSlack || gap > roundSpacing+roundSlack {
				e.t.Errorf("round %d came %v after the one before, want %v", i+1, gap, roundSpacing)
			}
		}
		e.complete(round)
	}
	if extra := len(list) - rounds; extra > 1 { // one slow refresh
		e.t.Errorf("announced %d more times", extra)
	}
}

// complete checks one round: what every kind of neighbor heeds, to all.
func (e *env) complete(round []probe.Frame) {
	e.t.Helper()
	kinds := map[probe.Kind]int{}
	for _, f := range round {
		kinds[f.Kind]++
		to := probe.MAC{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
		if f.Kind == probe.NA {
			to = probe.MAC{0x33, 0x33, 0, 0, 0, 1}
		}
		if f.Destination != to || f.Source != f.Sender || f.Override != (f.Kind == probe.NA) {
			e.t.Errorf("want to all, from the MAC that it names, with override: %s", f)
		}
	}
	if ip := round[0].IP; ip.Is4() && (kinds[probe.ARPRequest] != 1 || kinds[probe.ARPReply] != 1) || ip.Is6() && kinds[probe.NA] != 1 {
		e.t.Errorf("a round of %s has %v, want one request and one reply or one advertisement", ip, kinds)
	}
}
