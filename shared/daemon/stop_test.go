package daemon_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vipod/vipod/shared/bootclock"
	"github.com/vipod/vipod/shared/daemon"
	"github.com/vipod/vipod/shared/ownership"
	"github.com/vipod/vipod/shared/schema"
	"github.com/vipod/vipod/shared/statetest"
)

// elector is what the other daemons see of it.
type elector struct {
	*statetest.Pod
	stateDir string
}

func newElector(t *testing.T) *elector {
	t.Helper()
	p := statetest.New(t)
	return &elector{Pod: p, stateDir: p.Dir}
}

func (e *elector) phase(p schema.Phase) { e.WriteNode(e.Node(func(n *schema.Node) { n.Phase = p })) }

// grant writes a grant of this boot, or of another.
func (e *elector) grant(name schema.GrantName, left time.Duration, boot string) {
	if boot == "" {
		boot = e.Boot
	}
	e.Write(ownership.Elector, "grant", &schema.Grant{Boot: boot, ValidUntil: map[schema.GrantName]int64{
		name: int64(bootclock.Now() + left),
	}})
}

func (e *elector) answers() {
	e.Serve(ownership.Elector, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
}

// awaiting runs AwaitStop in the background.
func (e *elector) awaiting(ctx context.Context) <-chan daemon.Leave {
	leave := make(chan daemon.Leave, 1)
	go func() { leave <- daemon.AwaitStop(ctx, slog.New(slog.DiscardHandler), e.stateDir) }()
	return leave
}

func TestNetnsAwaitStop(t *testing.T) {
	const soon = 300 * time.Millisecond
	for _, test := range []struct {
		name    string
		prepare func(*elector)
		want    daemon.Leave
		reason  string
		atLeast time.Duration
	}{
		{"elector stopped before", func(e *elector) {
			e.phase(schema.PhaseStopped)
			e.answers()
		}, daemon.CleanUp, "elector stopped", 0},
		{"elector goes on", func(e *elector) {
			e.phase(schema.PhaseRunning)
			e.answers()
		}, daemon.Keep, "container replaced", 1500 * time.Millisecond},
		{"elector was never there", func(*elector) {}, daemon.CleanUp, "elector is silent and the grant has ended", 0},
		{"elector died while handing over, the grant ends", func(e *elector) {
			e.phase(schema.PhaseStopping)
			e.grant(schema.GrantNode, soon, "")
		}, daemon.CleanUp, "elector is silent and the grant has ended", soon / 2},
		{"elector died, the control plane's grant ends", func(e *elector) {
			e.phase(schema.PhaseRunning)
			e.grant(schema.GrantControlPlane, 1600*time.Millisecond, "")
		}, daemon.CleanUp, "elector is silent and the grant has ended", 1500 * time.Millisecond},
		{"grant of another boot", func(e *elector) {
			e.phase(schema.PhaseStopping)
			e.grant(schema.GrantNode, time.Hour, "another")
		}, daemon.CleanUp, "elector is silent and the grant has ended", 0},
		{"documents of another user", func(e *elector) {
			e.phase(schema.PhaseStopping)
			e.grant(schema.GrantNode, time.Hour, "")
			for _, name := range []string{"node.json", "grant.json"} {
				if err := os.Chown(filepath.Join(e.stateDir, ownership.Elector, name), 0, -1); err != nil {
					t.Fatal(err)
				}
			}
		}, daemon.CleanUp, "elector is silent and the grant has ended", 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			e := newElector(t)
			test.prepare(e)
			var log bytes.Buffer
			start := time.Now()
			leave := daemon.AwaitStop(t.Context(), slog.New(slog.NewTextHandler(&log, nil)), e.stateDir)
			if leave != test.want || !strings.Contains(log.String(), test.reason) {
				t.Errorf("leave %d, log %q, want %d because %s", leave, log.String(), test.want, test.reason)
			}
			if waited := time.Since(start); waited < test.atLeast {
				t.Errorf("decided after %s, want %s at least", waited, test.atLeast)
			}
		})
	}
}

func TestNetnsDaemonsServeWhileElectorHandsOver(t *testing.T) {
	e := newElector(t)
	e.phase(schema.PhaseRunning)
	e.answers()
	leave := e.awaiting(t.Context())
	e.phase(schema.PhaseStopping) // elector gets its SIGTERM after the others
	select {
	case got := <-leave:
		t.Fatalf("left with %d while elector hands over", got)
	case <-time.After(2 * time.Second): // longer than for a replaced container
	}
	e.phase(schema.PhaseStopped)
	if got := <-leave; got != daemon.CleanUp {
		t.Errorf("leave %d, want CleanUp", got)
	}
}

func TestNetnsAwaitStopEndsWithItsContext(t *testing.T) {
	e := newElector(t)
	e.phase(schema.PhaseStopping)
	e.answers()
	ctx, cancel := context.WithCancel(t.Context())
	leave := e.awaiting(ctx)
	cancel()
	if got := <-leave; got != daemon.Keep {
		t.Errorf("leave %d, want Keep", got)
	}
}
