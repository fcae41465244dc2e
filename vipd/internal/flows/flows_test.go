package flows

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"os/exec"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vipod/vipod/shared/netsafe/nstest"
	"github.com/vipod/vipod/shared/statetest"
)

var (
	first  = netip.MustParseAddr("198.51.100.7")
	second = netip.MustParseAddr("2001:db8::7")
)

func TestFlowsAreDeletedAFewTimesAfterAnAddressWasAdded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		got := map[netip.Addr][]time.Duration{}
		f := New(slog.New(slog.DiscardHandler), func(due map[netip.Addr]bool) (int, error) {
			for ip := range due {
				got[ip] = append(got[ip], time.Since(begin).Round(time.Second))
			}
			return 0, errors.New("one error does not end it")
		})
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _ = f.Run(ctx, func() {}) }()
		f.Added(first)
		time.Sleep(500 * time.Millisecond)
		for range 4 { // others that come do not put it off
			f.Added(second)
			time.Sleep(600 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		want := map[netip.Addr][]time.Duration{
			first:  {time.Second, 3 * time.Second, 10 * time.Second, 35 * time.Second},
			second: {4 * time.Second, 6 * time.Second, 13 * time.Second, 38 * time.Second},
		}
		if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		f.Added(first)
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := len(got[first]); n != 8 {
			t.Errorf("%d times after it was added again, want 8", n)
		}
		cancel()
		synctest.Wait()
	})
}

func TestNetnsOnlyUntranslatedDatagramsOfTheAddressesAreForgotten(t *testing.T) {
	ns, peer := nstest.New(t), nstest.Peer(t)
	nstest.Veth(t, ns, "v0", peer, "v1")
	for _, a := range []string{"198.51.100.7/32", "198.51.100.8/32", "2001:db8::7/128"} {
		ns.Add(t, "v0", a)
	}
	ns.SetUp(t, "lo", true)
	nft := exec.Command("nft", "add table inet nat; "+
		"add chain inet nat out { type nat hook output priority -100; }; "+
		"add chain inet nat in { type filter hook input priority 0; }; add rule inet nat in ct state new; "+
		"add rule inet nat out ip daddr 198.51.100.7 udp dport 53 dnat ip to 198.51.100.8:53")
	if out, err := nft.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	statetest.Eventually(t, "duplicate address detection has ended", func() bool {
		c, err := net.ListenPacket("udp", "[2001:db8::7]:0")
		return err == nil && c.Close() == nil
	})
	for _, to := range []string{"198.51.100.7:53", "198.51.100.7:54", "198.51.100.8:54", "[2001:db8::7]:54"} {
		c, err := net.Dial("udp", to)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := c.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := Forget(map[netip.Addr]bool{first: true, second: true}); n != 2 || err != nil {
		t.Errorf("%d flows deleted, %v, want 2", n, err)
	}
	if n, err := Forget(map[netip.Addr]bool{first: true, second: true}); n != 0 || err != nil {
		t.Errorf("%d more flows deleted, %v", n, err)
	}
}
