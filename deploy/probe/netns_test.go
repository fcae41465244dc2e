package probe

import (
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vipod/vipod/shared/statetest"
)

// inPair runs f on a thread in a new namespace with one end of a veth pair,
// eth0; the other end is in a namespace with the addresses 198.51.100.1,
// 2001:db8::1, and peer's MAC.
func inPair(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	statetest.Root(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread ends here
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			t.Error(err)
			return
		}
		// A process holds the other namespace.
		other := exec.Command("unshare", "--net", "sleep", "60")
		if err := other.Start(); err != nil {
			t.Error(err)
			return
		}
		defer func() {
			_ = other.Process.Kill()
			_ = other.Wait()
		}()
		if setUpPair(t, other.Process.Pid) {
			f(t)
		}
	}()
	<-done
}

const peerMAC = "02:00:00:00:00:99"

func setUpPair(t *testing.T, pid int) bool {
	t.Helper()
	for !isOtherNamespace(pid) {
		time.Sleep(time.Millisecond)
	}
	script := strings.NewReplacer("PID", strconv.Itoa(pid), "MAC", peerMAC).Replace(`set -e
		ip link add eth0 type veth peer name eth0 address MAC netns PID
		ip addr add 198.51.100.2/24 dev eth0
		ip addr add 2001:db8::2/64 dev eth0 nodad
		ip link set eth0 up
		nsenter --target PID --net sh -ec '
			ip addr add 198.51.100.1/24 dev eth0
			ip addr add 2001:db8::1/64 dev eth0 nodad
			ip link set eth0 up
			until ip link show eth0 | grep -q "state UP"; do sleep 0.01; done'
		until ip link show eth0 | grep -q "state UP"; do sleep 0.01; done`)
	if out, err := exec.Command("sh", "-c", script).CombinedOutput(); err != nil {
		t.Errorf("setting up: %v: %s", err, out)
		return false
	}
	return true
}

func isOtherNamespace(pid int) bool {
	own, _ := os.Readlink("/proc/thread-self/ns/net")
	machine, _ := os.Readlink("/proc/self/ns/net")
	other, err := os.Readlink("/proc/" + strconv.Itoa(pid) + "/ns/net")
	return err == nil && other != own && other != machine
}

func TestNetnsProberAndCapture(t *testing.T) {
	inPair(t, func(t *testing.T) {
		capture, err := Listen("eth0")
		if err != nil {
			t.Error(err)
			return
		}
		defer capture.Close()
		for _, text := range []string{"198.51.100.1", "2001:db8::1"} {
			target := netip.MustParseAddr(text)
			prober, err := Start(Options{Iface: "eth0", Target: target})
			if err != nil {
				t.Error(err)
				return
			}
			time.Sleep(400 * time.Millisecond)
			result := prober.Stop()
			if result.Sent < 100 || result.Received < result.Sent*9/10 || result.Gap > 300*time.Millisecond {
				t.Errorf("%s: sent %d, received %d, gap %v", target, result.Sent, result.Received, result.Gap)
			}
			if len(result.Answerers) != 1 {
				t.Errorf("%s: %d machines answered", target, len(result.Answerers))
			}
			for mac := range result.Answerers {
				if mac.String() != peerMAC {
					t.Errorf("%s: %s answered, want %s", target, mac, peerMAC)
				}
			}
			if got := capture.Claimants(target); len(got) != 1 || got[0].String() != peerMAC {
				t.Errorf("%s: claimed by %v, want %s", target, got, peerMAC)
			}
		}
	})
}

// TestNetnsProberSilence measures an address that nobody has.
func TestNetnsProberSilence(t *testing.T) {
	inPair(t, func(t *testing.T) {
		prober, err := Start(Options{
			Iface: "eth0", Target: netip.MustParseAddr("198.51.100.77"), UDPPort: 9090, Every: 5 * time.Millisecond,
		})
		if err != nil {
			t.Error(err)
			return
		}
		time.Sleep(300 * time.Millisecond)
		running := prober.Result()
		result := prober.Stop()
		if running.Gap < 250*time.Millisecond || result.Gap < 250*time.Millisecond {
			t.Errorf("gap %v and then %v, want all the time", running.Gap, result.Gap)
		}
		if result.Received != 0 || result.Lost() != result.Sent || result.Sent > 65 {
			t.Errorf("sent %d, received %d", result.Sent, result.Received)
		}
	})
}

func TestUnknownInterface(t *testing.T) {
	if _, err := Listen("nosuch0"); err == nil || !strings.Contains(err.Error(), "nosuch0") {
		t.Errorf("error %v, want one naming the interface", err)
	}
}
