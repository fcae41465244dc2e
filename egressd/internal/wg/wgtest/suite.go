package wgtest

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/vipod/vipod/egressd/internal/tunnel"
	"github.com/vipod/vipod/egressd/internal/wg"
)

// Key returns a private key made of a byte. It is one for tests.
func Key(b byte) (k tunnel.Key) {
	for i := range k {
		k[i] = b
	}
	k[0] &= 248
	k[31] = k[31]&127 | 64
	return k
}

// Tunnel4 and Tunnel6 are tunnels of both families.
var (
	Tunnel4 = tunnel.Tunnel{
		Name: "wg4", VIP: netip.MustParsePrefix("198.51.100.200/32"), PrivateKey: Key(1), PeerKey: Key(2), Port: 51820,
		Endpoint: netip.MustParseAddrPort("198.51.100.2:51820"),
		Allowed:  []netip.Prefix{netip.MustParsePrefix("203.0.113.0/25"), netip.MustParsePrefix("203.0.113.200/32")},
	}
	Tunnel6 = tunnel.Tunnel{
		Name: "wg6", VIP: netip.MustParsePrefix("2001:db8::200/128"), PrivateKey: Key(3), PeerKey: Key(4), Port: 51821,
		Endpoint: netip.MustParseAddrPort("[2001:db8:0:1::2]:51820"),
		Allowed:  []netip.Prefix{netip.MustParsePrefix("2001:db8:0:9::/64"), netip.MustParsePrefix("::/0")},
	}
)

var compare = []cmp.Option{
	cmpopts.EquateEmpty(), cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }),
	cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b }),
	cmpopts.SortSlices(func(a, b netip.Prefix) bool { return a.Compare(b) < 0 }),
	// What the device did is not what it was told.
	cmpopts.IgnoreFields(tunnel.Peer{}, "Handshake", "Received", "Sent"),
}

// Run holds a kernel to what the plan's model says of it. foreign makes a link
// that is nobody's tunnel.
func Run(t *testing.T, open func(t *testing.T) wg.Kernel) {
	alias := tunnel.Alias("blue")
	want := func(again bool, list ...tunnel.Tunnel) tunnel.Desired {
		d := tunnel.Desired{Tunnels: list, Alias: alias, Sweep: true, Again: map[string]bool{}}
		for _, x := range list {
			d.Again[x.Name] = again
		}
		return d
	}
	otherPort, otherPeer, moved := Tunnel4, Tunnel4, Tunnel4
	otherPort.Port = 51900
	otherPeer.PeerKey, otherPeer.Allowed = Key(9), otherPeer.Allowed[:1]
	moved.Endpoint = netip.MustParseAddrPort("198.51.100.3:1")
	for _, c := range []struct {
		name  string
		steps []tunnel.Desired
	}{
		{"tunnels come and go", []tunnel.Desired{want(false, Tunnel4, Tunnel6), want(false, Tunnel6), want(false)}},
		{"a tunnel gets another port", []tunnel.Desired{want(false, Tunnel4), want(false, otherPort), want(false)}},
		{"a tunnel gets another far end", []tunnel.Desired{want(false, Tunnel4), want(false, otherPeer), want(true, moved)}},
		{"half a tunnel is finished", []tunnel.Desired{want(false, Tunnel4)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := open(t)
			see := func() tunnel.Actual {
				t.Helper()
				a, err := k.Observe(alias, []string{Tunnel4.Name, Tunnel6.Name})
				if err != nil {
					t.Fatal(err)
				}
				return a
			}
			model := see()
			for i, d := range c.steps {
				if c.name == "half a tunnel is finished" {
					op := tunnel.Add{Name: Tunnel4.Name, Alias: alias}
					if err := k.Do(op); err != nil {
						t.Fatal(err)
					}
					model = tunnel.Apply(model, op)
				}
				ops := tunnel.Plan(d, see())
				for _, op := range ops {
					if err := k.Do(op); err != nil {
						t.Fatal(err)
					}
					model = tunnel.Apply(model, op)
					if diff := cmp.Diff(model, see(), compare...); diff != "" {
						t.Errorf("step %d after %q (-model +kernel):\n%s", i, op, diff)
					}
				}
				d.Again = nil
				if again := tunnel.Plan(d, see()); len(again) > 0 {
					t.Errorf("step %d: planning again gives %v", i, again)
				}
			}
		})
	}
}
