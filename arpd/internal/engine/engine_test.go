package engine

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"

	"github.com/vipod/vipod/arpd/internal/frame"
	"github.com/vipod/vipod/arpd/internal/link/linktest"
	"github.com/vipod/vipod/arpd/internal/plan"
	"github.com/vipod/vipod/shared/schema"
)

const (
	ours      = frame.MAC("\x02\x00\x00\x00\x00\x01")
	stranger  = frame.MAC("\x02\x00\x00\x00\x00\x66")
	another   = frame.MAC("\x02\x00\x00\x00\x00\x67")
	broadcast = frame.MAC("\xff\xff\xff\xff\xff\xff")
	linkIndex = 7
)

var (
	hardware = frame.Hardware{Type: unix.ARPHRD_ETHER, MAC: ours, Broadcast: broadcast}
	vip4     = netip.MustParseAddr("198.51.100.7")
	vip6     = netip.MustParseAddr("2001:db8::7")
)

// bench is an engine over a segment in memory and a virtual clock.
type bench struct {
	*Engine
	t       *testing.T
	segment *linktest.Segment
	began   time.Time
	jump    atomic.Int64  // of the clock, in nanoseconds
	until   time.Duration // of the node's grant
	changes atomic.Int64
}

// run starts an engine in a bubble of virtual time.
func run(t *testing.T, test func(b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{t: t, segment: linktest.New(), began: time.Now(), until: 24 * time.Hour}
		clock := func() time.Duration { return time.Since(b.began) + time.Duration(b.jump.Load()) }
		b.Engine = New(b.segment, clock, func() { b.changes.Add(1) }, prometheus.NewRegistry())
		ctx, stop := context.WithCancel(context.Background())
		ended := make(chan error)
		go func() { ended <- b.Run(ctx) }()
		defer func() {
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}()
		test(b)
	})
}

func (b *bench) set(p plan.Output) {
	b.t.Helper()
	p.Ports = map[plan.Port]frame.Hardware{}
	for _, t := range p.Announce {
		p.Ports[plan.Port{Link: t.Link, Protocol: frame.Protocol(t.IP)}] = t.Hardware
	}
	for _, t := range p.Probe {
		p.Ports[plan.Port{Link: t.Link, Protocol: frame.Protocol(t.IP)}] = t.Hardware
	}
	err := b.Set(p, Settings{
		Interval: time.Minute, Seen: b.now(), Own: map[frame.MAC]bool{ours: true},
		Grants: map[schema.GrantName]time.Duration{schema.GrantNode: b.until},
		Names:  map[int]string{linkIndex: "lan0"},
	})
	if err != nil {
		b.t.Error(err)
	}
}

func announce(ips ...netip.Addr) plan.Output {
	var p plan.Output
	for _, ip := range ips {
		p.Announce = append(p.Announce, plan.Target{
			Key: plan.Key{Link: linkIndex, IP: ip}, Interface: "lan0", Hardware: hardware, Grants: plan.Grants{Node: true},
		})
	}
	return p
}

func probe(generation int64, ips ...netip.Addr) plan.Output {
	var p plan.Output
	for _, ip := range ips {
		p.Probe = append(p.Probe, plan.Probe{
			Key: plan.Key{Link: linkIndex, IP: ip}, Document: "default.web", Interface: "lan0", Hardware: hardware,
			Seen: schema.Observed{Instance: "i", Generation: generation},
		})
	}
	return p
}

// thousand are addresses.
func thousand() []netip.Addr {
	out := make([]netip.Addr, 1000)
	for i := range out {
		out[i] = netip.AddrFrom4([4]byte{198, 51, byte(100 + i/256), byte(i)})
	}
	return out
}

// sent returns the frames of some kinds since the given time.
func (b *bench) sent(since time.Time, kinds ...frame.Kind) []linktest.Sent {
	return slices.DeleteFunc(b.segment.Sent(), func(s linktest.Sent) bool {
		return s.At.Before(since) || len(kinds) > 0 && !slices.Contains(kinds, s.Kind)
	})
}

