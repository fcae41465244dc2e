package plan_test

import (
	"flag"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vipod/vipod/shared/schema"
	"github.com/vipod/vipod/vipd/internal/plan"
)

var update = flag.Bool("update", false, "write the golden files anew")

var eth0 = plan.Link{Name: "eth0", Index: 2, Admin: true, Up: true, Resolves: true, Settled4: true, Settled6: true}

func want(prefix string, muted bool) plan.Want {
	return plan.Want{Prefix: netip.MustParsePrefix(prefix), Link: "eth0", Grants: []plan.Grant{schema.GrantNode},
		Granted: true, Muted: muted, Valid: 120, RefreshBelow: 60}
}

func ours(prefix string, valid uint32) plan.Address {
	return plan.Address{Link: "eth0", Prefix: netip.MustParsePrefix(prefix), Protocol: protocol, Valid: valid}
}

var (
	v4, v6 = netip.MustParseAddr("198.51.100.7"), netip.MustParseAddr("2001:db8::7")
	held   = plan.Fence{Exists: true, Chains: []string{"eth0"}, Vips: map[plan.Grant][]netip.Addr{schema.GrantNode: {v4, v6}}}
)

var golden = []struct {
	name    string
	desired plan.Desired
	actual  plan.Actual
}{
	{"first VIP on a bare node",
		plan.Desired{Sweep: true, Fence: true, Wants: []plan.Want{want("198.51.100.7/32", false), want("2001:db8::7/128", false)}},
		plan.Actual{Links: []plan.Link{eth0}}},
	{"the fence stands before the first VIP",
		plan.Desired{Sweep: true, Fence: true, Standing: true}, plan.Actual{Links: []plan.Link{eth0}}},
	{"draining",
		plan.Desired{Sweep: true, Fence: true, Wants: []plan.Want{want("198.51.100.7/32", true), want("2001:db8::7/128", true)}},
		plan.Actual{Links: []plan.Link{eth0}, Fence: held, Addresses: []plan.Address{ours("198.51.100.7/32", 100), ours("2001:db8::7/128", 100)}}},
	{"last VIP leaves",
		plan.Desired{Sweep: true, Fence: true},
		plan.Actual{Links: []plan.Link{eth0}, Fence: held, Addresses: []plan.Address{ours("198.51.100.7/32", 100), ours("2001:db8::7/128", 100)}}},
	{"half of a life is over",
		plan.Desired{Sweep: true, Fence: true, Wants: []plan.Want{want("198.51.100.7/32", false), want("2001:db8::7/128", false)}},
		plan.Actual{Links: []plan.Link{eth0}, Fence: held, Addresses: []plan.Address{ours("198.51.100.7/32", 59), ours("2001:db8::7/128", 89)}}},
	{"a life is half over for one, and not for another for long",
		plan.Desired{Sweep: true, Fence: true, Wants: []plan.Want{want("198.51.100.7/32", false), want("2001:db8::7/128", false)}},
		plan.Actual{Links: []plan.Link{eth0}, Fence: held, Addresses: []plan.Address{ours("198.51.100.7/32", 59), ours("2001:db8::7/128", 90)}}},
	{"nobody's life is half over",
		plan.Desired{Sweep: true, Fence: true, Wants: []plan.Want{want("198.51.100.7/32", false), want("2001:db8::7/128", false)}},
		plan.Actual{Links: []plan.Link{eth0}, Fence: held, Addresses: []plan.Address{ours("198.51.100.7/32", 60), ours("2001:db8::7/128", 61)}}},
	{"nothing is swept before the documents are complete",
		plan.Desired{Fence: true, Gone: []netip.Addr{v6}},
		plan.Actual{Links: []plan.Link{eth0}, Fence: held, Addresses: []plan.Address{ours("198.51.100.7/32", 100), ours("2001:db8::7/128", 100)}}},
	{"a foreign address is muted with its VIP and stays",
		plan.Desired{Sweep: true, Fence: true, Wants: []plan.Want{want("198.51.100.7/32", true)}},
		plan.Actual{Links: []plan.Link{eth0}, Fence: held, Addresses: []plan.Address{{Link: "eth0", Prefix: netip.MustParsePrefix("198.51.100.7/24"), Valid: 0xffffffff}}}},
	{"a foreign address stays and is fenced",
		plan.Desired{Sweep: true, Fence: true, Wants: []plan.Want{want("198.51.100.7/32", false)}},
		plan.Actual{Links: []plan.Link{eth0}, Addresses: []plan.Address{{Link: "eth0", Prefix: netip.MustParsePrefix("198.51.100.7/24"), Valid: 0xffffffff}}}},
	{"without a fence a draining VIP goes",
		plan.Desired{Sweep: true, Wants: []plan.Want{want("198.51.100.7/32", true)}},
		plan.Actual{Links: []plan.Link{eth0}, Addresses: []plan.Address{ours("198.51.100.7/32", 3)}}},
	{"an address adopted from another program gets our lifetimes",
		plan.Desired{Sweep: true, Fence: true, Wants: []plan.Want{want("198.51.100.7/32", false), want("2001:db8::7/128", false)}},
		plan.Actual{Links: []plan.Link{eth0}, Fence: held, Addresses: []plan.Address{
			{Link: "eth0", Prefix: netip.MustParsePrefix("198.51.100.7/32"), Protocol: protocol, Valid: 0xffffffff, Preferred: 0xffffffff},
			ours("2001:db8::7/128", 100)}}},
}

func TestPlanPrintsCommands(t *testing.T) {
	for _, g := range golden {
		t.Run(g.name, func(t *testing.T) {
			g.desired.Protocol = protocol
			var b strings.Builder
			for _, op := range plan.Plan(g.desired, g.actual) {
				fmt.Fprintln(&b, op)
			}
			path := filepath.Join("testdata", strings.ReplaceAll(g.name, " ", "-")+".txt")
			if *update {
				if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			file, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(file), b.String()); diff != "" {
				t.Errorf("-%s +plan:\n%s", path, diff)
			}
		})
	}
}
