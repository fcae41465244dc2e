package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/osrg/gobgp/v3/pkg/packet/bgp"
)

var compare = cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{})

// parse has GoBGP read a message.
func parse(t *testing.T, msg []byte) *bgp.BGPMessage {
	t.Helper()
	m, err := bgp.ParseBGPMessage(msg)
	if err != nil {
		t.Fatalf("GoBGP refuses %x: %v", msg, err)
	}
	return m
}

// body has our own reader read a message.
func body(t testing.TB, msg []byte) (Type, []byte) {
	t.Helper()
	kind, b, err := Read(bytes.NewReader(msg), make([]byte, MaxLen))
	if err != nil {
		t.Fatal(err)
	}
	return kind, b
}

func opens() map[string]*Open {
	both := map[Family]bool{IPv4: true, IPv6: true}
	id := netip.MustParseAddr("192.0.2.1")
	return map[string]*Open{
		"least":      {AS: 65000, Hold: 90, RouterID: id, Families: map[Family]bool{IPv4: true}},
		"large-as":   {AS: 4200000000, Hold: 0, RouterID: id, Families: both, FourOctetAS: true},
		"everything": {AS: 65000, Hold: 3, RouterID: id, Families: both, FourOctetAS: true, Refresh: true, IPv4OverIPv6: true, Restart: &Restart{Restarted: true, Seconds: 120, Families: both}},
	}
}

func TestOpenIsReadAsItWasWrittenByUsAndByGoBGP(t *testing.T) {
	for name, o := range opens() {
		t.Run(name, func(t *testing.T) {
			msg := o.Message()
			kind, b := body(t, msg)
			got, err := ParseOpen(b)
			if err != nil || kind != TypeOpen {
				t.Fatal(kind, err)
			}
			if diff := cmp.Diff(o, got, compare); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			theirs := parse(t, msg)
			again, err := theirs.Serialize()
			if err != nil || !bytes.Equal(again, msg) {
				t.Errorf("GoBGP writes %x of %x: %v", again, msg, err)
			}
		})
	}
}

func TestOpenOfGoBGPIsRead(t *testing.T) {
	caps := []bgp.ParameterCapabilityInterface{
		bgp.NewCapMultiProtocol(bgp.RF_IPv4_UC), bgp.NewCapMultiProtocol(bgp.RF_EVPN), bgp.NewCapFourOctetASNumber(4200000001),
		bgp.NewCapFQDN("router", "example.com"), bgp.NewCapEnhancedRouteRefresh(),
		bgp.NewCapGracefulRestart(true, true, 90, []*bgp.CapGracefulRestartTuple{bgp.NewCapGracefulRestartTuple(bgp.RF_IPv4_UC, true)}),
	}
	var params []bgp.OptionParameterInterface
	for _, c := range caps { // one parameter each, as some routers do
		params = append(params, bgp.NewOptionParameterCapability([]bgp.ParameterCapabilityInterface{c}))
	}
	msg, err := bgp.NewBGPOpenMessage(23456, 180, "192.0.2.9", params).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	_, b := body(t, msg)
	o, err := ParseOpen(b)
	if err != nil {
		t.Fatal(err)
	}
	if o.AS != 4200000001 || !o.Families[IPv4] || o.Families[IPv6] || o.Restart == nil || o.Restart.Seconds != 90 || o.Hold != 180 {
		t.Errorf("%+v", o)
	}
}

func number(n uint32) *uint32 { return &n }

func prefixes(f Family, n int) []netip.Prefix {
	ip := netip.MustParseAddr("198.51.100.0")
	if f == IPv6 {
		ip = netip.MustParseAddr("2001:db8::")
	}
	var list []netip.Prefix
	for range n {
		list = append(list, netip.PrefixFrom(ip, ip.BitLen()))
		ip = ip.Next()
	}
	return list
}

// seen is what a router would make of UPDATE messages.
type seen struct {
	reach, gone []string
	hops        []string
	attrs       map[bgp.BGPAttrType]string
}

