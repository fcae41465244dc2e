package kernel_test

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/vipod/vipod/egressd/internal/desired"
	"github.com/vipod/vipod/egressd/internal/kernel"
	"github.com/vipod/vipod/egressd/internal/plan"
	"github.com/vipod/vipod/shared/netsafe/nstest"
	"github.com/vipod/vipod/shared/schema"
)

// Run as root:
//
//	go test ./internal/kernel -run '^$' -bench . -benchtime 20x

// address returns the n-th address of a range.
func address(base string, n int) netip.Addr {
	ip := netip.MustParseAddr(base).As16()
	binary.BigEndian.PutUint32(ip[12:], binary.BigEndian.Uint32(ip[12:])+uint32(n))
	return netip.AddrFrom16(ip)
}

// crowd is what documents say with that many pods behind that many Services,
// a quarter of which have a list of networks and a quarter a list of ports, each
// another one.
func crowd(pods, services int) desired.Input { return listed(pods, services, services) }

// listed is crowd with that many different lists at most.
func listed(pods, services, lists int) desired.Input {
	in := desired.Input{
		Internal: []netip.Prefix{netip.MustParsePrefix("2001:db8:0:2::/64")}, Complete: true,
		VIPs: map[string]schema.VIP{}, Egress: map[string]schema.Egress{}, Held: map[schema.GrantName]bool{schema.GrantNode: true},
	}
	for i := range services {
		key := fmt.Sprintf("default.s%d", i)
		in.VIPs[key] = schema.VIP{Key: key, State: schema.StateActive, Grant: schema.GrantNode,
			Addresses: []schema.Address{{IP: address("2001:db8:0:1::1", i), PrefixLength: 128, Interface: "eth0"}}}
		e := schema.Egress{Key: key}
		for p := i; p < pods; p += services {
			e.Pods = append(e.Pods, address("2001:db8:0:2::1", p))
		}
		switch i % 4 {
		case 0:
			e.Denied = []netip.Prefix{netip.PrefixFrom(address("2001:db8:9::", i%lists), 128), netip.MustParsePrefix("2001:db8:8::/48")}
		case 1:
			e.Ports = []schema.Port{{Protocol: schema.TCP, Port: uint16(1000 + i%lists)}, {Protocol: schema.TCP, Port: 80}}
		}
		in.Egress[key] = e
	}
	return in
}

// make brings the kernel to what documents say and returns what it holds then.
func bring(b *testing.B, k kernel.Kernel, in desired.Input, actual plan.Actual) plan.Actual {
	b.Helper()
	ops := plan.Plan(desired.Of(in).Desired, actual)
	if err := k.Do(ops); err != nil {
		b.Fatal(err)
	}
	return plan.Apply(actual, ops...)
}

func open(b *testing.B) *kernel.Linux {
	b.Helper()
	nstest.New(b)
	k := kernel.NewLinux("")
	b.Cleanup(func() { _ = k.Close() })
	return k
}

func BenchmarkEverythingInOneTransaction(b *testing.B) {
	for _, size := range [][2]int{{1000, 200}, {10000, 2000}} {
		b.Run(fmt.Sprintf("pods=%d/services=%d", size[0], size[1]), func(b *testing.B) {
			k, in := open(b), crowd(size[0], size[1])
			for b.Loop() {
				bring(b, k, in, plan.Actual{})
			}
		})
	}
	b.Run("pods=10000/services=2000/all with the same lists", func(b *testing.B) {
		k, in := open(b), listed(10000, 2000, 1)
		for b.Loop() {
			bring(b, k, in, plan.Actual{})
		}
	})
}

