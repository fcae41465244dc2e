package kerneltest

import (
	"cmp"
	"net/netip"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/vipod/vipod/shared/schema"
	"github.com/vipod/vipod/vipd/internal/kernel"
	"github.com/vipod/vipod/vipd/internal/plan"
)

// Protocol is that of the suite's own addresses.
const Protocol = 248

// Env is one kernel under test. It has a link "v0" that is up, with
// 198.51.100.1/24 and 2001:db8::1/64 as its own addresses.
type Env struct {
	Kernel kernel.Kernel
}

// Run holds a kernel to what the plan's model says of it.
func Run(t *testing.T, open func(t *testing.T) Env) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			env := open(t)
			for _, batch := range c.batches {
				before := observe(t, env)
				for i, err := range env.Kernel.Do(batch) {
					if err != nil {
						t.Fatalf("%s: %v", batch[i], err)
					}
				}
				want := comparable(plan.Apply(before, batch...))
				if diff := gocmp.Diff(want, observe(t, env), options...); diff != "" {
					t.Errorf("after %v (-model +kernel):\n%s", batch, diff)
				}
			}
		})
	}
	t.Run("grant opens, is prolonged and ends by itself", func(t *testing.T) { grant(t, open(t)) })
	t.Run("existing address is neither an error nor taken over", func(t *testing.T) { existing(t, open(t)) })
}

var options = []gocmp.Option{
	gocmp.Comparer(func(a, b netip.Prefix) bool { return a == b }),
	gocmp.Comparer(func(a, b netip.Addr) bool { return a == b }),
	cmpopts.EquateEmpty(),
}

func observe(t *testing.T, env Env) plan.Actual {
	t.Helper()
	a, err := env.Kernel.Observe()
	if err != nil {
		t.Fatal(err)
	}
	return comparable(a)
}

// comparable leaves out what changes by itself: link-local addresses, and the
// second that passes between two looks.
func comparable(a plan.Actual) plan.Actual {
	a.Links = nil
	a.Addresses = slices.DeleteFunc(slices.Clone(a.Addresses), func(x plan.Address) bool {
		return !x.Prefix.Addr().IsGlobalUnicast()
	})
	for i := range a.Addresses {
		a.Addresses[i].Valid = (a.Addresses[i].Valid + 9) / 10 * 10
	}
	slices.SortFunc(a.Addresses, func(x, y plan.Address) int { return cmp.Compare(x.Prefix.String(), y.Prefix.String()) })
	return a
}

func address(prefix string, valid uint32) plan.Address {
	return plan.Address{Link: "v0", Prefix: netip.MustParsePrefix(prefix), Protocol: Protocol, Valid: valid}
}

var (
	ip4 = netip.MustParseAddr("198.51.100.7")
	ip6 = netip.MustParseAddr("2001:db8::7")
	vip = address("198.51.100.7/32", 120)
	six = address("2001:db8::7/128", 120)
)

var fenceUp = []plan.Op{
	plan.AddTable{}, plan.AddChain{Link: "v0"}, plan.Mute{IP: ip4}, plan.Mute{IP: ip6},
	plan.Cover{Grant: schema.GrantNode, IP: ip4}, plan.Cover{Grant: schema.GrantNode, IP: ip6},
	plan.Cover{Grant: schema.GrantControlPlane, IP: ip4},
}

var cases = []struct {
	name    string
	batches [][]plan.Op
}{
	{"address comes, is refreshed and goes", [][]plan.Op{
		{plan.AddAddress{Address: vip}, plan.AddAddress{Address: six}},
		{plan.Refresh{Address: address("198.51.100.7/32", 500)}, plan.Refresh{Address: address("2001:db8::7/128", 500)}},
		{plan.DelAddress{Address: vip}, plan.DelAddress{Address: six}},
		{plan.DelAddress{Address: vip}, plan.DelAddress{Address: six}},
	}},
	{"fence comes whole and goes whole", [][]plan.Op{fenceUp, {plan.DelTable{}}}},
	{"what is there is not lost by adding it again", [][]plan.Op{
		fenceUp,
		{plan.AddChain{Link: "v0"}, plan.Mute{IP: ip4}, plan.Cover{Grant: schema.GrantNode, IP: ip6}},
	}},
	{"parts of the fence go", [][]plan.Op{
		fenceUp,
		{plan.Unmute{IP: ip4}, plan.Uncover{Grant: schema.GrantNode, IP: ip6}},
		{plan.DelChain{Link: "v0"}},
	}},
	{"thousands of elements fit in one transaction", [][]plan.Op{manyMutes(6000)}},
}

func manyMutes(n int) []plan.Op {
	ops := []plan.Op{plan.AddTable{}}
	ip := netip.MustParseAddr("2001:db8:1::")
	for range n {
		ip = ip.Next()
		ops = append(ops, plan.Mute{IP: ip})
	}
	return ops
}

func grant(t *testing.T, env Env) {
	for i, err := range env.Kernel.Do(fenceUp) {
		if err != nil {
			t.Fatalf("%s: %v", fenceUp[i], err)
		}
	}
	isOpen := func() bool { return slices.Contains(observe(t, env).Fence.Open[schema.GrantNode], "v0") }
	set := func(left time.Duration) {
		t.Helper()
		if err := env.Kernel.SetGrant(schema.GrantNode, []string{"v0", "v9"}, left); err != nil {
			t.Fatal(err)
		}
	}
	if isOpen() {
		t.Error("open before it was granted")
	}
	set(time.Hour)
	set(time.Minute)
	if !isOpen() {
		t.Error("closed while granted")
	}
	set(0)
	if isOpen() {
		t.Error("open after the grant was taken back")
	}
	set(0)
	set(time.Minute)
	if !isOpen() {
		t.Error("closed when granted again")
	}
	if observe(t, env).Fence.Open[schema.GrantControlPlane] != nil {
		t.Error("another grant is open")
	}
}

func existing(t *testing.T, env Env) {
	observe(t, env) // a kernel knows links from looking
	own := address("198.51.100.1/24", 120)
	if err := env.Kernel.Do([]plan.Op{plan.AddAddress{Address: own}})[0]; err != nil {
		t.Fatal(err)
	}
	for _, a := range observe(t, env).Addresses {
		if a.Prefix == own.Prefix && a.Protocol == Protocol {
			t.Error("the node's own address became ours")
		}
	}
}
