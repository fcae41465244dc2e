package desired_test

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sys/unix"

	"github.com/vipod/vipod/shared/schema"
	"github.com/vipod/vipod/vipd/internal/desired"
	"github.com/vipod/vipod/vipd/internal/plan"
)

var settings = schema.Settings{Protocol: 248}

func vip(key string, state schema.State, grant schema.GrantName, link string, ips ...string) schema.VIP {
	v := schema.VIP{Key: key, State: state, Grant: grant}
	for _, s := range ips {
		ip := netip.MustParseAddr(s)
		v.Addresses = append(v.Addresses, schema.Address{IP: ip, PrefixLength: ip.BitLen(), Interface: link})
	}
	return v
}

func wanted(in desired.Input, vips ...schema.VIP) plan.Desired {
	in.Settings, in.Complete, in.VIPs = settings, true, map[string]schema.VIP{}
	for _, v := range vips {
		in.VIPs[v.Key] = v
	}
	return desired.Of(in)
}

var granted = desired.Input{Fence: true, Now: time.Minute, Grants: schema.Grants{schema.GrantNode: time.Minute + 3500*time.Millisecond}}

var compare = []cmp.Option{cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }),
	cmp.Comparer(func(a, b netip.Addr) bool { return a == b }), cmpopts.EquateEmpty()}

func TestStatesSayWhatIsWanted(t *testing.T) {
	for state, want := range map[schema.State]struct{ present, muted bool }{
		schema.StateActive: {true, false}, schema.StateDraining: {true, true},
		schema.StateStandby: {}, schema.StateWithdrawn: {},
	} {
		d := wanted(granted, vip("default.web", state, schema.GrantNode, "eth0", "198.51.100.7"))
		if got := len(d.Wants) == 1; got != want.present {
			t.Errorf("%s: wanted=%t", state, got)
		}
		if got := len(d.Gone) == 1; got == want.present {
			t.Errorf("%s: gone=%t", state, got)
		}
		if len(d.Wants) == 1 && d.Wants[0].Muted != want.muted {
			t.Errorf("%s: muted=%t", state, d.Wants[0].Muted)
		}
	}
}

func TestSharedAddressStaysUntilTheLastLeavesAndIsMuteForAnyThatDrains(t *testing.T) {
	a := vip("a.one", schema.StateActive, schema.GrantNode, "eth0", "198.51.100.7")
	b := vip("b.two", schema.StateDraining, schema.GrantControlPlane, "eth0", "198.51.100.7")
	gone := vip("c.three", schema.StateWithdrawn, schema.GrantNode, "eth0", "198.51.100.7")
	d := wanted(granted, a, b, gone)
	want := []plan.Want{{Prefix: netip.MustParsePrefix("198.51.100.7/32"), Link: "eth0",
		Grants: []plan.Grant{schema.GrantControlPlane, schema.GrantNode}, Muted: true, Valid: 120, RefreshBelow: 60}}
	if diff := cmp.Diff(want, d.Wants, compare...); diff != "" {
		t.Errorf("wants (-want +got):\n%s", diff)
	}
	if len(d.Gone) != 0 {
		t.Errorf("gone: %v", d.Gone)
	}
}

func TestLifetimesFollowTheGrantWhereThereIsNoFence(t *testing.T) {
	for _, c := range []struct {
		fence   bool
		left    time.Duration
		grant   schema.GrantName
		granted bool
		valid   uint32
	}{
		{true, 3500 * time.Millisecond, schema.GrantNode, true, 120},
		{true, 0, schema.GrantNode, false, 120},
		{true, 0, schema.GrantNone, true, 120},
		{false, 3500 * time.Millisecond, schema.GrantNode, true, 3},
		{false, 900 * time.Millisecond, schema.GrantNode, false, 1},
		{false, 0, schema.GrantNone, true, 120},
	} {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			in := desired.Input{Fence: c.fence, Now: time.Minute, Grants: schema.Grants{schema.GrantNode: time.Minute + c.left}}
			w := wanted(in, vip("default.web", schema.StateActive, c.grant, "eth0", "198.51.100.7")).Wants[0]
			if w.Granted != c.granted || w.Valid != c.valid {
				t.Errorf("granted=%t valid=%d", w.Granted, w.Valid)
			}
		})
	}
}

func TestLoopbackGetsHostScopeUnlessAskedOtherwise(t *testing.T) {
	in := granted
	in.Settings = settings
	in.VIPs = map[string]schema.VIP{"a.b": vip("a.b", schema.StateActive, schema.GrantNone, "lo", "198.51.100.7")}
	if s := desired.Of(in).Wants[0].Scope; s != unix.RT_SCOPE_HOST {
		t.Errorf("scope %d, want host", s)
	}
	in.Settings.LoopbackGlobalScope = true
	if s := desired.Of(in).Wants[0].Scope; s != unix.RT_SCOPE_UNIVERSE {
		t.Errorf("scope %d, want global", s)
	}
}
