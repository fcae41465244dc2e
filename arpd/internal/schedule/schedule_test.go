package schedule

import (
	"errors"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/vipod/vipod/arpd/internal/frame"
	"github.com/vipod/vipod/arpd/internal/plan"
	"github.com/vipod/vipod/shared/schema"
)

// FuzzSchedule drives a schedule at random and checks what must always hold:
// no frame for what the plan or the grant does not cover, never more frames
// than the limit, at most one defence of an address in ten seconds, and no
// state that keeps the caller awake for nothing.
func FuzzSchedule(f *testing.F) {
	for seed := range uint64(30) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		r := &random{T: t, Rand: rand.New(rand.NewPCG(seed, 1)), defended: map[*address]time.Duration{}}
		r.s = New(0, func() time.Duration { return r.N(ProbeStart) })
		for range 300 {
			r.step()
		}
	})
}

type random struct {
	*testing.T
	*rand.Rand
	s        *Schedule
	now      time.Duration
	plan     plan.Output
	grant    time.Duration
	sent     int
	defended map[*address]time.Duration
}

// N returns a random duration below d.
func (r *random) N(d time.Duration) time.Duration { return time.Duration(r.Int64N(int64(d))) }

func (r *random) key() plan.Key {
	ips := [...]string{"198.51.100.1", "198.51.100.2", "2001:db8::1", "2001:db8::2"}
	return plan.Key{Link: 1 + r.IntN(2), IP: netip.MustParseAddr(ips[r.IntN(len(ips))])}
}

func (r *random) step() {
	switch r.IntN(8) {
	case 0:
		r.replan()
	case 1:
		r.grant = r.now + r.N(20*time.Second)
		r.s.SetGrants(map[schema.GrantName]time.Duration{schema.GrantNode: r.grant})
	case 2, 3:
		k := r.key()
		macs := [...]frame.MAC{"ours", "other1", "other2"}
		r.s.SetOwn(map[frame.MAC]bool{"ours": true})
		r.s.Heard(k.Link, frame.Claim{IP: k.IP, MAC: macs[r.IntN(3)], Probe: r.IntN(3) == 0}, r.now)
	default:
		r.advance()
	}
	r.s.States()
}

func (r *random) replan() {
	r.plan = plan.Output{}
	used := map[plan.Key]bool{}
	for range r.IntN(6) {
		k := r.key()
		if used[k] {
			continue
		}
		used[k] = true
		if r.IntN(3) == 0 {
			r.plan.Probe = append(r.plan.Probe, plan.Probe{Key: k, Document: "d", Seen: schema.Observed{Generation: r.Int64N(2)}})
			continue
		}
		r.plan.Announce = append(r.plan.Announce, plan.Target{
			Key: k, Epochs: string(rune('a' + r.IntN(2))), Grants: plan.Grants{Node: true},
		})
	}
	r.s.Set(r.plan, time.Minute, r.now, r.now)
}

// advance lets time pass as a caller does: until the next thing is due, or a
// while longer.
func (r *random) advance() {
	wait, ok := r.s.Next(r.now)
	if wait < 0 {
		r.Fatalf("wait of %v", wait)
	}
	if !ok || r.IntN(5) == 0 {
		wait = r.N(15 * time.Second)
	}
	r.now += wait
	rounds := 0
	for {
		due := r.s.Due(r.now)
		for _, d := range due {
			r.check(d)
			var err error
			if r.IntN(10) == 0 {
				err = errors.New("not sent")
			}
			r.s.Sent(d, err, r.now)
		}
		if len(due) == 0 {
			break
		}
		if rounds++; rounds > 100 {
			r.Fatal("frames without end at one moment")
		}
	}
	if float64(r.sent) > burst+r.now.Seconds()*rate {
		r.Errorf("%d frames in %v", r.sent, r.now)
	}
}

func (r *random) check(d Send) {
	r.sent++
	for _, p := range r.plan.Probe {
		if p.Key == d.Key && (d.Kind == frame.Probe || d.Kind == frame.Solicitation) {
			return
		}
	}
	for _, a := range r.plan.Announce {
		if a.Key != d.Key || d.Kind == frame.Probe || d.Kind == frame.Solicitation {
			continue
		}
		if r.now >= r.grant {
			r.Errorf("%s of %s at %v, the grant ended at %v", d.Kind, d.IP, r.now, r.grant)
		}
		r.checkDefence(d)
		return
	}
	r.Errorf("%s of %s, which the plan does not have", d.Kind, d.IP)
}

func (r *random) checkDefence(d Send) {
	if d.event.what != whatDefence {
		return
	}
	a := d.event.address
	if last, ok := r.defended[a]; ok && a.conflict.defended < last+defenceInterval {
		r.Errorf("defence of %s at %v, the last was at %v", d.IP, r.now, last)
	}
	r.defended[a] = a.conflict.defended
}
