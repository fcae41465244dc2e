package netsafe_test

import (
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vipod/vipod/shared/netsafe"
)

// A node on which everything of ours has died is cleaned by the kernel: what
// it does with lifetimes and IFA_PROTO is what this rests on. deploy/vm runs
// this on the oldest kernel as well.
func TestNetnsAddressCarriesItsProtocolAndLeavesWhenItsLifetimeEnds(t *testing.T) {
	ns, _ := pair(t)
	const lifetime = 3 * time.Second
	var prefixes []netip.Prefix
	start := time.Now()
	for _, p := range []string{"198.51.100.7/32", "2001:db8::7/128"} {
		a := netsafe.Address{LinkIndex: ns.Index(t, "v0"), Prefix: netip.MustParsePrefix(p), Protocol: 248,
			Flags: unix.IFA_F_NODAD, Valid: uint32(lifetime / time.Second)}
		if err := netsafe.ReplaceAddress(a); err != nil {
			t.Fatalf("adding %s: %v", p, err)
		}
		if got, ok := addresses(t)[a.Prefix]; !ok || got.Protocol != 248 {
			t.Fatalf("%s reads back as %+v, present: %t", p, got, ok)
		}
		prefixes = append(prefixes, a.Prefix)
	}
	// The kernel counts in seconds and rounds: it may be one early, and what
	// is over is a busy machine's.
	const early, late = lifetime - time.Second, lifetime + 30*time.Second
	for len(prefixes) > 0 {
		time.Sleep(50 * time.Millisecond)
		_, there := addresses(t)[prefixes[0]]
		switch age := time.Since(start); {
		case !there && age < early:
			t.Fatalf("%s is gone after %s already", prefixes[0], age)
		case !there:
			t.Logf("%s left after %s", prefixes[0], age.Round(10*time.Millisecond))
			prefixes = prefixes[1:]
		case age > late:
			t.Fatalf("%s is still there after %s", prefixes[0], age)
		}
	}
}
