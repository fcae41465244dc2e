package claim

import (
	"net/netip"
	"testing"
	"time"
)

const (
	ms     = time.Millisecond
	second = time.Second
)

var testTiming = Timing{Duration: 5 * time.Second, Renew: time.Second}

// boot is when the tests begin: a machine that is up for a while.
const boot = 1000 * second

var (
	ip1 = netip.MustParseAddr("198.51.100.200")
	ip2 = netip.MustParseAddr("2001:db8::200")
)

// bench is one machine with the API server's part played by hand.
type bench struct {
	t       *testing.T
	m       *Machine
	now     time.Duration
	version uint64
}

// newBench returns a machine that has its first Lease and a grant.
func newBench(t *testing.T) *bench {
	b := &bench{t: t, m: New("n1", testTiming), now: boot}
	b.m.Relist(b.now, nil)
	b.write()
	return b
}

// write lets the update that is due be committed and come back on the watch.
func (b *bench) write() Update {
	b.t.Helper()
	u, ok := b.m.Next(b.now)
	if !ok {
		b.t.Fatal("no update is due")
	}
	b.version++
	b.m.Committed(b.now, b.version)
	b.m.Observe(b.now, Lease{Node: "n1", Version: b.version, Duration: 5 * second, Ready: u.Ready, Claims: u.Claims})
	return u
}

// other is an event of another node's Lease.
func (b *bench) other(node string, claims ...netip.Addr) {
	b.version++
	b.m.Observe(b.now, Lease{Node: node, Version: b.version, Duration: 5 * second, Ready: true, Claims: claims})
}

func (b *bench) pass(d time.Duration) {
	b.now += d
	b.m.Tick(b.now)
}

func (b *bench) want(eligible bool, ips ...netip.Addr) {
	b.m.Want(b.now, []Group{{Addresses: ips, Eligible: eligible}}, true)
}

// own brings the addresses to Owned.
func (b *bench) own(ips ...netip.Addr) {
	b.t.Helper()
	b.want(true, ips...)
	for _, ip := range ips {
		b.m.Probed(b.now, ip, true)
		b.m.Tick(b.now)
	}
	b.write()
	for _, ip := range ips {
		b.is(ip, Owned)
	}
}

func (b *bench) is(ip netip.Addr, want Phase) {
	b.t.Helper()
	if got := b.m.State(ip).Phase; got != want {
		b.t.Fatalf("%s is %s, want %s", ip, got, want)
	}
}
