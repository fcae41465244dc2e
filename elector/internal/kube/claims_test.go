package kube

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func ips(list ...string) []netip.Addr {
	var out []netip.Addr
	for _, s := range list {
		out = append(out, netip.MustParseAddr(s))
	}
	return out
}

func TestClaimsAreEqualBytesInAnyOrder(t *testing.T) {
	const want = `{"version":"v1","instance_name":"blue","ifa_proto":248,"vips":[` +
		`{"index":0,"value":"10.0.0.2","kind":"address"},{"index":1,"value":"10.0.0.10","kind":"address"},` +
		`{"index":2,"value":"192.0.2.10","kind":"address"},{"index":3,"value":"2001:db8::10","kind":"address"}]}`
	for _, claims := range [][]netip.Addr{
		ips("10.0.0.2", "10.0.0.10", "192.0.2.10", "2001:db8::10"),
		ips("2001:db8::10", "192.0.2.10", "10.0.0.10", "10.0.0.2", "10.0.0.10"),
	} {
		given := append([]netip.Addr(nil), claims...)
		got, err := encodeClaims("blue", 248, claims)
		if err != nil || got != want {
			t.Errorf("got %s, %v\nwant %s", got, err, want)
		}
		if diff := cmp.Diff(given, claims, cmpopts.EquateComparable(netip.Addr{})); diff != "" {
			t.Errorf("the input was changed:\n%s", diff)
		}
	}
	if got, _ := encodeClaims("", 248, nil); !strings.Contains(got, `"vips":[]`) {
		t.Errorf("no claims: %s", got)
	}
}

func TestClaimsThatCannotBeReadAreErrors(t *testing.T) {
	list := func(vips string) string {
		return `{"version":"v1","instance_name":"","ifa_proto":248,"vips":[` + vips + `]}`
	}
	tests := map[string]struct {
		in   string
		want []netip.Addr
		fail bool
	}{
		"empty":           {in: list("")},
		"with a prefix":   {in: list(`{"index":0,"value":"192.0.2.10/32","kind":"address"}`), want: ips("192.0.2.10")},
		"mapped":          {in: list(`{"index":0,"value":"::ffff:192.0.2.10","kind":"address"}`), want: ips("192.0.2.10")},
		"a name":          {in: list(`{"index":0,"value":"vip.example.com","kind":"name"}`)},
		"unknown field":   {in: `{"version":"v1","extra":1,"vips":[]}`},
		"unknown version": {in: `{"version":"v2","vips":[]}`, fail: true},
		"unknown kind":    {in: list(`{"index":0,"value":"192.0.2.10","kind":"range"}`), fail: true},
		"wrong index":     {in: list(`{"index":1,"value":"192.0.2.10","kind":"address"}`), fail: true},
		"not an address":  {in: list(`{"index":0,"value":"192.0.2.256","kind":"address"}`), fail: true},
		"zone":            {in: list(`{"index":0,"value":"fe80::1%eth0","kind":"address"}`), fail: true},
		"not JSON":        {in: "192.0.2.10", fail: true},
		"nothing":         {in: "", fail: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := decodeClaims(test.in)
			if (err != nil) != test.fail {
				t.Fatalf("error %v", err)
			}
			if diff := cmp.Diff(test.want, got, cmpopts.EquateComparable(netip.Addr{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestAsManyClaimsAsAllowedFitIntoAnAnnotation(t *testing.T) {
	long := netip.MustParseAddr("2001:db8:1111:2222:3333:4444:5555:0").As16()
	var claims []netip.Addr
	for i := range MaxClaims {
		long[14], long[15] = byte(0xf0|i>>8), byte(i)
		claims = append(claims, netip.AddrFrom16(long))
	}
	got, err := encodeClaims(strings.Repeat("x", 243), 255, claims)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) > 256<<10-1024 {
		t.Errorf("%d bytes", len(got))
	}
	if back, err := decodeClaims(got); err != nil || len(back) != MaxClaims {
		t.Errorf("%d claims read back, %v", len(back), err)
	}
	if _, err := encodeClaims("", 248, append(claims, ips("192.0.2.1")...)); err == nil {
		t.Error("one more is accepted")
	}
}

func FuzzDecodeClaims(f *testing.F) {
	f.Add(`{"version":"v1","instance_name":"","ifa_proto":248,"vips":[{"index":0,"value":"192.0.2.10","kind":"address"}]}`)
	f.Add(`{"version":"v1","vips":[{"index":0,"value":"2001:db8::1/128","kind":"address"},{"index":1,"value":"a.example","kind":"name"}]}`)
	f.Add(`{"version":"v1","vips":null}`)
	f.Add(`[]`)
	f.Fuzz(func(t *testing.T, value string) {
		claims, err := decodeClaims(value)
		if err != nil {
			if len(claims) > 0 {
				t.Fatal("an unreadable list claims something")
			}
			return
		}
		for _, ip := range claims {
			if !ip.IsValid() || ip.Zone() != "" || ip.Is4In6() {
				t.Fatalf("claim %v", ip)
			}
		}
		again, err := encodeClaims("", 248, claims)
		if err != nil || !json.Valid([]byte(again)) {
			t.Fatalf("encoding again: %v", err)
		}
	})
}
