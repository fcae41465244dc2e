package e2e

import (
	"net/netip"
	"time"

	"github.com/vipod/vipod/deploy/lab"
	"github.com/vipod/vipod/deploy/trial"
)

// settle is how long a watch goes on before and after what it is about.
const settle = 300 * time.Millisecond

// udpGap is for how long no pod may answer when nothing is wrong.
const udpGap = time.Second

// sight is what the client saw of some addresses.
type sight struct {
	e    *env
	seen []trial.Seen
}

// during watches addresses from the client while f runs, and returns what it
// saw of each.
func (e *env) during(vip lab.Addrs, f func()) sight {
	e.t.Helper()
	return e.watch(targets(vip.Slice()...), f)
}

// watch is during for any targets.
func (e *env) watch(targets []trial.Target, f func()) sight {
	e.t.Helper()
	w, err := e.Watch(targets...)
	e.must(err)
	stopped := false
	stop := func() (seen []trial.Seen) {
		if !stopped {
			stopped, seen = true, w.Stop()
		}
		return seen
	}
	defer stop() // also when f ends the test
	time.Sleep(settle)
	f()
	time.Sleep(settle)
	return sight{e, stop()}
}

// targets ask over ICMP alone.
func targets(addrs ...netip.Addr) []trial.Target {
	var list []trial.Target
	for _, ip := range addrs {
		list = append(list, trial.Target{IP: ip})
	}
	return list
}

// changedHands fails the test unless each address was claimed by one machine
// after the other, at most so many times.
func (s sight) changedHands(most int) sight {
	s.e.t.Helper()
	for _, seen := range s.seen {
		if err := seen.Exclusive(most); err != nil {
			s.e.t.Error(err)
		}
	}
	return s
}

// lost fails the test if more ICMP questions than that got no answer. The
// answers to the others depend on the pods' share of the processors as well.
func (s sight) lost(most int) sight {
	s.e.t.Helper()
	for _, seen := range s.seen {
		s.e.t.Logf("%s: ICMP %v; UDP %v", seen.IP, seen.ICMP, seen.UDP)
		if n := seen.ICMP.Lost(); n > most {
			s.e.t.Errorf("%s: ICMP %v, want at most %d lost", seen.IP, seen.ICMP, most)
		}
		if gap := seen.UDP.Gap; gap > udpGap {
			s.e.t.Errorf("%s: no pod answered for %v, want at most %v", seen.IP, gap, udpGap)
		}
	}
	return s
}

// firstClaim returns when a node first claimed an address, which it must have.
func (s sight) firstClaim(seen trial.Seen, node string) time.Time {
	s.e.t.Helper()
	claims := seen.ClaimsOf(s.e.mac(node), time.Time{})
	if len(claims) == 0 {
		s.e.t.Fatalf("%s never claimed %s", node, seen.IP)
	}
	return claims[0].Time
}

// silent fails the test if a node claimed an address after the given time.
func (s sight) silent(node string, after time.Time) sight {
	s.e.t.Helper()
	mac := s.e.mac(node)
	for _, seen := range s.seen {
		if claims := seen.ClaimsOf(mac, after); len(claims) > 0 {
			s.e.t.Errorf("%s claimed %s %d times, first %s", node, seen.IP, len(claims), claims[0])
		}
	}
	return s
}
