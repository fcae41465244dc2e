package plan

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/vipod/vipod/arpd/internal/frame"
	"github.com/vipod/vipod/shared/schema"
)

var (
	ip4 = netip.MustParseAddr("198.51.100.7")
	ip6 = netip.MustParseAddr("2001:db8::7")
	lan = Link{Name: "lan0", Index: 7, Up: true, Hardware: frame.Hardware{
		Type: unix.ARPHRD_ETHER, MAC: "\x02\x00\x00\x00\x00\x01", Broadcast: "\xff\xff\xff\xff\xff\xff",
	}}
	addrs = cmp.Comparer(func(a, b netip.Addr) bool { return a == b })
)

func vip(key string, state schema.State, grant schema.GrantName, ips ...netip.Addr) schema.VIP {
	v := schema.VIP{
		Meta: schema.Meta{Instance: "i", Generation: 1}, Key: key, Kind: schema.KindService, State: state, Grant: grant,
		Epoch: "5", Announce: []schema.Announce{schema.AnnounceARP, schema.AnnounceNDP},
	}
	for _, ip := range ips {
		v.Addresses = append(v.Addresses, schema.Address{IP: ip, PrefixLength: ip.BitLen(), Interface: "lan0"})
	}
	return v
}

// good is an input of which both addresses of one document are announced.
func good() Input {
	return Input{
		VIPs:     map[string]schema.VIP{"default.web": vip("default.web", schema.StateActive, schema.GrantNode, ip4, ip6)},
		Grants:   map[schema.GrantName]bool{schema.GrantNode: true},
		Protocol: 248,
		Links:    []Link{lan},
		Present:  []Present{{Link: 7, IP: ip4, Protocol: 248}, {Link: 7, IP: ip6, Protocol: 248}},
	}
}

func with(in Input, change func(v *schema.VIP)) Input {
	v := in.VIPs["default.web"]
	change(&v)
	in.VIPs["default.web"] = v
	return in
}

func announced(p Output) []netip.Addr {
	var out []netip.Addr
	for _, t := range p.Announce {
		out = append(out, t.IP)
	}
	return out
}

func TestOnlyWhatIsActiveGrantedPresentAndReachableIsAnnounced(t *testing.T) {
	state := func(s schema.State) Input {
		return with(good(), func(v *schema.VIP) { v.State = s })
	}
	links := func(change func(*Link)) Input {
		in := good()
		in.Links = slices.Clone(in.Links)
		change(&in.Links[0])
		return in
	}
	for name, c := range map[string]struct {
		in   Input
		want []netip.Addr
		why  Reason // of the first address
	}{
		"all is well": {good(), []netip.Addr{ip4, ip6}, ""},
		"draining":    {state(schema.StateDraining), nil, NotActive},
		"withdrawn":   {state(schema.StateWithdrawn), nil, NotActive},
		"no grant": {func() Input {
			in := good()
			in.Grants = nil
			return in
		}(), nil, NoGrant},
		"another grant": {func() Input {
			in := with(good(), func(v *schema.VIP) { v.Grant = schema.GrantControlPlane })
			return in
		}(), nil, NoGrant},
		"no grant needed": {func() Input {
			in := with(good(), func(v *schema.VIP) { v.Grant = schema.GrantNone })
			in.Grants = nil
			return in
		}(), []netip.Addr{ip4, ip6}, ""},
		"another's address": {func() Input {
			in := good()
			in.Present = []Present{{Link: 7, IP: ip4, Protocol: 0}, {Link: 7, IP: ip6, Protocol: 3}}
			return in
		}(), nil, NotPresent},
		"address on another link": {func() Input {
			in := good()
			in.Present = []Present{{Link: 8, IP: ip4, Protocol: 248}}
			return in
		}(), nil, NotPresent},
		"protocol number not known": {func() Input {
			in := good()
			in.Protocol = 0
			in.Present = []Present{{Link: 7, IP: ip4, Protocol: 0}}
			return in
		}(), nil, NotPresent},
		"only IPv6 asked for": {with(good(), func(v *schema.VIP) {
			v.Announce = []schema.Announce{schema.AnnounceNDP}
		}), []netip.Addr{ip6}, NotAsked},
		"link is down":         {links(func(l *Link) { l.Up = false }), nil, LinkDown},
		"link is gone":         {links(func(l *Link) { l.Name = "other" }), nil, NoLink},
		"link without address": {links(func(l *Link) { l.Hardware = frame.Hardware{Type: unix.ARPHRD_LOOPBACK} }), nil, NoHardware},
	} {
		t.Run(name, func(t *testing.T) {
			p := Plan(c.in)
			if diff := cmp.Diff(c.want, announced(p), addrs); diff != "" {
				t.Errorf("announced (-want +got):\n%s", diff)
			}
			if got := p.VIPs[0].Addresses[0].Reason; got != c.why {
				t.Errorf("reason %q, want %q", got, c.why)
			}
			if len(p.Probe) != 0 {
				t.Errorf("probes %v", p.Probe)
			}
		})
	}
}

func TestAnAddressOfTwoDocumentsIsOneTarget(t *testing.T) {
	in := good()
	in.VIPs["default.web2"] = vip("default.web2", schema.StateActive, schema.GrantNone, ip4)
	in.VIPs["default.web3"] = vip("default.web3", schema.StateActive, schema.GrantControlPlane, ip4)
	in.Grants[schema.GrantControlPlane] = true
	p := Plan(in)
	if got := len(p.Announce); got != 2 {
		t.Fatalf("%d targets, want one for each address", got)
	}
	for i, want := range []Grants{{Node: true, ControlPlane: true}, {Node: true}} {
		if got := p.Announce[i].Grants; got != want {
			t.Errorf("%s: grants %+v, want %+v", p.Announce[i].IP, got, want)
		}
	}
}

