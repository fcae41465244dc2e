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
	"syscall"
	"testing"
	"time"

	"github.com/vipod/vipod/arpd/internal/frame"
	"github.com/vipod/vipod/shared/daemon"
	"github.com/vipod/vipod/shared/netsafe"
	"github.com/vipod/vipod/shared/ownership"
	"github.com/vipod/vipod/shared/schema"
	"github.com/vipod/vipod/shared/statetest"
)

func TestMain(m *testing.M) {
	statetest.Main(m, func() int {
		p := daemon.Program{Name: ownership.Arpd, Run: Run, Status: PrintStatus}
		return p.Main(os.Args[1:], os.Getenv, os.Stdout, os.Stderr)
	})
}

// process is the daemon under its own uid with only its capability.
type process struct {
	*elector
	*kernelWorld
	*statetest.Process
}

func startProcess(t *testing.T) *process {
	t.Helper()
	p := &process{kernelWorld: newKernelWorld(t), elector: newElector(t)}
	p.Process = p.Pod.Process(ownership.Arpd)
	must(t, p.ns.Do(func() error { p.Start(); return nil }))
	t.Cleanup(func() {
		p.phase(schema.PhaseStopped)
		p.Signal(syscall.SIGINT)
		p.Exited()
	})
	eventually(t, "the daemon is ready", func() bool { _, err := p.Ask("/readyz"); return err == nil })
	return p
}

func (p *process) isAnnounced(key string) bool {
	s, ok := p.status(key)
	return ok && schema.IsTrue(s.Conditions, schema.ConditionAnnounced)
}

func TestNetnsUnderItsOwnUidWithOnlyItsCapability(t *testing.T) {
	p := startProcess(t)
	p.vip("default.web", schema.StateActive, vip4, vip6)
	eventually(t, "the document is read", func() bool {
		s, err := p.Ask("/status")
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
		m, err := p.Ask("/metrics")
		return err == nil && strings.Contains(m, `vipod_arpd_conflict{address="198.51.100.7",key="default.web"} 1`) &&
			strings.Contains(m, "vipod_arpd_conflicts_total 1")
	})
	out := p.Run("status")
	t.Logf("arpd status:\n%s", out)
	if !strings.Contains(out, "default.web") || !strings.Contains(out, stranger.String()) {
		t.Error("the table lacks the VIP or the stranger")
	}
	if _, err := p.Ask("/healthz"); err != nil {
		t.Error(err)
	}
}

// TestWhatTheFenceDropsIsNotSent shows what a frame looks like that a rule on
// the netdev egress hook drops, as vipd's fence does: sending fails (ENOBUFS).
func TestNetnsWhatTheFenceDropsIsNotSent(t *testing.T) {
	p := startProcess(t)
	p.nft(t, `table netdev fence { chain out { type filter hook egress device "lan0" priority 0; arp saddr ip 198.51.100.7 drop; }; }`)
	p.vip("default.web", schema.StateActive, vip4)
	p.add(t, vip4, protocol)
	eventually(t, "failures are counted", func() bool {
		m, err := p.Ask("/metrics")
		return err == nil && strings.Contains(m, `vipod_arpd_send_errors_total{interface="lan0"}`)
	})
	if p.isAnnounced("default.web") || len(about(p, frame.Request, vip4)) != 0 {
		t.Error("announced through a closed fence")
	}
	eventually(t, "the report says why", func() bool {
		b, err := os.ReadFile(filepath.Join(ownership.VIPs(p.Dir, ownership.Arpd), "default.web.json"))
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

func TestNetnsAFloodCostsABoundedPartOfAProcessorAndDoesNotStopSending(t *testing.T) {
	p := startProcess(t)
	p.vip("default.web", schema.StateActive, vip4)
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
	m, err := p.Ask("/metrics")
	must(t, err)
	for line := range strings.Lines(m) {
		if strings.HasPrefix(line, "vipod_arpd_frames_") || strings.HasPrefix(line, "process_cpu_seconds_total") {
			t.Log(strings.TrimSpace(line))
		}
	}
}

func TestNetnsAThousandVIPs(t *testing.T) {
	const n = 1000
	p := startProcess(t)
	var changes []netsafe.Change
	for i := range n {
		ip := netip.AddrFrom4([4]byte{198, 51, byte(100 + i/250), byte(i%250 + 1)})
		p.vip(fmt.Sprintf("default.web-%d", i), schema.StateActive, ip)
		changes = append(changes, netsafe.Change{Kind: netsafe.Add, Address: p.address(t, ip, protocol)})
	}
	eventually(t, "all documents are read", func() bool {
		s, err := p.Ask("/status")
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
		p.Grant(time.Hour)
		time.Sleep(time.Second)
	}
	t.Logf("at rest, with a renewal each second: %.2f%% of a processor", (p.cpu(t)-before)/5*100)
}

func (p *process) cpu(t *testing.T) float64 {
	t.Helper()
	m, err := p.Ask("/metrics")
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
