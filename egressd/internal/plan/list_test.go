package plan_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/vipod/vipod/egressd/internal/plan"
	"github.com/vipod/vipod/shared/schema"
)

func networks(texts ...string) (list []netip.Prefix) {
	for _, text := range texts {
		list = append(list, netip.MustParsePrefix(text))
	}
	return list
}

func TestListsPrintAsNftReadsThem(t *testing.T) {
	for _, c := range []struct {
		list plan.List
		want string
	}{
		{plan.List{Denied: networks("2001:db8:9::/48", "192.0.2.0/24", "10.0.0.0/8")},
			"ip daddr { 10.0.0.0/8, 192.0.2.0/24 } accept; ip6 daddr { 2001:db8:9::/48 } accept"},
		{plan.List{Allowed: networks("192.0.2.0/24")}, "ip daddr != { 192.0.2.0/24 } accept; meta nfproto ipv6 accept"},
		{plan.List{Ports: []schema.Port{{Protocol: schema.UDP, Port: 53}, {Protocol: schema.TCP, Port: 443}}},
			"meta l4proto . th dport != { tcp . 443, udp . 53 } accept"},
	} {
		if got := c.list.String(); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
}

func TestAListIsNamedByWhatIsInIt(t *testing.T) {
	a := plan.List{Denied: networks("192.0.2.0/24", "10.0.0.0/8")}
	b := plan.List{Denied: networks("10.0.0.0/8", "192.0.2.0/24")}
	c := plan.List{Allowed: a.Denied}
	if a.Name() != b.Name() || a.Name() == c.Name() || !plan.IsList(a.Name()) || len(a.Name()) > 31 {
		t.Errorf("names %s, %s, %s", a.Name(), b.Name(), c.Name())
	}
	if !a.Concerns("4") || a.Concerns("6") || !c.Concerns("6") {
		t.Error("a list of denied networks concerns their families, one of allowed networks all")
	}
}

// FuzzParseRules reads texts; what it reads it can say again.
func FuzzParseRules(f *testing.F) {
	f.Add("ip daddr { 10.0.0.0/8, 192.0.2.0/24 } accept; ip6 daddr != { 2001:db8:9::/48 } accept; meta nfproto ipv4 accept")
	f.Add("meta l4proto . th dport != { tcp . 443, udp . 53 } accept")
	f.Add("ip daddr accept; { } accept")
	f.Fuzz(func(t *testing.T, text string) {
		rules, err := plan.ParseRules(text)
		if err != nil {
			return
		}
		for _, r := range rules {
			if len(r.Elements) == 0 && !r.Not || r.Family == "" && !r.Not {
				t.Fatalf("%q gives %+v", text, r)
			}
		}
		if len(rules) != strings.Count(text, "; ")+1 || slices.ContainsFunc(rules, func(r plan.ListRule) bool { return len(r.Family) > 1 }) {
			t.Fatalf("%q gives %+v", text, rules)
		}
	})
}