func TestAnAddressOfTwoDocumentsNeedsTheGrantsOfBoth(t *testing.T) {
	in := good()
	in.VIPs["default.web2"] = vip("default.web2", schema.StateActive, schema.GrantControlPlane, ip4)
	p := Plan(in)
	if diff := cmp.Diff([]netip.Addr{ip6}, announced(p), addrs); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, v := range p.VIPs {
		if got := v.Addresses[0].Reason; got != NoGrant {
			t.Errorf("%s: reason %q, want %q", v.Key, got, NoGrant)
		}
	}
}

func TestADrainingDocumentSilencesAnAddressThatOthersShare(t *testing.T) {
	in := good()
	in.VIPs["default.web2"] = vip("default.web2", schema.StateDraining, schema.GrantNode, ip4)
	if diff := cmp.Diff([]netip.Addr{ip6}, announced(Plan(in)), addrs); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestANewEpochIsAnotherTarget(t *testing.T) {
	before := Plan(good()).Announce[0]
	after := Plan(with(good(), func(v *schema.VIP) { v.Epoch = "6" })).Announce[0]
	if before == after {
		t.Error("the address would not be announced anew after it was elsewhere")
	}
}

func TestStandbyIsProbedWithoutGrantOrAddress(t *testing.T) {
	in := with(good(), func(v *schema.VIP) { v.State = schema.StateStandby })
	in.Grants, in.Present = nil, nil
	p := Plan(in)
	if len(p.Announce) != 0 || len(p.Probe) != 2 {
		t.Fatalf("announce %v, probe %v", p.Announce, p.Probe)
	}
	want := map[Port]frame.Hardware{{7, frame.ARP}: lan.Hardware, {7, frame.IPv6}: lan.Hardware}
	if diff := cmp.Diff(want, p.Ports); diff != "" {
		t.Errorf("ports (-want +got):\n%s", diff)
	}
}

func TestThePortOfAnActiveAddressIsOpenBeforeTheAddressIsThere(t *testing.T) {
	in := good()
	in.Present, in.Grants = nil, nil
	if got := len(Plan(in).Ports); got != 2 {
		t.Errorf("%d ports, want one for each family", got)
	}
	if got := Plan(with(good(), func(v *schema.VIP) { v.State = schema.StateWithdrawn })).Ports; len(got) != 0 {
		t.Errorf("ports %v for nothing", got)
	}
}

// FuzzMake checks with random inputs what must hold of every plan.
func FuzzMake(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		rng := rand.New(rand.NewPCG(seed, 0))
		in := random(rng)
		p := Plan(in)
		for _, a := range p.Announce {
			if !justified(in, a) {
				t.Errorf("announces %s without every reason: %+v", a.IP, in)
			}
		}
		rng.Shuffle(len(in.Links), func(i, j int) { in.Links[i], in.Links[j] = in.Links[j], in.Links[i] })
		rng.Shuffle(len(in.Present), func(i, j int) { in.Present[i], in.Present[j] = in.Present[j], in.Present[i] })
		if diff := cmp.Diff(p, Plan(in), addrs); diff != "" {
			t.Errorf("order of the input matters (-first +second):\n%s", diff)
		}
	})
}

// justified repeats the rules of the package comment in another way.
func justified(in Input, target Target) bool {
	active := false
	for _, v := range in.VIPs {
		for _, a := range v.Addresses {
			i := slices.IndexFunc(in.Links, func(l Link) bool { return l.Name == a.Interface })
			if a.IP != target.IP || i < 0 || in.Links[i].Index != target.Link {
				continue
			}
			if v.State == schema.StateDraining || !in.Links[i].Up {
				return false
			}
			if v.State == schema.StateActive && v.Grant != schema.GrantNone && !in.Grants[v.Grant] {
				return false
			}
			active = active || v.State == schema.StateActive
		}
	}
	return active && slices.Contains(in.Present, Present{Link: target.Link, IP: target.IP, Protocol: in.Protocol})
}

func random(rng *rand.Rand) Input {
	in := Input{
		VIPs: map[string]schema.VIP{}, Protocol: []uint8{0, 248}[rng.IntN(2)],
		Grants: map[schema.GrantName]bool{schema.GrantNode: rng.IntN(2) == 0, schema.GrantControlPlane: rng.IntN(2) == 0},
	}
	ips := []netip.Addr{ip4, ip4.Next(), ip6, ip6.Next()}
	for i := range 3 {
		l := lan
		l.Name, l.Index, l.Up = fmt.Sprintf("lan%d", i), i+1, rng.IntN(4) > 0
		in.Links = append(in.Links, l)
		for _, ip := range ips {
			if rng.IntN(3) > 0 {
				in.Present = append(in.Present, Present{Link: i + 1, IP: ip, Protocol: []uint8{0, 248, 249}[rng.IntN(3)]})
			}
		}
	}
	states := []schema.State{schema.StateActive, schema.StateActive, schema.StateDraining, schema.StateStandby, schema.StateWithdrawn}
	for i := range rng.IntN(6) {
		key := fmt.Sprintf("default.web%d", i)
		v := vip(key, states[rng.IntN(len(states))],
			[]schema.GrantName{schema.GrantNode, schema.GrantControlPlane, schema.GrantNone}[rng.IntN(3)])
		for range rng.IntN(3) {
			v.Addresses = append(v.Addresses, schema.Address{
				IP: ips[rng.IntN(len(ips))], PrefixLength: 32, Interface: fmt.Sprintf("lan%d", rng.IntN(4)),
			})
		}
		in.VIPs[key] = v
	}
	return in
}
