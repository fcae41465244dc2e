package links_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/vipod/vipod/vipd/internal/links"
	"github.com/vipod/vipod/vipd/internal/plan"
)

const protocol = 248

// bench moves one link through time.
type bench struct {
	t       *testing.T
	tracker *links.Tracker
	now     time.Time
	again   time.Time
	own     []plan.Address
	index   int
}

func newBench(t *testing.T) *bench {
	return &bench{t: t, tracker: links.New(), now: time.Unix(1000, 0), index: 2}
}

// see looks at the link after d.
func (b *bench) see(d time.Duration, up bool) plan.Link {
	b.now = b.now.Add(d)
	a := plan.Actual{Links: []plan.Link{{Name: "eth0", Index: b.index, Admin: up, Up: up}}, Addresses: b.own}
	b.again = b.tracker.Update(b.now, &a, protocol)
	return a.Links[0]
}

func (b *bench) gone(d time.Duration) {
	b.now = b.now.Add(d)
	b.again = b.tracker.Update(b.now, &plan.Actual{}, protocol)
}

func TestLinkThatWasUpAtTheStartIsUp(t *testing.T) {
	b := newBench(t)
	if l := b.see(0, true); !l.Up || !l.Settled4 || !l.Settled6 {
		t.Errorf("%+v", l)
	}
	if !b.again.IsZero() {
		t.Error("wants to look again although nothing is pending")
	}
}

func TestLossIsReportedAtOnceAndReturnAfterTheHold(t *testing.T) {
	b := newBench(t)
	b.see(0, true)
	if b.see(time.Hour, false).Up {
		t.Error("up without carrier")
	}
	if b.see(time.Second, true).Up {
		t.Error("up before it proved itself")
	}
	if want := b.now.Add(time.Second); !b.again.Equal(want) {
		t.Errorf("looks again at %s, want %s", b.again, want)
	}
	if !b.see(time.Second, true).Up {
		t.Error("down after the hold")
	}
}

func TestTenFlapsASecondAreOneLoss(t *testing.T) {
	b := newBench(t)
	last, changes := b.see(0, true).Up, 0
	for range 100 {
		for _, up := range []bool{false, true} {
			if now := b.see(50*time.Millisecond, up).Up; now != last {
				last, changes = now, changes+1
			}
		}
	}
	if changes != 1 || last {
		t.Errorf("%d changes, up=%t at the end; want 1 and down", changes, last)
	}
	if b.see(29*time.Second, true).Up {
		t.Error("up before the longest hold")
	}
	if !b.see(2*time.Second, true).Up {
		t.Error("down after the longest hold")
	}
}

func TestHoldDecaysWhileTheLinkIsCalm(t *testing.T) {
	b := newBench(t)
	b.see(0, true)
	for range 10 {
		b.see(100*time.Millisecond, false)
		b.see(100*time.Millisecond, true)
	}
	b.see(time.Hour, true)
	b.see(time.Hour, false)
	b.see(time.Second, true)
	if !b.see(time.Second, true).Up {
		t.Error("an hour of calm did not bring the hold back to a second")
	}
}

func TestLinkThatComesBackSettlesByItsOwnAddressOrTime(t *testing.T) {
	b := newBench(t)
	b.see(0, true)
	b.see(time.Minute, false)
	b.own = []plan.Address{{Link: "eth0", Prefix: netip.MustParsePrefix("198.51.100.7/32"), Protocol: protocol}}
	if l := b.see(time.Second, true); l.Settled4 || l.Settled6 {
		t.Errorf("settled with nothing but a VIP: %+v", l)
	}
	b.own = append(b.own, plan.Address{Link: "eth0", Prefix: netip.MustParsePrefix("198.51.100.1/24")})
	if l := b.see(100*time.Millisecond, true); !l.Settled4 || l.Settled6 {
		t.Errorf("with an IPv4 address of its own: %+v", l)
	}
	if want := b.now.Add(900 * time.Millisecond); !b.again.Equal(want) {
		t.Errorf("looks again at %s, want %s", b.again, want)
	}
	if l := b.see(900*time.Millisecond, true); !l.Settled6 {
		t.Error("not settled after the longest wait")
	}
}

func TestLinkMadeAnewIsALinkThatCameBack(t *testing.T) {
	for name, away := range map[string]func(*bench){
		"seen gone":     func(b *bench) { b.gone(time.Minute) },
		"between looks": func(*bench) {},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.see(0, true)
			away(b)
			b.index++
			if l := b.see(time.Minute, true); l.Up || l.Settled4 {
				t.Errorf("%+v", l)
			}
			if l := b.see(time.Second, true); !l.Up || !l.Settled4 {
				t.Errorf("a second later: %+v", l)
			}
		})
	}
}
