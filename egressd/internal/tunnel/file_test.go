package tunnel_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vipod/vipod/egressd/internal/tunnel"
)

// Keys of nobody.
var (
	private = base64.StdEncoding.EncodeToString([]byte(strings.Repeat("p", 32)))
	public  = base64.StdEncoding.EncodeToString([]byte(strings.Repeat("q", 32)))
)

const good = `wg0:
  vip: 198.51.100.200/32
  privateKey: PRIVATE
  peerPublicKey: PUBLIC
  peerEndpoint: 203.0.113.1:51820
  allowedIPs: [192.0.2.0/24, 192.0.2.128/25]
  listenPort: 51820
`

func fill(text string) []byte {
	return []byte(strings.NewReplacer("PRIVATE", private, "PUBLIC", public).Replace(text))
}

var byValue = cmp.Options{
	cmp.Comparer(func(a, b netip.Addr) bool { return a == b }), cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }),
	cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b }),
}

func TestFileOfTunnelsIsRead(t *testing.T) {
	own, err := tunnel.ParseKey(private)
	if err != nil {
		t.Fatal(err)
	}
	far, err := tunnel.ParseKey(public)
	if err != nil {
		t.Fatal(err)
	}
	want := tunnel.Tunnel{
		Name: "wg0", VIP: netip.MustParsePrefix("198.51.100.200/32"), PrivateKey: own, PeerKey: far,
		Endpoint: netip.MustParseAddrPort("203.0.113.1:51820"), Port: 51820,
		Allowed: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("192.0.2.128/25")},
	}
	six := want
	six.Name, six.VIP, six.Port = "wg6", netip.MustParsePrefix("2001:db8::200/64"), 51821
	six.Endpoint, six.Allowed = netip.MustParseAddrPort("[2001:db8::1]:51820"), []netip.Prefix{netip.MustParsePrefix("::/0")}
	second := strings.NewReplacer("wg0", "wg6", "198.51.100.200/32", "2001:db8::200/64", "203.0.113.1:51820", `"[2001:db8::1]:51820"`,
		"[192.0.2.0/24, 192.0.2.128/25]", `"::/0"`, "listenPort: 51820", "listenPort: 51821").Replace(good)
	for _, c := range []struct {
		name, text string
		want       []tunnel.Tunnel
	}{
		{"nothing", "", nil}, {"null", "null", nil}, {"a comment", "# none\n", nil}, {"no tunnels", "{}", nil},
		{"one", good, []tunnel.Tunnel{want}},
		{"two, sorted", second + good, []tunnel.Tunnel{want, six}},
		{"networks as text", strings.Replace(good, "[192.0.2.0/24, 192.0.2.128/25]", "192.0.2.0/24, 192.0.2.128/25", 1), []tunnel.Tunnel{want}},
		{"address without a length", strings.Replace(good, "198.51.100.200/32", "198.51.100.200", 1), []tunnel.Tunnel{want}},
	} {
		got, err := tunnel.ParseFile(fill(c.text))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if diff := cmp.Diff(c.want, got, byValue); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

func TestBadFileOfTunnelsIsOneErrorThatTellsNoKey(t *testing.T) {
	with := func(old, now string) string { return strings.Replace(good, old, now, 1) }
	for _, c := range []struct{ name, text, want string }{
		{"not YAML", good + "\t%", "it is not YAML (line 7)"},
		{"a list", "- wg0", "line 1: want tunnels, each as name: and its fields"},
		{"two documents", good + "---\n" + good, "want one YAML document, and nothing behind it"},
		{"key instead of a tunnel", "wg0: PRIVATE", "tunnel wg0, line 1: want the fields vip, privateKey, peerPublicKey, peerEndpoint, allowedIPs and listenPort"},
		{"key instead of a name", with("wg0", "PRIVATE"), "tunnel (not shown), line 1: its name is not one of a link: want 1 to 15 letters, digits, dashes or dots"},
		{"name of a link in the making", with("wg0", "vipodwg-1"), "tunnel vipodwg-1, line 1: its name is not one of a link: want 1 to 15 letters, digits, dashes or dots"},
		{"unknown field", with("vip:", "mtu: 1300\n  vip:"), "tunnel wg0, line 2: there is no field mtu"},
		{"key instead of a field", with("vip:", "PRIVATE: x\n  vip:"), "tunnel wg0, line 2: there is no field (not shown)"},
		{"field twice", with("vip:", "listenPort: 1\n  vip:"), "tunnel wg0, line 2: field listenPort is not a port from 256 to 65535; it is the number of the tunnel's routing table as well, of which those up to 255 are the system's"},
		{"the same field twice", good + "  listenPort: 51820\n", "tunnel wg0, line 8: field listenPort is given twice"},
		{"missing field", with("  listenPort: 51820\n", ""), "tunnel wg0, line 2: field listenPort is missing"},
		{"short key", with("PRIVATE", "c2VjcmV0"), "tunnel wg0, line 3: field privateKey is not a key: want 32 bytes in base64, as wg genkey writes them"},
		{"key that is a list", with("PRIVATE", "[PRIVATE]"), "tunnel wg0, line 3: field privateKey is not a key: want 32 bytes in base64, as wg genkey writes them"},
		{"key of zeroes", with("PRIVATE", base64.StdEncoding.EncodeToString(make([]byte, 32))), "tunnel wg0, line 3: field privateKey is the key of nothing but zeroes"},
		{"key as an address", with("198.51.100.200/32", "PRIVATE"), "tunnel wg0, line 2: field vip is not an address such as 198.51.100.200/32"},
		{"key as a port", with("listenPort: 51820", "listenPort: PRIVATE"), "tunnel wg0, line 7: field listenPort is not a port from 256 to 65535; it is the number of the tunnel's routing table as well, of which those up to 255 are the system's"},
		{"host name", with("203.0.113.1:51820", "vpn.example.com:51820"), "tunnel wg0, line 5: field peerEndpoint is not an address and a port such as 203.0.113.1:51820 or [2001:db8::1]:51820; host names are not taken"},
		{"no networks", with("[192.0.2.0/24, 192.0.2.128/25]", "PRIVATE"), "tunnel wg0, line 6: field allowedIPs is not a list of networks such as 192.0.2.0/24"},
		{"one vip twice", good + strings.Replace(good, "wg0", "wg1", 1), "tunnels wg0 and wg1 have one vip"},
		{"one port twice", good + strings.NewReplacer("wg0", "wg1", ".200/32", ".201/32").Replace(good), "tunnels wg0 and wg1 have one listenPort"},
		{"one name twice", good + strings.NewReplacer(".200/32", ".201/32", "Port: 51820", "Port: 51821").Replace(good), "tunnel wg0 is given twice"},
		{"unknown anchor", with("PRIVATE", "*PRIVATE"), "it is not YAML (line 3)"},
	} {
		got, err := tunnel.ParseFile(fill(c.text))
		if fmt.Sprint(err) != c.want || len(got) > 0 && err == nil {
			t.Errorf("%s: %v, error\n%v, want\n%s", c.name, got, err, c.want)
		}
		if err != nil && (strings.Contains(err.Error(), private[:8]) || strings.Contains(err.Error(), public[:8])) {
			t.Errorf("%s: the error has a key in it: %v", c.name, err)
		}
	}
}

func FuzzParseFile(f *testing.F) {
	f.Add(fill(good))
	f.Add(fill("wg0: &a {vip: *a}"))
	f.Add([]byte("wg0:\n  privateKey: 1"))
	f.Add([]byte("? [a]\n: b"))
	f.Fuzz(func(t *testing.T, data []byte) {
		all, err := tunnel.ParseFile(data)
		if err != nil {
			return
		}
		for _, x := range all {
			if !x.VIP.IsValid() || x.Port <= 255 || !x.Endpoint.IsValid() || len(x.Allowed) == 0 || x.PrivateKey == (tunnel.Key{}) {
				t.Errorf("%+v was accepted", x)
			}
		}
	})
}

func TestTunnelsWithOneKeyAndFarEndAreFound(t *testing.T) {
	a, b, c := made("wg0", 10), made("wg1", 20), made("wg2", 30)
	b.PrivateKey, b.PeerKey = a.PrivateKey, a.PeerKey
	c.PrivateKey = a.PrivateKey // another far end knows it as well
	if diff := cmp.Diff([]string{"wg0", "wg1"}, tunnel.Shared([]tunnel.Tunnel{a, b, c})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestNoKeyIsEverPrinted(t *testing.T) {
	all, err := tunnel.ParseFile(fill(good))
	if err != nil {
		t.Fatal(err)
	}
	text := ""
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%X", "%q", "%d"} {
		text += fmt.Sprintf(verb, all) + fmt.Sprintf(verb, all[0].PrivateKey)
	}
	b, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	text += string(b) + fmt.Sprint(tunnel.Configure{Tunnel: all[0]})
	for _, leak := range []string{private[:8], public[:8], "707070", "70, 0x70", "112 112", "pppp", "717171", "qqqq"} {
		if strings.Contains(text, leak) {
			t.Errorf("%q stands in %s", leak, text)
		}
	}
}
