package arpd

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vipod/vipod/arpd/internal/frame"
	"github.com/vipod/vipod/shared/netsafe"
	"github.com/vipod/vipod/shared/ownership"
	"github.com/vipod/vipod/shared/schema"
	"github.com/vipod/vipod/shared/sock"
	"github.com/vipod/vipod/shared/statefile"
)

// process is the binary under its own uid with its only capability.
type process struct {
	*elector
	*kernelWorld
	binary string
	stderr bytes.Buffer
}

// binary builds the daemon, once.
var binary = sync.OnceValues(func() (string, error) {
	path := filepath.Join(binaryDir, "arpd")
	if out, err := exec.Command("go", "build", "-o", path, "../..").CombinedOutput(); err != nil {
		return "", fmt.Errorf("building: %w\n%s", err, out)
	}
	return path, nil
})

var binaryDir string

func TestMain(m *testing.M) {
	var err error
	if binaryDir, err = os.MkdirTemp("", "arpd-binary"); err != nil {
		panic(err)
	}
	if err := os.Chmod(binaryDir, 0o755); err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(binaryDir) // a leftover in the temporary directory is no failure
	os.Exit(code)
}

func startProcess(t *testing.T) *process {
	t.Helper()
	p := &process{kernelWorld: newKernelWorld(t), elector: newElector(t)}
	dir, err := os.MkdirTemp("", "arpd")
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(dir)) })
	must(t, os.Chmod(dir, 0o755))
	p.binary, err = binary()
	must(t, err)
	// The elector's directory as the pod has it.
	must(t, os.Rename(p.dir, filepath.Join(dir, "state")))
	p.dir = filepath.Join(dir, "state")
	must(t, filepath.WalkDir(p.dir, func(path string, _ os.DirEntry, err error) error {
		uid := ownership.UID(ownership.Elector)
		if strings.HasPrefix(path, ownership.Dir(p.dir, ownership.Arpd)) {
			uid = ownership.UID(ownership.Arpd)
		}
		return os.Chown(path, uid, ownership.Group)
	}))
	cmd := exec.Command("setpriv", "--reuid", strconv.Itoa(ownership.UID(ownership.Arpd)), "--regid", strconv.Itoa(ownership.Group),
		"--clear-groups", "--inh-caps", "+net_raw", "--ambient-caps", "+net_raw", "--bounding-set", "-all,+net_raw",
		p.binary, "run", "--state-dir", p.dir)
	cmd.Stderr = &p.stderr
	must(t, p.ns.Do(cmd.Start))
	t.Cleanup(func() {
		p.node(t, schema.PhaseStopped)
		must(t, cmd.Process.Signal(os.Interrupt))
		if err := cmd.Wait(); err != nil {
			t.Errorf("ended with %v", err)
		}
		if t.Failed() {
			t.Logf("%s", &p.stderr)
		}
	})
	eventually(t, "the daemon is ready", func() bool { _, err := p.ask(t, "/readyz"); return err == nil })
	return p
}

func (p *process) ask(t *testing.T, path string) (string, error) {
	b, err := sock.NewClient(p.dir, ownership.Arpd).Get(t.Context(), path)
	return string(b), err
}

func (p *process) isAnnounced(key string) bool {
	path := filepath.Join(ownership.VIPs(p.dir, ownership.Arpd), key+".json")
	s, err := statefile.Read[schema.Status](path, ownership.UID(ownership.Arpd))
	return err == nil && schema.IsTrue(s.Conditions, schema.ConditionAnnounced)
}

func TestUnderItsOwnUidWithOnlyItsCapability(t *testing.T) {
	p := startProcess(t)
	p.vip(t, "default.web", schema.StateActive, vip4, vip6)
	eventually(t, "the document is read", func() bool {
		s, err := p.ask(t, "/status")
		return err == nil && strings.Contains(s, "NotPresent")
	})
	for _, ip := range []netip.Addr{vip4, vip6} {
		kind := frame.Request
		if ip.Is6() {
			kind = frame.Advertisement
		}
		p.add(t, ip, protocol)
		eventually(t, "it is announced", func() bool { return len(about(p, kind, ip)) > 0 })
		t.Logf("%s: first frame arrived %v after the address was added", ip, about(p, kind, ip)[0].at.Sub(p.added))
	}
	eventually(t, "the report says so", func() bool { return p.isAnnounced("default.web") })
	p.say(t, craft(t, frame.Reply, vip4)) // within the second of grace
	time.Sleep(1100 * time.Millisecond)
	p.say(t, craft(t, frame.Reply, vip4))
	eventually(t, "metrics show the conflict", func() bool {
		m, err := p.ask(t, "/metrics")
		return err == nil && strings.Contains(m, `vipod_arpd_conflict{address="198.51.100.7",key="default.web"} 1`) &&
			strings.Contains(m, "vipod_arpd_conflicts_total 1")
	})
	out, err := exec.Command(p.binary, "status", "--state-dir", p.dir).CombinedOutput()
	must(t, err)
	t.Logf("arpd status:\n%s", out)
	if !strings.Contains(string(out), "default.web") || !strings.Contains(string(out), stranger.String()) {
		t.Error("the table lacks the VIP or the stranger")
	}
	if _, err := p.ask(t, "/healthz"); err != nil {
		t.Error(err)
	}
}