func (b *bench) hear(mac frame.MAC, kind frame.Kind, ip netip.Addr) {
	b.t.Helper()
	f, err := frame.Build(kind, frame.Hardware{Type: unix.ARPHRD_ETHER, MAC: mac, Broadcast: broadcast}, ip)
	if err != nil {
		b.t.Fatal(err)
	}
	b.segment.Inject(plan.Port{Link: linkIndex, Protocol: f.Protocol}, mac, f.Payload)
}

func (b *bench) state(ip netip.Addr) (s struct {
	Announced bool
	Conflict  frame.MAC
}) {
	state := b.States().Addresses[plan.Key{Link: linkIndex, IP: ip}]
	s.Announced, s.Conflict = state.Announced, state.Conflict
	return s
}

func (b *bench) unclaimed(ip netip.Addr) schema.ConditionStatus {
	return b.States().Probes["default.web"][plan.Key{Link: linkIndex, IP: ip}].Unclaimed
}

func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestANewAddressGetsABurst(t *testing.T) {
	run(t, func(b *bench) {
		b.set(announce(vip4, vip6))
		after(30 * time.Second)
		for _, kind := range []frame.Kind{frame.Request, frame.Reply, frame.Advertisement} {
			got := b.sent(b.began, kind)
			if kind != frame.Reply { // the first refresh, half an interval on
				got = slices.DeleteFunc(got, func(s linktest.Sent) bool { return s.At.Sub(b.began) > 20*time.Second })
			}
			if len(got) != 5 {
				t.Errorf("%d frames of kind %s, want 5", len(got), kind)
				continue
			}
			for i, s := range got {
				want := time.Duration(i) * 1100 * time.Millisecond
				if d := s.At.Sub(b.began); d < want || d > want+time.Millisecond {
					t.Errorf("%s %d after %v, want %v", kind, i, d, want)
				}
			}
		}
	})
}

func TestRefreshIsSlowAlternatesPerAddressAndIsEvenlySpread(t *testing.T) {
	run(t, func(b *bench) {
		const n = 1000
		b.set(announce(thousand()...))
		after(2*time.Minute + 30*time.Millisecond) // between two frames
		from := time.Now()
		after(2 * time.Minute)
		frames := b.sent(from)
		if len(frames) != 2*n {
			t.Fatalf("%d frames in two intervals, want %d", len(frames), 2*n)
		}
		kinds := map[netip.Addr][]frame.Kind{}
		for _, s := range frames {
			c, err := frame.Decode(s.Protocol, hardware, ours, s.Payload)
			if err != nil {
				t.Fatal(err)
			}
			kinds[c.IP] = append(kinds[c.IP], s.Kind)
		}
		for ip, k := range kinds {
			if len(k) != 2 || k[0] == k[1] {
				t.Errorf("%s: %v, want one request and one reply", ip, k)
			}
		}
		if got := most(frames, time.Second); got > 17 {
			t.Errorf("%d frames in one second, want at most 17", got)
		}
	})
}

// most returns the most frames in any window.
func most(frames []linktest.Sent, window time.Duration) int {
	best := 0
	for i := range frames {
		j := i
		for j < len(frames) && frames[j].At.Sub(frames[i].At) < window {
			j++
		}
		best = max(best, j-i)
	}
	return best
}

func TestTakingOverAThousandAddressesIsFastFairAndLimited(t *testing.T) {
	run(t, func(b *bench) {
		const n = 1000
		b.set(announce(thousand()...))
		after(time.Second)
		frames := b.sent(b.began)
		if len(frames) != 2*n {
			t.Fatalf("%d frames, want %d", len(frames), 2*n)
		}
		if d := frames[len(frames)-1].At.Sub(b.began); d > 250*time.Millisecond {
			t.Errorf("last frame after %v, want at most 250 ms", d)
		}
		for i, s := range frames {
			if want := []frame.Kind{frame.Request, frame.Reply}[i/n]; s.Kind != want {
				t.Fatalf("frame %d is a %s, want the first frame of every address before any second", i, s.Kind)
			}
		}
		if got := most(frames, 100*time.Millisecond); got > 800+64 {
			t.Errorf("%d frames in 100 ms, want at most 8000 a second and a burst of 64", got)
		}
	})
}