func BenchmarkOneChangeAmongMany(b *testing.B) {
	for _, size := range [][2]int{{100, 20}, {10000, 2000}} {
		b.Run(fmt.Sprintf("pods=%d/services=%d", size[0], size[1]), func(b *testing.B) {
			k := open(b)
			bring(b, k, crowd(size[0], size[1]), plan.Actual{})
			del := func(set, key, value string) plan.Op {
				return plan.DelElement{Element: plan.Element{Kind: plan.Egress, Set: set, Key: key, Value: value}}
			}
			add := func(set, key, value string) plan.Op {
				return plan.AddElement{Element: plan.Element{Kind: plan.Egress, Set: set, Key: key, Value: value}}
			}
			vip, pod := "2001:db8:0:1::3", "2001:db8:0:2::3" // of a Service without lists
			other := "2001:db8:0:1::4"
			b.Run("VIP", func(b *testing.B) {
				for b.Loop() {
					for _, ops := range [][]plan.Op{
						{del("vips6", pod, vip), add("vips6", pod, other)}, {del("vips6", pod, other), add("vips6", pod, vip)},
					} {
						if err := k.Do(ops); err != nil {
							b.Fatal(err)
						}
					}
				}
				b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(2*b.N), "us/change")
			})
			// The list of a Service with its five pods, planned as well.
			b.Run("list", func(b *testing.B) {
				in := crowd(size[0], size[1])
				actual := plan.Apply(plan.Actual{}, plan.Plan(desired.Of(in).Desired, plan.Actual{})...)
				doc := in.Egress["default.s0"]
				var planned [][]plan.Op
				for _, denied := range []string{"2001:db8:9::/49", "2001:db8:9::/48", "2001:db8:9::/49"} {
					doc.Denied = []netip.Prefix{netip.MustParsePrefix(denied)}
					in.Egress["default.s0"] = doc
					ops := plan.Plan(desired.Of(in).Desired, actual)
					actual = plan.Apply(actual, ops...)
					planned = append(planned, ops)
				}
				if err := k.Do(planned[0]); err != nil {
					b.Fatal(err)
				}
				for b.Loop() {
					for _, ops := range planned[1:] {
						if err := k.Do(ops); err != nil {
							b.Fatal(err)
						}
					}
				}
				b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(2*b.N), "us/change")
			})
		})
	}
}

func BenchmarkPlanning(b *testing.B) {
	in := crowd(10000, 2000)
	actual := plan.Apply(plan.Actual{}, plan.Plan(desired.Of(in).Desired, plan.Actual{})...)
	for b.Loop() {
		if ops := plan.Plan(desired.Of(in).Desired, actual); len(ops) > 0 {
			b.Fatal(ops[0])
		}
	}
}

func BenchmarkObserving(b *testing.B) {
	k := open(b)
	bring(b, k, crowd(10000, 2000), plan.Actual{})
	for b.Loop() {
		if _, err := k.Observe(); err != nil {
			b.Fatal(err)
		}
	}
}

// chainPerService is kube-vip's shape as nft reads it.
func chainPerService(services int) string {
	var script strings.Builder
	script.WriteString("table ip6 peer {\n")
	for i := range services {
		fmt.Fprintf(&script, "chain s%d { type nat hook postrouting priority 100; ip6 saddr %s ip6 daddr != 2001:db8:0:2::/64 snat to %s; }\n",
			i, address("2001:db8:0:2::1", i), address("2001:db8:0:1::1", i))
	}
	script.WriteString("}\n")
	return script.String()
}

// BenchmarkChainPerService is kube-vip's shape: a base chain for every
// Service, as nft itself loads it. The kernel takes 1024 on a hook.
func BenchmarkChainPerService(b *testing.B) {
	for _, services := range []int{200, 1000} {
		b.Run(fmt.Sprintf("services=%d", services), func(b *testing.B) {
			nstest.New(b)
			script := chainPerService(services)
			for b.Loop() {
				cmd := exec.Command("nft", "-f", "-")
				cmd.Stdin = strings.NewReader(script)
				if out, err := cmd.CombinedOutput(); err != nil {
					b.Fatalf("%v: %.300s", err, out)
				}
				b.StopTimer()
				if err := exec.Command("nft", "delete", "table", "ip6", "peer").Run(); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
		})
	}
}

// within is generous: the goal is 0.5 s on an idle machine.
const within = 10 * time.Second

func TestNetnsTenThousandPodsFitIntoOneTransaction(t *testing.T) {
	nstest.New(t)
	k := kernel.NewLinux("")
	t.Cleanup(func() { _ = k.Close() })
	ops := plan.Plan(desired.Of(crowd(10000, 2000)).Desired, plan.Actual{})
	start := time.Now()
	if err := k.Do(ops); err != nil {
		t.Fatal(err)
	}
	took := time.Since(start)
	t.Logf("%d operations in %s", len(ops), took)
	if took > within {
		t.Errorf("took %s", took)
	}
	have, err := k.Observe()
	if err != nil {
		t.Fatal(err)
	}
	if again := plan.Plan(desired.Of(crowd(10000, 2000)).Desired, have); len(again) > 0 {
		t.Errorf("the kernel holds something else: %s and %d more", again[0], len(again)-1)
	}
}
