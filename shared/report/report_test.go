package report_test

import (
	"bytes"
	"errors"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vipod/vipod/shared/ownership"
	"github.com/vipod/vipod/shared/report"
	"github.com/vipod/vipod/shared/schema"
	"github.com/vipod/vipod/shared/statefile"
)

const web = "default.web"

type bench struct {
	*testing.T
	dir string
	log bytes.Buffer
	*report.Reporter
}

func newBench(t *testing.T) *bench {
	b := &bench{T: t, dir: t.TempDir()}
	b.restart()
	return b
}

// restart is the next process.
func (b *bench) restart() {
	b.Helper()
	var err error
	if b.Reporter, err = report.New(slog.New(slog.NewTextHandler(&b.log, nil)), b.dir, ownership.Vipd, "boot"); err != nil {
		b.Fatal(err)
	}
}

func (b *bench) file(name string) string { return filepath.Join(b.dir, ownership.Vipd, name+".json") }

func (b *bench) read() schema.Status {
	b.Helper()
	s, err := statefile.Read[schema.Status](b.file("vips/"+web), os.Geteuid())
	if err != nil {
		b.Fatal(err)
	}
	return s
}

func status(generation int64, present schema.ConditionStatus, message string) schema.Status {
	return schema.Status{Key: web, Observed: schema.Observed{Instance: "e", Generation: generation},
		Addresses:  []schema.AddressStatus{{IP: netip.MustParseAddr("198.51.100.7"), Interface: "eth0"}},
		Conditions: []schema.Condition{{Type: schema.ConditionPresent, Status: present, Message: message}}}
}

func TestConditionKeepsItsTimeWhileItsStatusDoes(t *testing.T) {
	b := newBench(t)
	b.VIP(status(1, schema.True, ""))
	first := b.read().Conditions[0].Since
	time.Sleep(5 * time.Millisecond)
	b.VIP(status(2, schema.True, "another message"))
	if got := b.read(); !got.Conditions[0].Since.Equal(first) || got.Conditions[0].Message != "another message" {
		t.Errorf("condition: %+v, want since %s", got.Conditions[0], first)
	}
	b.restart()
	b.VIP(status(3, schema.True, ""))
	if got := b.read(); !got.Conditions[0].Since.Equal(first) {
		t.Errorf("the next process says since %s, want %s", got.Conditions[0].Since, first)
	}
	b.VIP(status(3, schema.False, ""))
	if got := b.read(); !got.Conditions[0].Since.After(first) {
		t.Errorf("a new status has the old time %s", first)
	}
}

func TestReportIsWrittenOnlyWhenItSaysSomethingElse(t *testing.T) {
	b := newBench(t)
	b.VIP(status(1, schema.True, ""))
	before := b.read().Generation
	b.VIP(status(1, schema.True, ""))
	if got := b.read().Generation; got != before {
		t.Errorf("generation %d, want %d", got, before)
	}
	other := status(1, schema.True, "")
	other.Addresses[0].Present = true
	b.VIP(other)
	if got := b.read().Generation; got != before+1 {
		t.Errorf("generation %d, want %d", got, before+1)
	}
	other.Conditions = nil
	b.VIP(other)
	if got := b.read(); len(got.Conditions) != 0 {
		t.Errorf("conditions that nobody gave: %+v", got.Conditions)
	}
}

func TestReportsOfTheProcessBeforeAreKnown(t *testing.T) {
	b := newBench(t)
	b.VIP(status(1, schema.True, ""))
	instance := b.read().Instance
	if err := os.WriteFile(b.file("vips/default.bad"), []byte("{"), 0o640); err != nil {
		t.Fatal(err)
	}
	b.restart()
	if got := b.Keys(); !slices.Equal(got, []string{"default.bad", web}) {
		t.Errorf("keys %v", got)
	}
	if last, ok := b.Last(web); !ok || len(last.Addresses) != 1 {
		t.Errorf("last report: %+v", last)
	}
	b.VIP(status(1, schema.True, ""))
	if b.read().Instance == instance {
		t.Error("not written under this process's name")
	}
	b.Remove("default.bad")
	if _, err := os.Stat(b.file("vips/default.bad")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("bad report: %v", err)
	}
}

func TestWhatCannotBeWrittenIsToBeTriedAgain(t *testing.T) {
	b := newBench(t)
	vips := filepath.Join(b.dir, ownership.Vipd, "vips")
	if err := os.Rename(vips, vips+".away"); err != nil {
		t.Fatal(err)
	}
	var waits []time.Duration
	for range 3 {
		b.VIP(status(1, schema.True, ""))
		retry, ok := b.Finish()
		if ok {
			t.Fatal("all is well without the directory")
		}
		waits = append(waits, retry)
	}
	if waits[0] <= 0 || waits[2] <= waits[0] {
		t.Errorf("waits %v do not grow", waits)
	}
	if n := strings.Count(b.log.String(), "cannot write"); n != 1 {
		t.Errorf("logged %d times", n)
	}
	if err := os.Rename(vips+".away", vips); err != nil {
		t.Fatal(err)
	}
	b.VIP(status(1, schema.True, ""))
	if _, ok := b.Finish(); !ok || b.read().Observed.Generation != 1 {
		t.Error("not written once it can be")
	}
}

func TestDaemonReportsItselfAndCleansUp(t *testing.T) {
	b := newBench(t)
	b.VIP(status(1, schema.True, ""))
	b.Daemon(schema.Daemon{Conditions: []schema.Condition{report.Ready(true, nil)}})
	d, err := statefile.Read[schema.Daemon](b.file("daemon"), os.Geteuid())
	if err != nil || d.Name != ownership.Vipd || !schema.IsTrue(d.Conditions, schema.ConditionReady) || d.Conditions[0].Since.IsZero() {
		t.Errorf("daemon: %+v, %v", d, err)
	}
	if err := b.CleanUp(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"daemon", "vips/" + web} {
		if _, err := os.Stat(b.file(name)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestReady(t *testing.T) {
	for _, c := range []struct {
		heard bool
		err   error
		want  schema.ConditionStatus
	}{{true, nil, schema.True}, {false, nil, schema.Unknown}, {true, os.ErrPermission, schema.False}, {false, os.ErrPermission, schema.False}} {
		if got := report.Ready(c.heard, c.err); got.Status != c.want || got.Reason == "" {
			t.Errorf("heard %t, %v: %+v", c.heard, c.err, got)
		}
	}
}