func TestALostAddressIsSilentAtOnce(t *testing.T) {
	run(t, func(b *bench) {
		b.set(announce(thousand()...))
		after(50 * time.Millisecond) // in the middle of the burst
		b.set(plan.Output{})
		before := len(b.segment.Sent())
		after(10 * time.Minute)
		if got := len(b.segment.Sent()) - before; got != 0 {
			t.Errorf("%d frames after the loss", got)
		}
	})
}

func TestTheEndOfTheGrantIsSilenceWithoutANewPlan(t *testing.T) {
	run(t, func(b *bench) {
		b.until = 2 * time.Second
		b.set(announce(vip4))
		after(10 * time.Minute)
		if got := b.sent(b.began.Add(b.until)); len(got) != 0 {
			t.Errorf("%d frames after the grant ended", len(got))
		}
		if got := len(b.sent(b.began)); got != 4 {
			t.Errorf("%d frames before, want two rounds of two", got)
		}
	})
}

func TestAProlongedGrantKeepsTheBurst(t *testing.T) {
	run(t, func(b *bench) {
		b.until = 2 * time.Second
		b.set(announce(vip4))
		after(time.Second)
		b.SetGrants(map[schema.GrantName]time.Duration{schema.GrantNode: time.Hour})
		after(5 * time.Second)
		if got := len(b.sent(b.began)); got != 10 {
			t.Errorf("%d frames, want five rounds of two", got)
		}
	})
}

func TestAFrameThatTheFenceDropsIsNotSentAndSoonTriedAgain(t *testing.T) {
	run(t, func(b *bench) {
		b.segment.Fail(unix.ENOBUFS)
		b.set(announce(vip4))
		after(30 * time.Millisecond)
		if s := b.state(vip4); s.Announced {
			t.Error("announced although nothing went out")
		}
		b.segment.Fail(nil)
		opened := time.Now()
		after(time.Minute)
		got := b.sent(b.began, frame.Request)
		if len(got) < 5 || got[0].At.Sub(opened) > 50*time.Millisecond {
			t.Errorf("%d requests, first %v after the fence opened", len(got), got[0].At.Sub(opened))
		}
	})
}

func TestAnUnchangedPlanSendsNothing(t *testing.T) {
	run(t, func(b *bench) {
		b.set(announce(vip4))
		after(10 * time.Second)
		from := time.Now()
		for range 20 {
			b.set(announce(vip4))
			after(time.Second)
		}
		if got := b.sent(from); len(got) != 0 {
			t.Errorf("%d frames", len(got))
		}
		if got := b.segment.Opened(); got != 1 {
			t.Errorf("opened %d sockets, want 1", got)
		}
	})
}

func TestAnotherLinkUnderTheSameNameStartsAnew(t *testing.T) {
	run(t, func(b *bench) {
		b.set(announce(vip4))
		after(10 * time.Second)
		p := announce(vip4)
		p.Announce[0].Link++
		from := time.Now()
		b.set(p)
		after(10 * time.Second)
		got := b.sent(from)
		if len(got) != 10 || got[0].Link != linkIndex+1 {
			t.Errorf("%d frames, want a burst on the new link", len(got))
		}
	})
}

func TestAStrangersClaimIsAConflictAndDefendedOnceInTenSeconds(t *testing.T) {
	for ip, kind := range map[netip.Addr]frame.Kind{vip4: frame.Reply, vip6: frame.Advertisement} {
		t.Run(kind.String(), func(t *testing.T) {
			run(t, func(b *bench) {
				b.set(announce(ip))
				after(5 * time.Second)
				from := time.Now()
				for range 95 {
					b.hear(stranger, kind, ip)
					after(100 * time.Millisecond)
				}
				if got := b.state(ip).Conflict; got != stranger {
					t.Errorf("conflict with %q, want the stranger", got)
				}
				if got := b.sent(from); len(got) != 1 {
					t.Errorf("%d defences in 9.5 s, want 1", len(got))
				}
				after(time.Second)
				b.hear(another, kind, ip)
				after(0)
				if got := b.sent(from); len(got) != 2 {
					t.Errorf("%d defences after 10 s, want 2", len(got))
				}
				if got := b.state(ip).Conflict; got != another {
					t.Errorf("conflict with %q, want the other stranger", got)
				}
				after(59 * time.Second)
				if b.state(ip).Conflict == "" {
					t.Error("conflict is over too early")
				}
				after(2 * time.Second)
				if got := b.state(ip).Conflict; got != "" {
					t.Errorf("conflict with %q after 60 s of silence", got)
				}
			})
		})
	}
}

