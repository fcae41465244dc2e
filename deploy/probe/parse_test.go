package probe

import (
	"encoding/hex"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func frameBytes(t testing.TB, text string) []byte {
	t.Helper()
	data, err := hex.DecodeString(strings.NewReplacer(" ", "", "\n", "", "\t", "").Replace(text))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

const (
	gratuitousRequest = `ffffffffffff 020000000001 0806 0001 0800 06 04 0001
		020000000001 c63364c8 000000000000 c63364c8`
	solicitedReply = `020000000002 020000000001 0806 0001 0800 06 04 0002
		020000000001 c63364c8 020000000002 c6336464`
	addressProbe = `ffffffffffff 020000000001 0806 0001 0800 06 04 0001
		020000000001 00000000 000000000000 c63364c8`
	unsolicitedNA = `333300000001 020000000001 86dd 60000000 0020 3a ff
		fe800000000000000000000000000001 ff020000000000000000000000000001
		88 00 0000 20000000 20010db8000000010000000000000200 0201 020000000001`
	solicitedNA = `020000000002 020000000001 86dd 60000000 0018 3a ff
		fe800000000000000000000000000001 fe800000000000000000000000000002
		88 00 0000 60000000 20010db8000000010000000000000200`
)

func TestParseFrame(t *testing.T) {
	one, two, all := MAC{2, 0, 0, 0, 0, 1}, MAC{2, 0, 0, 0, 0, 2}, MAC{255, 255, 255, 255, 255, 255}
	vip4, vip6 := netip.MustParseAddr("198.51.100.200"), netip.MustParseAddr("2001:db8:0:1::200")
	for _, c := range []struct {
		name, data string
		want       Frame
		claims     bool
	}{
		{"gratuitous request", gratuitousRequest,
			Frame{Kind: ARPRequest, IP: vip4, Source: one, Destination: all, Sender: one, Unsolicited: true}, true},
		{"solicited reply", solicitedReply,
			Frame{Kind: ARPReply, IP: vip4, Source: one, Destination: two, Sender: one}, true},
		{"probe", addressProbe,
			Frame{Kind: ARPProbe, IP: vip4, Source: one, Destination: all, Sender: one}, false},
		{"unsolicited NA", unsolicitedNA, Frame{
			Kind: NA, IP: vip6, Source: one, Destination: MAC{0x33, 0x33, 0, 0, 0, 1}, Sender: one,
			Unsolicited: true, Override: true,
		}, true},
		{"solicited NA without option", solicitedNA,
			Frame{Kind: NA, IP: vip6, Source: one, Destination: two, Override: true}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, ok := parseFrame(frameBytes(t, c.data))
			if !ok {
				t.Fatal("not recognised")
			}
			if diff := cmp.Diff(c.want, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
				t.Errorf("frame (-want +got):\n%s", diff)
			}
			if got.Claims() != c.claims {
				t.Errorf("claims %t, want %t", got.Claims(), c.claims)
			}
		})
	}
}

func FuzzParseFrame(f *testing.F) {
	for _, text := range []string{gratuitousRequest, solicitedReply, addressProbe, unsolicitedNA, solicitedNA, ""} {
		f.Add(frameBytes(f, text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		frame, ok := parseFrame(data)
		if ok && !frame.IP.IsValid() {
			t.Errorf("frame without an address: %v", frame)
		}
		p := Prober{}
		if len(data) >= headerLen {
			p.answered(data[headerLen:])
		}
	})
}
