package plan_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vipod/vipod/shared/schema"
	"github.com/vipod/vipod/vipd/internal/plan"
)

const protocol = 248

// source makes choices from bytes, so that the fuzzer can make them.
type source []byte

func (s *source) pick(n int) int {
	if len(*s) == 0 {
		return 0
	}
	b := (*s)[0]
	*s = (*s)[1:]
	return int(b) % n
}

func (s *source) flip() bool { return s.pick(2) == 1 }

var (
	names = []string{"eth0", "eth1", "lo", "veth3"}
	ips   = []netip.Addr{
		netip.MustParseAddr("198.51.100.7"), netip.MustParseAddr("198.51.100.8"), netip.MustParseAddr("203.0.113.9"),
		netip.MustParseAddr("2001:db8::7"), netip.MustParseAddr("2001:db8::8"),
	}
)

func (s *source) prefix(ip netip.Addr) netip.Prefix {
	return netip.PrefixFrom(ip, ip.BitLen()-8*s.pick(2))
}

// world is a random kernel and a random wish.
func (s *source) world() (plan.Desired, plan.Actual) {
	d := plan.Desired{Protocol: protocol, Sweep: s.flip(), Fence: s.pick(4) > 0, Standing: s.pick(4) == 0}
	for _, ip := range ips {
		switch s.pick(3) {
		case 0:
			d.Wants = append(d.Wants, s.want(ip))
		case 1:
			if s.flip() {
				d.Gone = append(d.Gone, ip)
			}
		}
	}
	a := plan.Actual{}
	for i, name := range names {
		if s.pick(4) > 0 {
			a.Links = append(a.Links, plan.Link{Name: name, Index: i + 1, Admin: s.pick(4) > 0, Loopback: name == "lo",
				Virtual: name == "veth3", Resolves: name != "lo", Settled4: s.pick(4) > 0, Settled6: s.pick(4) > 0})
		}
	}
	for _, l := range a.Links {
		for _, ip := range ips {
			if s.pick(4) == 0 {
				a.Addresses = append(a.Addresses, plan.Address{Link: l.Name, Prefix: s.prefix(ip),
					Protocol: []uint8{protocol, protocol, protocol, 0, 4}[s.pick(5)],
					Valid:    []uint32{120, 10, 0xffffffff}[s.pick(3)], Preferred: []uint32{0, 100}[s.pick(2)]})
			}
		}
	}
	if d.Fence && s.flip() {
		a.Fence = s.fence()
	}
	return d, a
}

func (s *source) want(ip netip.Addr) plan.Want {
	w := plan.Want{Prefix: s.prefix(ip), Link: names[s.pick(len(names))], Granted: s.pick(4) > 0,
		Muted: s.flip(), Valid: 120, RefreshBelow: 60}
	for _, g := range plan.Grants {
		if s.flip() {
			w.Grants = append(w.Grants, g)
		}
	}
	return w
}

func (s *source) fence() plan.Fence {
	f := plan.Fence{Exists: true, Vips: map[plan.Grant][]netip.Addr{schema.GrantNode: nil, schema.GrantControlPlane: nil}}
	for _, name := range names {
		if s.flip() {
			f.Chains = append(f.Chains, name)
		}
	}
	for _, ip := range ips {
		if s.flip() {
			f.Muted = append(f.Muted, ip)
		}
		for _, g := range plan.Grants {
			if s.flip() {
				f.Vips[g] = append(f.Vips[g], ip)
			}
		}
	}
	return f
}

// text is everything in a kernel but its links, in a fixed order.
func text(a plan.Actual) string {
	addresses := slices.Clone(a.Addresses)
	plan.SortAddresses(addresses)
	var b strings.Builder
	fmt.Fprintln(&b, a.Fence.Exists, slices.Sorted(slices.Values(a.Fence.Chains)), sorted(a.Fence.Muted))
	for _, g := range plan.Grants {
		fmt.Fprintln(&b, g, sorted(a.Fence.Vips[g]))
	}
	for _, x := range addresses {
		fmt.Fprintln(&b, x.Prefix, x.Link, x.Protocol, x.Scope, x.Valid, x.Preferred)
	}
	return b.String()
}

func sorted(list []netip.Addr) []netip.Addr {
	return slices.SortedFunc(slices.Values(list), netip.Addr.Compare)
}

func FuzzPlan(f *testing.F) {
	f.Add([]byte{})
	rng := rand.New(rand.NewPCG(1, 2))
	for range 30 {
		f.Add(randomBytes(rng))
	}
	f.Fuzz(func(t *testing.T, data []byte) { properties(t, data) })
}