func read(t *testing.T, messages [][]byte) seen {
	t.Helper()
	s := seen{attrs: map[bgp.BGPAttrType]string{}}
	for _, msg := range messages {
		if len(msg) > MaxLen {
			t.Errorf("a message of %d bytes", len(msg))
		}
		m := parse(t, msg)
		u := m.Body.(*bgp.BGPUpdate)
		for _, p := range u.NLRI {
			s.reach = append(s.reach, p.String())
		}
		for _, p := range u.WithdrawnRoutes {
			s.gone = append(s.gone, p.String())
		}
		for _, a := range u.PathAttributes {
			switch a := a.(type) {
			case *bgp.PathAttributeMpReachNLRI:
				s.hops = append(s.hops, a.Nexthop.String())
				if a.LinkLocalNexthop != nil {
					s.hops = append(s.hops, a.LinkLocalNexthop.String())
				}
				for _, p := range a.Value {
					s.reach = append(s.reach, p.String())
				}
			case *bgp.PathAttributeMpUnreachNLRI:
				for _, p := range a.Value {
					s.gone = append(s.gone, p.String())
				}
			default:
				s.attrs[a.GetType()] = a.String()
			}
		}
	}
	return s
}

func TestUpdatesAreReadByGoBGP(t *testing.T) {
	four, six := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")
	for _, f := range []Family{IPv4, IPv6} {
		for _, n := range []int{1, 5000} {
			for _, hop := range []netip.Addr{four, six} {
				if f == IPv6 && hop.Is4() {
					continue
				}
				t.Run(fmt.Sprintf("%s %d by %s", f, n, hop), func(t *testing.T) {
					a := &Attributes{
						Path: []uint32{65000}, NextHop: hop, MED: number(7), LocalPref: number(200),
						Communities: []uint32{65000<<16 | 1, 0xffff0000}, LargeCommunities: [][3]uint32{{1, 2, 3}},
					}
					w := Writer{FourOctetAS: true}
					want := prefixes(f, n)
					got := read(t, w.Announce(f, want, a))
					check(t, got.reach, want)
					if len(got.attrs) < 6 {
						t.Errorf("attributes %v", got.attrs)
					}
					if got := got.attrs[bgp.BGP_ATTR_TYPE_COMMUNITIES]; got != "{Communities: 65000:1, planned-shut}" {
						t.Error(got)
					}
					gone := read(t, w.Withdraw(f, want))
					check(t, gone.gone, want)
				})
			}
		}
	}
}

func check(t *testing.T, got []string, want []netip.Prefix) {
	t.Helper()
	var list []string
	for _, p := range want {
		list = append(list, p.String())
	}
	if !slices.Equal(got, list) {
		t.Errorf("%d prefixes, want %d: %.200v", len(got), len(list), got)
	}
}

func TestLargeASReachesAPeerThatCannotReadItByAnotherAttribute(t *testing.T) {
	a := &Attributes{Path: []uint32{4200000000}, NextHop: netip.MustParseAddr("192.0.2.1")}
	s := read(t, Writer{}.Announce(IPv4, prefixes(IPv4, 1), a))
	if s.attrs[bgp.BGP_ATTR_TYPE_AS_PATH] != "{AsPath: 23456}" || s.attrs[bgp.BGP_ATTR_TYPE_AS4_PATH] != "4200000000" {
		t.Errorf("%v", s.attrs)
	}
}

func TestBothNextHopsOfALinkLocalSession(t *testing.T) {
	a := &Attributes{NextHop: netip.MustParseAddr("2001:db8::1"), LinkLocal: netip.MustParseAddr("fe80::1")}
	if s := read(t, Writer{}.Announce(IPv6, prefixes(IPv6, 1), a)); !slices.Equal(s.hops, []string{"2001:db8::1", "fe80::1"}) {
		t.Errorf("%v", s.hops)
	}
}

