package leftover

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/nftables"

	"github.com/vipod/vipod/shared/netsafe/nstest"
)

// foreign is what others have in the tables that kube-vip shares with them.
const foreign = `
table ip filter {
	chain INPUT {
		type filter hook input priority filter; policy accept;
		ip daddr 198.51.100.1 tcp dport 22 accept comment "ssh, not kube-vip"
	}
}
table ip mangle {
	chain PREROUTING {
		type filter hook prerouting priority mangle; policy accept;
		ip saddr 203.0.113.9 meta mark set 0x00000001
	}
}
table ip nat {
	chain POSTROUTING {
		type nat hook postrouting priority srcnat; policy accept;
		oifname "eth0" masquerade
	}
}
table inet kube_vipers {
}
`

// left is what kube-vip adds.
const left = `
add chain ip mangle KUBE-VIP-EGRESS
add rule ip mangle KUBE-VIP-EGRESS ip saddr 203.0.113.2 meta mark set 0x40
insert rule ip mangle PREROUTING jump KUBE-VIP-EGRESS
insert rule ip nat POSTROUTING ip saddr 203.0.113.2 meta mark 0x40 snat to 198.51.100.200 comment "a3ViZS12aXAK=kube-vip-default"
insert rule ip filter INPUT ip daddr 198.51.100.200 drop comment "default/web kube-vip load balancer IP - drop"
add table ip kube_vip_v4
add chain ip kube_vip_v4 kube_vip_snat_1 { type nat hook postrouting priority 100; }
add rule ip kube_vip_v4 kube_vip_snat_1 ip saddr 203.0.113.2 snat to 198.51.100.200
add table ip6 kube_vip_blue_v6
`

func nft(t *testing.T, script string) string {
	t.Helper()
	cmd := exec.Command("nft", "-f", "-")
	if script == "" {
		cmd = exec.Command("nft", "list", "ruleset")
	}
	cmd.Stdin = strings.NewReader(script)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("nft: %v\n%s", err, out)
	}
	return string(out)
}

func TestNetnsKubeVipsLeftoversAreFoundAndRemovedAndNothingElse(t *testing.T) {
	nstest.New(t)
	nft(t, foreign)
	before := nft(t, "")
	if found, err := Find(); err != nil || len(found) > 0 {
		t.Fatalf("found %v, error %v", found, err)
	}
	nft(t, left)
	found, err := Find()
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, i := range found {
		kinds = append(kinds, strings.Split(i.String(), " handle")[0])
	}
	want := []string{
		"nft delete table ip kube_vip_v4",
		"nft delete rule ip filter INPUT", "nft delete rule ip mangle PREROUTING", "nft delete rule ip nat POSTROUTING",
		"nft delete table ip6 kube_vip_blue_v6", "nft delete chain ip mangle KUBE-VIP-EGRESS",
	}
	if diff := cmp.Diff(want, kinds); diff != "" {
		t.Errorf("(-want +found):\n%s", diff)
	}
	if err := Remove(found); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, nft(t, "")); diff != "" {
		t.Errorf("others' rules (-before +after):\n%s", diff)
	}
	if found, err := Find(); err != nil || len(found) > 0 {
		t.Errorf("left after all: %v, error %v", found, err)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{2, 0, 0, 0, 8, 0, 1, 0, 'n', 'a', 't', 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		item, ours, err := decode(nftables.TableFamilyIPv4, data)
		if err == nil && ours && (item.Handle == 0 || item.Chain == egressChain) {
			t.Fatalf("decoded %+v", item)
		}
	})
}