func TestWhatIsNoConflict(t *testing.T) {
	for name, c := range map[string]struct {
		mac  frame.MAC
		kind frame.Kind
		ip   netip.Addr
		wait time.Duration
	}{
		"our own echo":                           {ours, frame.Request, vip4, 5 * time.Second},
		"the last owner within a second":         {stranger, frame.Request, vip4, 900 * time.Millisecond},
		"an ARP probe, which claims nothing":     {stranger, frame.Probe, vip4, 5 * time.Second},
		"a claim of an address that is not ours": {stranger, frame.Request, vip4.Next(), 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(b *bench) {
				b.set(announce(vip4))
				after(c.wait)
				b.hear(c.mac, c.kind, c.ip)
				after(0)
				if got := b.state(vip4).Conflict; got != "" {
					t.Errorf("conflict with %q", got)
				}
			})
		})
	}
}

func TestASolicitationOfDuplicateAddressDetectionIsAClaim(t *testing.T) {
	run(t, func(b *bench) {
		b.set(announce(vip6))
		after(5 * time.Second)
		b.hear(stranger, frame.Solicitation, vip6)
		after(0)
		if got := b.state(vip6).Conflict; got != stranger {
			t.Errorf("conflict with %q, want the stranger", got)
		}
	})
}

func TestAFloodOfClaimsFromManyAddressesIsFewChanges(t *testing.T) {
	run(t, func(b *bench) {
		b.set(announce(vip4))
		after(5 * time.Second)
		before := b.changes.Load()
		for i := range 10000 {
			b.hear(frame.MAC(fmt.Sprintf("\x02%05d", i)[:6]), frame.Reply, vip4)
		}
		after(time.Second)
		if got := b.changes.Load() - before; got > 2 {
			t.Errorf("%d changes", got)
		}
	})
}

func TestProbingASilentAddressFindsItFree(t *testing.T) {
	for ip, kind := range map[netip.Addr]frame.Kind{vip4: frame.Probe, vip6: frame.Solicitation} {
		t.Run(kind.String(), func(t *testing.T) {
			run(t, func(b *bench) {
				b.set(probe(1, ip))
				after(100 * time.Millisecond)
				if got := b.unclaimed(ip); got != schema.Unknown {
					t.Errorf("%s while probing", got)
				}
				after(200 * time.Millisecond)
				if got := b.unclaimed(ip); got != schema.True {
					t.Errorf("%s, want True", got)
				}
				frames := b.sent(b.began)
				if len(frames) != 3 || frames[0].Kind != kind {
					t.Fatalf("%d frames, want 3 of kind %s", len(frames), kind)
				}
				for i := range 2 {
					if gap := frames[i+1].At.Sub(frames[i].At); gap != 50*time.Millisecond {
						t.Errorf("gap of %v, want 50 ms", gap)
					}
				}
				after(time.Hour)
				if got := len(b.sent(b.began)); got != 3 {
					t.Errorf("%d frames in all, want one result per generation", got)
				}
				b.set(probe(2, ip))
				if got := b.unclaimed(ip); got != schema.Unknown {
					t.Errorf("%s for a new generation", got)
				}
			})
		})
	}
}

