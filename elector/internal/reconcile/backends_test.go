package reconcile

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vipod/vipod/shared/trigger"
)

func TestJudgementNeedsTwoAnswersInARow(t *testing.T) {
	for _, c := range []struct{ answers, want string }{
		{"+", "+"}, {"-", "-"}, {"+-", "++"}, {"+--", "++-"}, {"+-+-+", "+++++"}, {"-+", "--"}, {"-++", "--+"}, {"--+-++", "-----+"},
	} {
		var j judgement
		got := ""
		for _, a := range c.answers {
			if j.take(a == '+'); j.up {
				got += "+"
			} else {
				got += "-"
			}
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.answers, got, c.want)
		}
	}
}

func TestBackendsAreAskedSideBySideAndForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := netip.MustParseAddrPort("198.51.100.11:6443"), netip.MustParseAddrPort("198.51.100.12:6443")
		var mu sync.Mutex
		dead, asked := map[netip.AddrPort]bool{b: true}, map[netip.AddrPort]int{}
		set := func(f func()) { mu.Lock(); defer mu.Unlock(); f() }
		servers := &backends{
			log: slog.New(slog.DiscardHandler), every: time.Second, timeout: 500 * time.Millisecond, changed: trigger.New(),
			known: map[netip.AddrPort]*backend{},
			ask: func(ctx context.Context, server netip.AddrPort) error {
				var gone bool
				set(func() { asked[server]++; gone = dead[server] })
				if gone {
					<-ctx.Done() // a dead host does not answer
					return errors.New("no answer")
				}
				return nil
			},
		}
		ctx, cancel := context.WithCancel(t.Context())
		servers.follow(ctx, []netip.AddrPort{a, b})
		time.Sleep(2 * time.Second)
		if up := servers.up(); !up[a] || up[b] {
			t.Errorf("up: %v", up)
		}
		set(func() { dead[a], dead[b] = true, false })
		time.Sleep(2500 * time.Millisecond)
		if up := servers.up(); up[a] || !up[b] {
			t.Errorf("after they have changed places: %v", up)
		}
		servers.follow(ctx, []netip.AddrPort{b})
		synctest.Wait()
		var before int
		set(func() { before = asked[a] })
		time.Sleep(5 * time.Second)
		set(func() {
			if asked[a] != before || servers.up()[a] {
				t.Error("a server that is no backend any more is asked")
			}
		})
		servers.presume([]netip.AddrPort{a})
		if !servers.up()[a] {
			t.Error("one that is presumed well is not")
		}
		cancel()
		synctest.Wait()
	})
}
