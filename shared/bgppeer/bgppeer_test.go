package bgppeer_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/vipod/vipod/shared/bgppeer"
	"github.com/vipod/vipod/shared/schema"
)

var (
	four    = netip.MustParseAddr("192.0.2.1")
	six     = netip.MustParseAddr("2001:db8::1")
	compare = cmpopts.EquateComparable(netip.Addr{})
)

func TestPeersAreReadAsKubeVIPWritesThem(t *testing.T) {
	for text, want := range map[string]bgppeer.Peer{
		"192.0.2.1:65000":                      {Address: four, AS: 65000, Port: 179},
		"192.0.2.1:65000::false":               {Address: four, AS: 65000, Port: 179},
		"192.0.2.1:4200000000:pa ss:true:1790": {Address: four, AS: 4200000000, Password: "pa ss", Multihop: true, Port: 1790},
		"[2001:db8::1]:65000::true:179:mpbgp_nexthop=fixed;mpbgp_ipv4=192.0.2.1;mpbgp_ipv6=2001:db8::1": {},
		"192.0.2.1:65000::true:179:mpbgp_nexthop=fixed;mpbgp_ipv6=[2001:db8::1]": {
			Address: four, AS: 65000, Multihop: true, Port: 179, NextHop: bgppeer.NextHopFixed, NextHop6: six},
		"[2001:db8::1]:65000::true:179:mpbgp_nexthop=auto_sourceif": {Address: six, AS: 65000, Multihop: true, Port: 179, NextHop: bgppeer.NextHopSourceIf},
		"192.0.2.1:65000:::::true":                                  {Address: four, AS: 65000, Port: 179, BFD: &schema.BFD{TXMillis: 300, RXMillis: 300, Multiplier: 3}},
		"192.0.2.1:65000:::::true;50;60;4":                          {Address: four, AS: 65000, Port: 179, BFD: &schema.BFD{TXMillis: 60, RXMillis: 50, Multiplier: 4}},
		"192.0.2.1:65000:::::false;50":                              {Address: four, AS: 65000, Port: 179},
		"unnumbered:eth0":                                           {Link: "eth0", Port: 179},
		"unnumbered:eth0:65000::false":                              {Link: "eth0", AS: 65000, Port: 179},
		"[fe80::1%eth0]:65000":                                      {Address: netip.MustParseAddr("fe80::1"), Link: "eth0", AS: 65000, Port: 179},
	} {
		got, err := bgppeer.Parse(text)
		if want.Port == 0 { // an address with colons inside of a part cannot be told from parts
			if err == nil {
				t.Errorf("%s is accepted", text)
			}
			continue
		}
		if diff := cmp.Diff(want, got, compare); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", text, err, diff)
		}
	}
}

func TestEachErrorNamesItsPartAndNoPassword(t *testing.T) {
	const password = "hunter2"
	for text, want := range map[string]string{
		"192.0.2.1":                            "has no AS",
		"192.0.2.1:0":                          "is not an AS",
		"nowhere:65000":                        "not the address of a peer",
		"2001:db8::1:65000":                    "not the address of a peer",
		"[2001:db8::1:65000":                   "bracket",
		"[2001:db8::1]x:65000":                 "between the address",
		"fe80::1:65000":                        "not the address of a peer",
		"[fe80::1]:65000":                      "link-local",
		"unnumbered:a/b:65000":                 "not the name of a link",
		"192.0.2.1:65000:hunter2:perhaps":      "multihop",
		"192.0.2.1:65000:hunter2:true:0":       "port",
		"192.0.2.1:65000:hunter2:true:179:x=y": "mpbgp_nexthop",
		"192.0.2.1:65000:hunter2:true:179:mpbgp_nexthop=x":     "auto_sourceif",
		"192.0.2.1:65000:hunter2:true:179:mpbgp_nexthop=fixed": "needs mpbgp_ipv4",
		"192.0.2.1:65000:hunter2:true:179:mpbgp_ipv4=x":        "not an address",
		"192.0.2.1:65000:hunter2:true:179::x":                  "BFD",
		"192.0.2.1:65000:hunter2:true:179::1;x":                "BFD",
		"192.0.2.1:65000:hunter2:true:179::1;5":                "bfd: 300 and 5 ms",
		"192.0.2.1:65000:hunter2:true:179::1;;;256":            "multiplier of BFD",
		"192.0.2.1:65000:hunter2:true:179::1;1:1:1":            "too many",
	} {
		_, err := bgppeer.Parse(text)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), password) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestListNamesThePeerThatIsWrong(t *testing.T) {
	peers, err := bgppeer.ParseList("192.0.2.1:65000, ,x:1,[2001:db8::1]:65000")
	if len(peers) != 2 || err == nil || !strings.HasPrefix(err.Error(), "peer 2:") {
		t.Errorf("%v, %v", peers, err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("192.0.2.1:65000:p:true:179:mpbgp_nexthop=auto_sourceif:true;1;2;3")
	f.Add("[fe80::1%eth0]:65000")
	f.Add("unnumbered:eth0")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := bgppeer.Parse(text)
		if err == nil && (p.Port == 0 || schema.ValidatePeerName(p.Name()) != nil && p.Link == "") {
			t.Errorf("accepted: %+v", p)
		}
	})
}
