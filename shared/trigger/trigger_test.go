package trigger_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vipod/vipod/shared/trigger"
)

// fired counts the wake-ups that are waiting.
func fired(t *trigger.Trigger) int {
	for n := 0; ; n++ {
		select {
		case <-t.C():
		default:
			return n
		}
	}
}

func TestAnyNumberOfEventsIsOneWakeUp(t *testing.T) {
	for _, events := range []int{0, 1, 2, 1000} {
		trig := trigger.New()
		for range events {
			trig.Fire()
		}
		if got := fired(trig); got != min(events, 1) {
			t.Errorf("%d events made %d wake-ups", events, got)
		}
	}
}

func TestEventDuringAPassWakesOnceMore(t *testing.T) {
	trig := trigger.New()
	trig.Fire()
	<-trig.C() // the pass begins
	trig.Fire()
	if got := fired(trig); got != 1 {
		t.Errorf("%d wake-ups after the pass, want 1", got)
	}
}

func TestResyncFiresWithinItsBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const low, high = 30 * time.Second, 60 * time.Second
		ctx, cancel := context.WithCancel(t.Context())
		trig := trigger.New()
		go trig.Resync(ctx, low, high)
		var shortest, longest time.Duration = high, 0
		for range 200 {
			start := time.Now()
			<-trig.C()
			gap := time.Since(start)
			if gap < low || gap > high {
				t.Fatalf("resync after %s, want %s to %s", gap, low, high)
			}
			shortest, longest = min(shortest, gap), max(longest, gap)
		}
		if longest-shortest < (high-low)/2 {
			t.Errorf("200 gaps from %s to %s are not spread", shortest, longest)
		}
		cancel()
		synctest.Wait() // Test fails if Resync is left behind
		time.Sleep(2 * high)
		if got := fired(trig); got != 0 {
			t.Errorf("%d wake-ups after the end", got)
		}
	})
}

func TestResyncOfAFixedInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		trig := trigger.New()
		go trig.Resync(ctx, time.Second, time.Second)
		start := time.Now()
		<-trig.C()
		if gap := time.Since(start); gap != time.Second {
			t.Errorf("resync after %s, want 1s", gap)
		}
	})
}

func TestBackoffDoublesToItsBound(t *testing.T) {
	b := trigger.Backoff{Min: 100 * time.Millisecond, Max: time.Second}
	for range 2 { // the second time after Reset
		for i, want := range []time.Duration{100, 200, 400, 800, 1000, 1000} {
			want *= time.Millisecond
			if got := b.Failed(); got < want-want/10 || got > want+want/10 {
				t.Errorf("failure %d: wait %s, want %s give or take a tenth", i+1, got, want)
			}
		}
		b.Reset()
	}
}

func TestBackoffIsSpread(t *testing.T) {
	seen := map[time.Duration]bool{}
	for range 100 {
		b := trigger.Backoff{Min: time.Second, Max: time.Minute}
		seen[b.Failed()] = true
	}
	if len(seen) < 50 {
		t.Errorf("100 daemons wait %d different times, want nearly 100", len(seen))
	}
}
