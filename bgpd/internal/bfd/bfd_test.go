package bfd

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestPacketIsReadAsItWasWritten(t *testing.T) {
	for _, p := range []Packet{
		{State: Down, Multiplier: 3, Mine: 1, TX: time.Second, RX: 300 * time.Millisecond},
		{State: Up, Diag: DiagSignaled, Poll: true, Multiplier: 255, Mine: 1<<32 - 1, Yours: 7, TX: 50 * time.Millisecond},
		{State: AdminDown, Diag: DiagAdminDown, Final: true, Demand: true, Multiplier: 1, Mine: 2},
	} {
		got, err := Parse(p.Append(nil))
		if err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(p, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	// RFC 5880 section 4.1, byte by byte.
	p := Packet{State: Init, Diag: DiagExpired, Poll: true, Multiplier: 3, Mine: 0x01020304, Yours: 0x0a0b0c0d, TX: 50 * time.Millisecond, RX: time.Second}
	want := []byte{0x21, 0xa0, 3, 24, 1, 2, 3, 4, 10, 11, 12, 13, 0, 0, 0xc3, 0x50, 0, 0x0f, 0x42, 0x40, 0, 0, 0, 0}
	if got := p.Append(nil); !bytes.Equal(got, want) {
		t.Errorf("got  %x\nwant %x", got, want)
	}
}

func TestPacketsThatAreDiscarded(t *testing.T) {
	good := Packet{State: Up, Multiplier: 3, Mine: 1, Yours: 2}
	for name, change := range map[string]func([]byte) []byte{
		"short":                 func(b []byte) []byte { return b[:23] },
		"version":               func(b []byte) []byte { b[0] = 0x40; return b },
		"length too small":      func(b []byte) []byte { b[3] = 23; return b },
		"length too large":      func(b []byte) []byte { b[3] = 25; return b },
		"multiplier":            func(b []byte) []byte { b[2] = 0; return b },
		"multipoint":            func(b []byte) []byte { b[1] |= flagMulti; return b },
		"authenticated":         func(b []byte) []byte { b[1] |= flagAuth; return b },
		"sender not named":      func(b []byte) []byte { clear(b[4:8]); return b },
		"receiver is not named": func(b []byte) []byte { clear(b[8:12]); return b },
	} {
		if p, err := Parse(change(good.Append(nil))); err == nil {
			t.Errorf("%s: %+v", name, p)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []State{AdminDown, Down, Init, Up} {
		p := Packet{State: s, Multiplier: 3, Mine: 1, Yours: 2, TX: time.Second, RX: time.Second}
		f.Add(p.Append(nil))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := Parse(data)
		if err != nil {
			return
		}
		again, err := Parse(p.Append(nil))
		if err != nil || again != p {
			t.Errorf("%+v becomes %+v, %v", p, again, err)
		}
	})
}

func TestStatesFollowThePeers(t *testing.T) {
	for _, c := range []struct {
		at, remote, want State
		diag             Diag
	}{
		{Down, Down, Init, 0}, {Down, Init, Up, 0}, {Down, Up, Down, 0}, {Down, AdminDown, Down, 0},
		{Init, Down, Init, 0}, {Init, Init, Up, 0}, {Init, Up, Up, 0}, {Init, AdminDown, Down, DiagSignaled},
		{Up, Down, Down, DiagSignaled}, {Up, Init, Up, 0}, {Up, Up, Up, 0}, {Up, AdminDown, Down, DiagSignaled},
		{AdminDown, Down, AdminDown, 0}, {AdminDown, Init, AdminDown, 0}, {AdminDown, Up, AdminDown, 0},
	} {
		m := NewMachine(Config{TX: time.Second, RX: time.Second, Multiplier: 3}, 1)
		m.State = c.at
		m.Receive(Packet{State: c.remote, Mine: 2, Yours: 1, Multiplier: 3})
		if m.State != c.want || m.Diag != c.diag {
			t.Errorf("%s, and the peer is %s: %s (%s), want %s (%s)", c.at, c.remote, m.State, m.Diag, c.want, c.diag)
		}
		was := m.State
		m.Expire()
		if want := map[State]State{Up: Down, Init: Down, Down: Down, AdminDown: AdminDown}[was]; m.State != want {
			t.Errorf("%s expires: %s, want %s", was, m.State, want)
		}
	}
}

func TestPacketsOfAnotherSessionChangeNothing(t *testing.T) {
	m := NewMachine(Config{TX: time.Second, RX: time.Second, Multiplier: 3}, 1)
	m.State = Up
	if m.Receive(Packet{State: Down, Mine: 2, Yours: 9, Multiplier: 3, Poll: true}); m.State != Up || m.Detection() != 0 {
		t.Errorf("%s, %s", m.State, m.Detection())
	}
}

func TestTimes(t *testing.T) {
	m := NewMachine(Config{TX: 50 * time.Millisecond, RX: 60 * time.Millisecond, Multiplier: 3}, 1)
	check := func(what string, interval, detection time.Duration, polling bool) {
		t.Helper()
		if m.Interval() != interval || m.Detection() != detection || m.Packet(false).Poll != polling {
			t.Errorf("%s: every %s, detected after %s, polling %t", what, m.Interval(), m.Detection(), m.Packet(false).Poll)
		}
	}
	peer := Packet{State: Down, Mine: 2, Yours: 1, Multiplier: 5, TX: time.Second, RX: 100 * time.Millisecond}
	check("at first", slow, 0, false)
	m.Receive(peer)
	check("init", slow, 5*time.Second, false)
	peer.State, peer.TX = Up, 40*time.Millisecond
	m.Receive(peer)
	check("up: the peer takes one in 100 ms", 100*time.Millisecond, 300*time.Millisecond, true)
	peer.Final = true
	m.Receive(peer)
	check("the peer has confirmed", 100*time.Millisecond, 300*time.Millisecond, false)
	peer.Demand = true
	m.Receive(peer)
	check("on demand", 0, 300*time.Millisecond, false)
	peer.Demand, peer.RX = false, 0
	m.Receive(peer)
	check("the peer wants none", 0, 300*time.Millisecond, false)
	if !m.Receive(Packet{State: Up, Mine: 2, Yours: 1, Multiplier: 1, Poll: true}) {
		t.Error("a poll is not answered")
	}
	if p := m.Packet(true); !p.Final || p.Poll {
		t.Errorf("%+v", p)
	}
}

// pair is two sessions with a wire between them that can be cut, and the
// packets that the first one sent.
type pair struct {
	a, b *Session
	mu   sync.Mutex
	cut  bool
	sent []time.Time
}

func (p *pair) setCut(to bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = to
}

// taken returns what was sent since the last call.
func (p *pair) taken() []time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := p.sent
	p.sent = nil
	return out
}

func newPair(a, b Config) *pair {
	p := &pair{}
	to := func(s **Session, note bool) func([]byte) {
		return func(data []byte) {
			p.mu.Lock()
			defer p.mu.Unlock()
			if note {
				p.sent = append(p.sent, time.Now())
			}
			packet, err := Parse(data)
			if err != nil {
				panic(err)
			}
			if !p.cut {
				(*s).deliver(packet)
			}
		}
	}
	p.a, p.b = newSession(a, 1, to(&p.b, true), func() {}), newSession(b, 2, to(&p.a, false), func() {})
	return p
}

func fast(ms int) Config {
	d := time.Duration(ms) * time.Millisecond
	return Config{TX: d, RX: d, Multiplier: 3}
}

// run runs both sessions until the test ends.
func (p *pair) run(t *testing.T) (endA context.CancelFunc) {
	ctxA, endA := context.WithCancel(t.Context())
	ctxB, endB := context.WithCancel(t.Context())
	go p.a.Run(ctxA)
	go p.b.Run(ctxB)
	t.Cleanup(func() { endA(); endB() })
	time.Sleep(3 * time.Second)
	synctest.Wait()
	if p.a.State() != Up || p.b.State() != Up {
		t.Fatalf("%s and %s", p.a.State(), p.b.State())
	}
	return endA
}

// quiet says that a session has not lost its peer.
func quiet(s *Session) error {
	select {
	case d := <-s.Lost():
		return fmt.Errorf("lost: %s", d)
	default:
		return nil
	}
}

func TestACutIsFoundWithinTheDetectionTime(t *testing.T) {
	for _, ms := range []int{50, 300} {
		synctest.Test(t, func(t *testing.T) {
			p := newPair(fast(ms), fast(ms))
			p.run(t)
			time.Sleep(time.Minute)
			if err := quiet(p.a); err != nil || p.a.State() != Up {
				t.Fatal(p.a.State(), err)
			}
			p.setCut(true)
			began := time.Now()
			diag := <-p.a.Lost()
			took, most := time.Since(began), time.Duration(3*ms)*time.Millisecond
			if diag != DiagExpired || took > most || took < most/2 {
				t.Errorf("%s after %s, want within %s", diag, took, most)
			}
			p.setCut(false)
			time.Sleep(3 * time.Second)
			if p.a.State() != Up || p.b.State() != Up {
				t.Errorf("not up again: %s and %s", p.a.State(), p.b.State())
			}
		})
	}
}

func TestPacketsAreSpreadAndNeverFasterThanThePeerTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slower := fast(50)
		slower.RX = 200 * time.Millisecond
		p := newPair(fast(50), slower)
		p.run(t)
		p.taken()
		time.Sleep(20 * time.Second)
		synctest.Wait()
		var shortest, longest time.Duration = time.Hour, 0
		sent := p.taken()
		for i := range sent[1:] {
			gap := sent[i+1].Sub(sent[i])
			shortest, longest = min(shortest, gap), max(longest, gap)
		}
		if shortest < 150*time.Millisecond || longest > 200*time.Millisecond || longest-shortest < 20*time.Millisecond {
			t.Errorf("%d packets, %s to %s", len(sent), shortest, longest)
		}
	})
}

func TestAnEndOnPurposeIsNoLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(fast(50), fast(50))
		end := p.run(t)
		end()
		time.Sleep(time.Second)
		if err := quiet(p.b); err != nil || p.b.State() != Down {
			t.Error(p.b.State(), err)
		}
	})
}

func TestAPeerThatStartsAnewIsALoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(fast(50), fast(50))
		p.run(t)
		p.a.deliver(Packet{State: Down, Multiplier: 3, Mine: 77, TX: time.Second, RX: time.Second})
		if d := <-p.a.Lost(); d != DiagSignaled {
			t.Error(d)
		}
	})
}

func TestNothingIsSaidWhileThePeerMayKnowAnEarlierProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var states []State
		s := newSession(fast(300), 1, func(b []byte) {
			p, _ := Parse(b)
			mu.Lock()
			defer mu.Unlock()
			states = append(states, p.State)
		}, func() {})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go s.Run(ctx)
		for range 3 { // until its detection time ends
			time.Sleep(250 * time.Millisecond)
			s.deliver(Packet{State: Up, Multiplier: 3, Mine: 9, Yours: 555, TX: time.Second, RX: time.Second})
		}
		synctest.Wait()
		mu.Lock()
		if len(states) > 0 {
			t.Errorf("said %v", states)
		}
		mu.Unlock()
		s.deliver(Packet{State: Down, Multiplier: 3, Mine: 9, TX: time.Second, RX: time.Second})
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if len(states) != 1 || states[0] != Init {
			t.Errorf("said %v", states)
		}
	})
}