func randomBytes(rng *rand.Rand) []byte {
	b := make([]byte, 150)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

func TestPlanHoldsItsProperties(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for i := range 500 {
		data := randomBytes(rng)
		if !t.Run(fmt.Sprint(i), func(t *testing.T) { properties(t, data) }) {
			return
		}
	}
}

func properties(t *testing.T, data []byte) {
	s := source(data)
	desired, actual := s.world()
	ops := plan.Plan(desired, actual)
	end := plan.Apply(actual, ops...)
	if again := plan.Plan(desired, end); len(again) > 0 {
		t.Errorf("not a fixed point: %v after %v", again, ops)
	}
	converged(t, desired, end)
	untouched(t, desired, actual, end)
	minimal(t, actual, ops)
	staged(t, ops)
	for n := range ops {
		crashed := plan.Apply(actual, ops[:n]...)
		guarded(t, desired, actual, crashed)
		recovered := plan.Apply(crashed, plan.Plan(desired, crashed)...)
		if diff := cmp.Diff(text(end), text(recovered)); diff != "" {
			t.Fatalf("stopped after %v, the next plan leads elsewhere (-whole +recovered):\n%s", ops[:n], diff)
		}
	}
	shuffled(t, desired, actual, ops, &s)
}

// converged checks the end against the wish, not against the planner's words.
func converged(t *testing.T, d plan.Desired, end plan.Actual) {
	t.Helper()
	verdicts := plan.Judge(d, end)
	for _, w := range d.Wants {
		ip := w.Prefix.Addr()
		v := verdicts[ip]
		if v.Why == plan.KernelError {
			t.Errorf("%s is absent without a reason", ip)
		}
		if d.Fence && w.Muted != slices.Contains(end.Fence.Muted, ip) {
			t.Errorf("%s: muted in the kernel is not what is wanted (%t)", ip, w.Muted)
		}
		for _, g := range plan.Grants {
			if d.Fence && slices.Contains(w.Grants, g) != slices.Contains(end.Fence.Vips[g], ip) {
				t.Errorf("%s: cover by %s is not what is wanted", ip, g)
			}
		}
	}
	for _, a := range end.Addresses {
		wanted := slices.ContainsFunc(d.Wants, func(w plan.Want) bool { return w.Prefix == a.Prefix && w.Link == a.Link })
		if a.Protocol == d.Protocol && !wanted && d.Sweep {
			t.Errorf("%s on %s is ours, unwanted and still there", a.Prefix, a.Link)
		}
	}
}

// untouched checks that what is not ours stays, and that without Sweep so
// does what no document names.
func untouched(t *testing.T, d plan.Desired, before, after plan.Actual) {
	t.Helper()
	named := func(ip netip.Addr) bool {
		return slices.Contains(d.Gone, ip) || slices.ContainsFunc(d.Wants, func(w plan.Want) bool { return w.Prefix.Addr() == ip })
	}
	for _, a := range before.Addresses {
		if (a.Protocol != d.Protocol || !d.Sweep && !named(a.Prefix.Addr())) && !slices.Contains(after.Addresses, a) {
			t.Errorf("%+v is not ours to touch", a)
		}
	}
}

// minimal checks that every operation changes something and nothing is
// changed twice.
func minimal(t *testing.T, actual plan.Actual, ops []plan.Op) {
	t.Helper()
	seen := map[string]bool{}
	for _, op := range ops {
		next := plan.Apply(actual, op)
		if text(actual) == text(next) {
			t.Errorf("%s changes nothing", op)
		}
		if seen[op.String()] {
			t.Errorf("%s twice", op)
		}
		seen[op.String()], actual = true, next
	}
}

func staged(t *testing.T, ops []plan.Op) {
	t.Helper()
	if !slices.IsSortedFunc(ops, func(a, b plan.Op) int { return int(a.Stage() - b.Stage()) }) {
		t.Errorf("stages out of order: %v", ops)
	}
}

// guarded checks that, wherever a pass is stopped, no address was added that
// is not behind the fence, and none that is to be mute is not.
func guarded(t *testing.T, d plan.Desired, before, at plan.Actual) {
	t.Helper()
	if !d.Fence {
		return
	}
	for _, w := range d.Wants {
		ip := w.Prefix.Addr()
		added := slices.ContainsFunc(at.Addresses, func(a plan.Address) bool {
			return a.Prefix.Addr() == ip && a.Protocol == d.Protocol && !slices.ContainsFunc(before.Addresses,
				func(b plan.Address) bool { return a.Prefix == b.Prefix && a.Link == b.Link })
		})
		if !added {
			continue
		}
		if w.Muted && !slices.Contains(at.Fence.Muted, ip) {
			t.Errorf("%s was added before it was muted", ip)
		}
		for _, g := range w.Grants {
			if !slices.Contains(at.Fence.Vips[g], ip) {
				t.Errorf("%s was added before it was behind the fence of %s", ip, g)
			}
		}
	}
}

func shuffled(t *testing.T, d plan.Desired, a plan.Actual, ops []plan.Op, s *source) {
	t.Helper()
	rng := rand.New(rand.NewPCG(uint64(s.pick(256)), 7))
	mix(rng, d.Wants)
	mix(rng, d.Gone)
	mix(rng, a.Links)
	mix(rng, a.Addresses)
	mix(rng, a.Fence.Chains)
	mix(rng, a.Fence.Muted)
	if diff := cmp.Diff(fmt.Sprint(ops), fmt.Sprint(plan.Plan(d, a))); diff != "" {
		t.Errorf("the order of the input matters:\n%s", diff)
	}
}

func mix[T any](rng *rand.Rand, list []T) {
	rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
}

func TestGrantsAreThoseOfTheSchema(t *testing.T) {
	if diff := cmp.Diff([]plan.Grant{schema.GrantNode, schema.GrantControlPlane}, plan.Grants); diff != "" {
		t.Error(diff)
	}
}