// TestWhatTheFenceDropsIsNotSent shows what a frame looks like that a rule on
// the netdev egress hook drops, as vipd's fence does: sending fails (ENOBUFS).
func TestWhatTheFenceDropsIsNotSent(t *testing.T) {
	p := startProcess(t)
	p.nft(t, `table netdev fence { chain out { type filter hook egress device "lan0" priority 0; arp saddr ip 198.51.100.7 drop; }; }`)
	p.vip(t, "default.web", schema.StateActive, vip4)
	p.add(t, vip4, protocol)
	eventually(t, "failures are counted", func() bool {
		m, err := p.ask(t, "/metrics")
		return err == nil && strings.Contains(m, `vipod_arpd_send_errors_total{interface="lan0"}`)
	})
	if p.isAnnounced("default.web") || len(about(p, frame.Request, vip4)) != 0 {
		t.Error("announced through a closed fence")
	}
	eventually(t, "the report says why", func() bool {
		b, err := os.ReadFile(filepath.Join(ownership.VIPs(p.dir, ownership.Arpd), "default.web.json"))
		return err == nil && strings.Contains(string(b), "no buffer space")
	})
	p.nft(t, "delete table netdev fence")
	eventually(t, "announced once the fence is open", func() bool { return len(about(p, frame.Request, vip4)) > 0 })
}

func (p *process) nft(t *testing.T, commands string) {
	t.Helper()
	cmd := exec.Command("nft", "-f", "-")
	cmd.Stdin = strings.NewReader(commands)
	out := &bytes.Buffer{}
	cmd.Stdout, cmd.Stderr = out, out
	if err := p.ns.Do(cmd.Run); err != nil {
		t.Fatalf("nft: %v\n%s", err, out)
	}
}

func TestAFloodCostsABoundedPartOfAProcessorAndDoesNotStopSending(t *testing.T) {
	p := startProcess(t)
	p.vip(t, "default.web", schema.StateActive, vip4)
	p.add(t, vip4, protocol)
	eventually(t, "it is announced", func() bool { return len(about(p, frame.Request, vip4)) > 0 })
	flood := craft(t, frame.Request, vip4.Next())
	for end := time.Now().Add(1500 * time.Millisecond); time.Now().Before(end); {
		for range 100 {
			p.say(t, flood)
		}
	}
	if got := len(about(p, frame.Request, vip4)); got < 2 {
		t.Errorf("%d rounds during the flood, want 2", got)
	}
	m, err := p.ask(t, "/metrics")
	must(t, err)
	for line := range strings.Lines(m) {
		if strings.HasPrefix(line, "vipod_arpd_frames_") || strings.HasPrefix(line, "process_cpu_seconds_total") {
			t.Log(strings.TrimSpace(line))
		}
	}
}

func TestAThousandVIPs(t *testing.T) {
	const n = 1000
	p := startProcess(t)
	var changes []netsafe.Change
	for i := range n {
		ip := netip.AddrFrom4([4]byte{198, 51, byte(100 + i/250), byte(i%250 + 1)})
		p.vip(t, fmt.Sprintf("default.web-%d", i), schema.StateActive, ip)
		changes = append(changes, netsafe.Change{Kind: netsafe.Add, Address: p.address(t, ip, protocol)})
	}
	eventually(t, "all documents are read", func() bool {
		s, err := p.ask(t, "/status")
		return err == nil && strings.Count(s, "NotPresent") == n
	})
	var began, added time.Time
	must(t, p.ns.Do(func() error {
		began = time.Now()
		err := errors.Join(netsafe.ChangeAddresses(changes)...)
		added = time.Now()
		return err
	}))
	first := func() map[netip.Addr]time.Time {
		out := map[netip.Addr]time.Time{}
		for _, h := range p.heard() {
			if _, ok := out[h.IP]; !ok && h.MAC != stranger {
				out[h.IP] = h.at
			}
		}
		return out
	}
	eventually(t, "all are announced", func() bool { return len(first()) == n })
	var last time.Time
	for _, at := range first() {
		if at.After(last) {
			last = at
		}
	}
	t.Logf("%d addresses added in %v, the last one announced %v after that", n, added.Sub(began), last.Sub(added))
	eventually(t, "all are reported", func() bool { return p.isAnnounced(fmt.Sprintf("default.web-%d", n-1)) })
	time.Sleep(6 * time.Second) // the burst's rounds
	before := p.cpu(t)
	for range 5 { // as elector's renewals
		p.grant(t, time.Hour)
		time.Sleep(time.Second)
	}
	t.Logf("at rest, with a renewal each second: %.2f%% of a processor", (p.cpu(t)-before)/5*100)
}

func (p *process) cpu(t *testing.T) float64 {
	t.Helper()
	m, err := p.ask(t, "/metrics")
	must(t, err)
	for line := range strings.Lines(m) {
		if value, ok := strings.CutPrefix(line, "process_cpu_seconds_total "); ok {
			f, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			must(t, err)
			return f
		}
	}
	t.Fatal("no process_cpu_seconds_total")
	return 0
}