func TestAnAnsweredProbeIsRefusedAndRepeatedAfterThirtySeconds(t *testing.T) {
	answers := []struct {
		kind frame.Kind
		ip   netip.Addr
	}{
		{frame.Reply, vip4}, {frame.Request, vip4}, {frame.Advertisement, vip6},
	}
	for _, c := range answers {
		t.Run(c.kind.String(), func(t *testing.T) {
			run(t, func(b *bench) {
				b.set(probe(1, c.ip))
				after(120 * time.Millisecond)
				b.hear(ours, c.kind, c.ip)
				if got := b.unclaimed(c.ip); got != schema.Unknown {
					t.Errorf("%s after our own frame", got)
				}
				b.hear(stranger, c.kind, c.ip)
				after(time.Second)
				if got := b.unclaimed(c.ip); got != schema.False {
					t.Errorf("%s, want False", got)
				}
				after(31 * time.Second)
				if got := b.unclaimed(c.ip); got != schema.True {
					t.Errorf("%s after the stranger fell silent, want True", got)
				}
				b.hear(stranger, c.kind, c.ip)
				if got := b.unclaimed(c.ip); got != schema.False {
					t.Errorf("%s after a late claim, want False", got)
				}
			})
		})
	}
}

func TestAnothersProbeIsNoAnswer(t *testing.T) {
	for ip, kind := range map[netip.Addr]frame.Kind{vip4: frame.Probe, vip6: frame.Solicitation} {
		t.Run(kind.String(), func(t *testing.T) {
			run(t, func(b *bench) {
				b.set(probe(1, ip))
				after(120 * time.Millisecond)
				b.hear(stranger, kind, ip)
				after(time.Second)
				if got := b.unclaimed(ip); got != schema.True {
					t.Errorf("%s, want True", got)
				}
			})
		})
	}
}

func TestProbesThatCannotBeSentProveNothing(t *testing.T) {
	run(t, func(b *bench) {
		b.segment.Fail(unix.ENETDOWN)
		b.set(probe(1, vip4))
		after(time.Minute)
		if got := b.unclaimed(vip4); got != schema.Unknown {
			t.Errorf("%s although no probe went out", got)
		}
		b.segment.Fail(nil)
		after(2 * time.Second)
		if got := b.unclaimed(vip4); got != schema.True {
			t.Errorf("%s, want True", got)
		}
	})
}

func TestAThousandProbesRunSideBySide(t *testing.T) {
	run(t, func(b *bench) {
		ips := thousand()
		b.set(probe(1, ips...))
		after(600 * time.Millisecond)
		for key, p := range b.States().Probes["default.web"] {
			if p.Unclaimed != schema.True {
				t.Errorf("%s is %s after 600 ms", key.IP, p.Unclaimed)
			}
		}
		frames := b.sent(b.began)
		if got := most(frames, 100*time.Millisecond); got > 800+64 {
			t.Errorf("%d frames in 100 ms", got)
		}
	})
}

func TestAnIdleEngineDoesNotWakeUp(t *testing.T) {
	run(t, func(b *bench) {
		b.set(announce(vip4))
		after(10 * time.Second)
		b.mu.Lock()
		wait, ok := b.schedule.Next(b.now())
		b.mu.Unlock()
		if !ok || wait < 45*time.Second {
			t.Errorf("next wake-up in %v, want that of the next refresh", wait)
		}
	})
}

func TestAfterALongStopRefreshesAreNotCaughtUpInABurst(t *testing.T) {
	run(t, func(b *bench) {
		b.set(announce(thousand()...))
		after(10 * time.Second)
		b.jump.Store(int64(10 * time.Minute)) // as after a stop of the machine
		from := time.Now()
		after(time.Minute)
		if got := most(b.sent(from), time.Second); got > 18 {
			t.Errorf("%d frames in one second", got)
		}
	})
}

func TestALoopThatIsStuckIsUnhealthy(t *testing.T) {
	e := New(linktest.New(), func() time.Duration { return time.Hour }, func() {}, prometheus.NewRegistry())
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- e.Run(ctx) }()
	if err := e.Pulse.Check(ctx); err != nil {
		t.Error(err)
	}
	e.mu.Lock() // as a hanging send would
	_ = e.Pulse.Check(ctx)
	soon, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	if err := e.Pulse.Check(soon); err == nil {
		t.Error("a stuck loop is called healthy")
	}
	e.mu.Unlock()
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
