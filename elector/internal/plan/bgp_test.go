package plan

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vipod/vipod/elector/internal/config"
	"github.com/vipod/vipod/shared/ownership"
	"github.com/vipod/vipod/shared/schema"
)

// speaking is a node in BGP mode with the peers of its settings.
func speaking(peers ...string) Speaker {
	in := Speaker{
		Config: &config.Config{NodeName: "n1", Mode: config.ModeBGP, BGP: config.BGP{AS: 65000}},
		Node:   &Node{Name: "n1", Addresses: addrs("2001:db8::1", "198.51.100.1"), Labels: map[string]string{"rack": "a"}},
	}
	for _, ip := range peers {
		in.Config.BGP.Peers = append(in.Config.BGP.Peers, named(ip, ip))
	}
	return in
}

func named(name, ip string) config.Peer {
	return config.Peer{BGPPeer: schema.BGPPeer{Name: name, Address: netip.MustParseAddr(ip), AS: 65001, Port: 179}}
}

func peersOf(b *schema.BGP) (out []string) {
	for _, p := range b.Peers {
		out = append(out, p.Name)
	}
	return out
}

func TestOtherModesHaveNoBGP(t *testing.T) {
	in := speaking("192.0.2.1")
	in.Config.Mode = config.ModeTable
	if b, err := BGP(in); b != nil || err != nil {
		t.Errorf("%v, %v", b, err)
	}
}

func TestPeersAreThoseThatTheNodesLabelsSelect(t *testing.T) {
	in := speaking("192.0.2.1")
	for name, selector := range map[string]map[string]string{
		"same": {"rack": "a"}, "other": {"rack": "b"}, "more": {"rack": "a", "zone": "x"}, "all": nil,
	} {
		p := named(name, "192.0.2.2")
		p.NodeSelector = selector
		in.FilePeers = append(in.FilePeers, p)
	}
	check := func(what string, want ...string) {
		t.Helper()
		b, err := BGP(in)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, slices.Sorted(slices.Values(peersOf(b)))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	check("in rack a", "192.0.2.1", "all", "same")
	in.Node.Labels = map[string]string{"rack": "b"}
	check("in rack b", "192.0.2.1", "all", "other")
	in.Node = nil
	check("not among the Nodes", "192.0.2.1", "all")
}

func TestAPeerOfSettingsAndFileIsAnError(t *testing.T) {
	in := speaking("192.0.2.1")
	in.FilePeers = []config.Peer{named("192.0.2.1", "192.0.2.1")}
	if _, err := BGP(in); err == nil || !strings.Contains(err.Error(), "given twice") {
		t.Error(err)
	}
}

func TestRouterIDIsTheFirstThatIsKnown(t *testing.T) {
	in := speaking("192.0.2.1")
	check := func(what, want string) {
		t.Helper()
		if b, err := BGP(in); err != nil || b.RouterID.String() != want {
			t.Errorf("%s: %v, %v", what, b, err)
		}
	}
	check("the Node's address", "198.51.100.1")
	in.Config.BGP.RouterInterface = "eth1"
	if _, err := BGP(in); err == nil || !strings.Contains(err.Error(), "eth1 has no IPv4 address") {
		t.Error(err)
	}
	in.Links = []schema.Link{{Name: "eth1", Addresses: prefixes("2001:db8::9/64", "198.51.100.9/24")}}
	check("the interface's", "198.51.100.9")
	in.Config.BGP.RouterID = netip.MustParseAddr("192.0.2.99")
	check("what is set", "192.0.2.99")
	in = speaking("192.0.2.1")
	in.Node.Addresses = addrs("2001:db8::1")
	one, err := BGP(in)
	in.Config.NodeName = "n2"
	two, err2 := BGP(in)
	if err != nil || err2 != nil || one.RouterID == two.RouterID || one.RouterID.IsUnspecified() {
		t.Errorf("made of the name: %v, %v", one, two)
	}
}

// annotatedNode is one with annotations as kube-vip reads them.
func annotatedNode(change map[string]string) Speaker {
	in := speaking("192.0.2.1")
	in.Config.BGP.AnnotationPrefix = "example.com"
	in.Node.Annotations = map[string]string{
		"example.com/node-asn": "65010", "example.com/src-ip": "198.51.100.7", "example.com/peer-asn": "65011",
		"example.com/peer-ip": "192.0.2.11,192.0.2.12", "other.com/peer-ip": "192.0.2.99",
	}
	maps.Copy(in.Node.Annotations, change)
	return in
}

func TestAnnotationsOfTheNodeReplaceThePeersOfTheSettings(t *testing.T) {
	b, err := BGP(annotatedNode(nil))
	if err != nil {
		t.Fatal(err)
	}
	if b.AS != 65010 || b.RouterID.String() != "198.51.100.7" || !slices.Equal(peersOf(b), []string{"192.0.2.11", "192.0.2.12"}) {
		t.Errorf("%+v", b)
	}
	for _, p := range b.Peers {
		if p.AS != 65011 || p.SourceAddress.String() != "198.51.100.7" || p.TTL != 1 || p.Password {
			t.Errorf("%+v", p)
		}
	}
	b, err = BGP(annotatedNode(map[string]string{
		"example.com/bgp-peers-0-peer-ip": "192.0.2.21", "example.com/bgp-peers-1-peer-ip": "192.0.2.22",
		"example.com/bgp-peers-1-peer-asn": "65022", "example.com/peer-multi-hop": "true", "example.com/bgp-pass": "aHVudGVyMg==",
	}))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(peersOf(b), []string{"192.0.2.21", "192.0.2.22"}) || b.Peers[0].AS != 65011 || b.Peers[1].AS != 65022 ||
		!b.Peers[0].Password || b.Peers[0].TTL != 50 {
		t.Errorf("%+v", b.Peers)
	}
}

func TestAnAnnotationThatChangesLeavesOtherPeersAsTheyAre(t *testing.T) {
	before, err := BGP(annotatedNode(nil))
	if err != nil {
		t.Fatal(err)
	}
	after, err := BGP(annotatedNode(map[string]string{"example.com/peer-ip": "192.0.2.11,192.0.2.13"}))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before.Peers[0], after.Peers[0], compareAddr); diff != "" {
		t.Errorf("the peer that stays (-before +after):\n%s", diff)
	}
	if before.AS != after.AS || before.RouterID != after.RouterID || after.Peers[1].Name != "192.0.2.13" {
		t.Errorf("%+v", after)
	}
}

