package mirror_test

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vipod/vipod/egressd/internal/mirror"
	"github.com/vipod/vipod/shared/netsafe/nstest"
)

func run(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", args, err, out)
	}
	return string(out)
}

func set(t *testing.T, from, to string, want bool) {
	t.Helper()
	if changed, err := (mirror.Linux{Instance: "blue"}).Set(from, to); err != nil || changed != want {
		t.Fatalf("from %q to %q: changed %t, error %v", from, to, changed, err)
	}
}

// copies counts the ARP frames that come out of the mirror's far end, by their
// operation, while the node asks for its peer's address.
func copies(t *testing.T, analyser *nstest.NS) map[byte]int {
	t.Helper()
	fd := -1
	if err := analyser.Do(func() (err error) {
		const all = unix.ETH_P_ARP>>8 | unix.ETH_P_ARP&0xff<<8 // in network order
		fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM, all)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(fd) }()
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 200_000}); err != nil {
		t.Fatal(err)
	}
	run(t, "ip", "neigh", "flush", "dev", "v0")
	_ = exec.Command("ping", "-c", "1", "-W", "1", "198.51.100.2").Run() // asks first
	seen := map[byte]int{}
	for buf, end := make([]byte, 64), time.Now().Add(2*time.Second); time.Now().Before(end) && (seen[1] == 0 || seen[2] == 0); {
		if n, _, err := unix.Recvfrom(fd, buf, 0); err == nil && n >= 8 {
			seen[buf[7]]++
		} else if err != nil {
			break
		}
	}
	return seen
}

func TestNetnsBothDirectionsAreCopiedAndNoQueueingDisciplineIsTouched(t *testing.T) {
	ns, peer, analyser := nstest.New(t), nstest.Peer(t), nstest.Peer(t)
	nstest.Veth(t, ns, "v0", peer, "v1")
	nstest.Veth(t, ns, "m0", analyser, "m1")
	ns.Add(t, "v0", "198.51.100.1/24")
	peer.Add(t, "v1", "198.51.100.2/24")
	before := run(t, "tc", "qdisc", "show")
	if seen := copies(t, analyser); len(seen) > 0 {
		t.Errorf("copied without a mirror: %v", seen)
	}
	set(t, "v0", "m0", true)
	set(t, "v0", "m0", false)
	if seen := copies(t, analyser); seen[1] == 0 || seen[2] == 0 {
		t.Errorf("requests go out, answers come in; copied by operation: %v", seen)
	}
	run(t, "nft", "flush", "chain", "netdev", "vipod_mirror_blue", "egress")
	set(t, "v0", "m0", true)
	if after := run(t, "tc", "qdisc", "show"); after != before {
		t.Errorf("queueing disciplines were\n%s\nand are\n%s", before, after)
	}
	for _, bad := range [][2]string{{"v0", "nowhere"}, {"nowhere", "m0"}, {"v0", "v0"}} {
		if _, err := (mirror.Linux{Instance: "blue"}).Set(bad[0], bad[1]); err == nil {
			t.Errorf("no error from %s to %s", bad[0], bad[1])
		}
	}
	if rules := run(t, "nft", "list", "ruleset"); strings.Contains(rules, "mirror") {
		t.Errorf("a mirror that cannot be is left:\n%s", rules)
	}
	set(t, "v0", "m0", true)
	set(t, "", "", true)
	set(t, "", "", false)
	if rules := run(t, "nft", "list", "ruleset"); rules != "" {
		t.Errorf("left:\n%s", rules)
	}
}