func TestEndOfRIBIsOne(t *testing.T) {
	for f, want := range map[Family]bgp.RouteFamily{IPv4: bgp.RF_IPv4_UC, IPv6: bgp.RF_IPv6_UC} {
		u := parse(t, Writer{}.EndOfRIB(f)).Body.(*bgp.BGPUpdate)
		if ok, family := u.IsEndOfRib(); !ok || family != want {
			t.Errorf("%s: %t %s", f, ok, family)
		}
	}
}

func TestMessagesThatMustBeRefused(t *testing.T) {
	marker := bytes.Repeat([]byte{0xff}, 16)
	msg := func(parts ...byte) []byte { return append(slices.Clone(marker), parts...) }
	for name, c := range map[string]struct {
		msg           []byte
		code, subcode uint8
	}{
		"marker":         {bytes.Repeat([]byte{1}, 19), CodeHeader, 1},
		"too short":      {msg(0, 18, 4), CodeHeader, 2},
		"too long":       {msg(0x10, 1, 2), CodeHeader, 2},
		"long keepalive": {msg(0, 20, 4, 0), CodeHeader, 2},
		"unknown type":   {msg(0, 19, 9), CodeHeader, 3},
	} {
		var refused *ErrMessage
		_, _, err := Read(bytes.NewReader(c.msg), make([]byte, MaxLen))
		if !errors.As(err, &refused) || refused.Code != c.code || refused.Subcode != c.subcode {
			t.Errorf("%s: %v", name, err)
		}
		if refused != nil {
			parse(t, Notification(refused.Code, refused.Subcode, refused.Data))
		}
	}
	if _, _, err := Read(bytes.NewReader(msg(0, 23, 2, 0)), make([]byte, MaxLen)); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("cut off: %v", err)
	}
}

func TestOpensThatMustBeRefused(t *testing.T) {
	good := func() []byte { _, b := body(t, opens()["everything"].Message()); return slices.Clone(b) }
	for name, c := range map[string]struct {
		change  func([]byte) []byte
		subcode uint8
	}{
		"version":           {func(b []byte) []byte { b[0] = 3; return b }, 1},
		"identifier":        {func(b []byte) []byte { clear(b[5:9]); return b }, 3},
		"hold time":         {func(b []byte) []byte { b[3], b[4] = 0, 2; return b }, 6},
		"parameter":         {func(b []byte) []byte { b[10] = 1; return b }, 4},
		"parameters cut":    {func(b []byte) []byte { return b[:len(b)-1] }, 0},
		"capability cut":    {func(b []byte) []byte { b[13]++; b[13] = 200; return b }, 0},
		"parameter too big": {func(b []byte) []byte { b[11]++; return b }, 0},
	} {
		var refused *ErrMessage
		_, err := ParseOpen(c.change(good()))
		if !errors.As(err, &refused) || refused.Code != CodeOpen || refused.Subcode != c.subcode {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNotificationSaysWhatTheAdministratorSaid(t *testing.T) {
	_, b := body(t, Notification(CodeCease, CeaseShutdown, append([]byte{5}, "maint"...)))
	want := `the peer closed the session: cease: administrative shutdown ("maint")`
	if got := ParseNotification(b).Error(); got != want {
		t.Errorf("got %s", got)
	}
	if got := ParseNotification([]byte{6, 2, 200, 'x'}).Error(); got != "the peer closed the session: cease: administrative shutdown" {
		t.Errorf("got %s", got)
	}
}

func FuzzRead(f *testing.F) {
	for _, o := range opens() {
		f.Add(o.Message())
	}
	f.Add(Keepalive())
	f.Add(Notification(CodeCease, CeaseReset, []byte{1, 'x'}))
	f.Add(Writer{}.EndOfRIB(IPv6))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, buf := bytes.NewReader(data), make([]byte, MaxLen)
		for {
			kind, b, err := Read(r, buf)
			if err != nil {
				return
			}
			switch kind {
			case TypeOpen:
				o, err := ParseOpen(b)
				if err == nil && len(o.Families) == 0 {
					t.Error("no families")
				}
			case TypeNotification:
				_ = ParseNotification(b).Error()
			case TypeRouteRefresh:
				Refresh(b)
			}
		}
	})
}