func TestAnnotationsThatAreWrongAreNamedWithTheNode(t *testing.T) {
	for want, change := range map[string]map[string]string{
		"node-asn is missing": {"example.com/node-asn": ""}, "node-asn is missing or": {"example.com/node-asn": "x"},
		"src-ip": {"example.com/src-ip": "nowhere"}, "peer-asn": {"example.com/peer-asn": "0"},
		"peer-ip is missing": {"example.com/peer-ip": ""}, "peer-ip": {"example.com/peer-ip": "x"},
		"peer-multi-hop": {"example.com/peer-multi-hop": "perhaps"}, "bgp-pass": {"example.com/bgp-pass": "hunter2!"},
	} {
		_, err := BGP(annotatedNode(change))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "n1") || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", want, err)
		}
	}
	in := annotatedNode(nil)
	in.Node = nil
	if _, err := BGP(in); err == nil {
		t.Error("no Node is no error")
	}
}

func TestAddressesAreOnAnInterfaceInBGPModeOnlyWhereThatIsAskedFor(t *testing.T) {
	in := world(svc("shop/web", ips("198.51.100.80,2001:db8::80")))
	in.Config.Mode, in.Config.Components = config.ModeBGP, []string{ownership.Vipd, ownership.Bgpd}
	check := func(want string) {
		t.Helper()
		out := Plan(in)
		if len(out.VIPs) != 1 || !out.VIPs[0].Eligible {
			t.Fatalf("%+v", out)
		}
		for _, a := range out.VIPs[0].Addresses {
			if a.Interface != want {
				t.Errorf("%s is on %q, want %q", a.IP, a.Interface, want)
			}
		}
	}
	check("")
	in.Config.BGP.Attach = true
	check("eth0")
	in.Config.Components = []string{ownership.Vipd}
	if v := Plan(in).VIPs[0]; v.Eligible || !strings.Contains(v.Why, "bgpd") {
		t.Errorf("without bgpd: %+v", v)
	}
}
