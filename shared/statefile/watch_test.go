package statefile_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vipod/vipod/shared/statefile"
	"github.com/vipod/vipod/shared/statetest"
	"github.com/vipod/vipod/shared/trigger"
)

// patience is how long a test waits for what must come.
const patience = 20 * time.Second

// watching is a Watch that runs until the test ends.
type watching struct {
	*testing.T
	trigger *trigger.Trigger
	calls   atomic.Int64
	log     lockedBuffer
}

func watch(t *testing.T, dirs ...string) *watching {
	t.Helper()
	w := &watching{T: t, trigger: trigger.New()}
	w.start(func() {
		w.calls.Add(1)
		w.trigger.Fire()
	}, dirs...)
	return w
}

func (w *watching) start(changed func(), dirs ...string) {
	ctx, cancel := context.WithCancel(w.Context())
	log := slog.New(slog.NewTextHandler(&w.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	done := make(chan error, 1)
	go func() { done <- statefile.Watch(ctx, log, changed, dirs...) }()
	w.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			w.Errorf("Watch: %v", err)
		}
	})
}

// until reads at every wake-up until what is read is as wanted.
func (w *watching) until(what string, seen func() bool) {
	w.Helper()
	deadline := time.After(patience)
	for {
		select {
		case <-w.trigger.C():
			if seen() {
				return
			}
		case <-deadline:
			w.Fatalf("%s was never seen; log:\n%s", what, w.log.String())
		}
	}
}

func sees(dir, name, text string) func() bool {
	return func() bool {
		doc, err := read(dir, name)
		return err == nil && message(doc) == text
	}
}

type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func TestWatchSeesWhatWasThereAtItsStart(t *testing.T) {
	dir := t.TempDir()
	write(t, newWriter(t, dir), "a", "one")
	watch(t, dir).until("the first document", sees(dir, "a", "one"))
}

// TestWatchMissesNothingThatChangesAtItsStart lets a writer go on while the
// watch starts: the last state must be seen whatever the order was.
func TestWatchMissesNothingThatChangesAtItsStart(t *testing.T) {
	for i := range 20 {
		dir := filepath.Join(t.TempDir(), strconv.Itoa(i))
		writer := newWriter(t, dir)
		go func() { _, _ = writer.Write("a", report("last")) }()
		watch(t, dir).until("the last document", sees(dir, "a", "last"))
	}
}

func TestWatchSeesEveryKindOfChange(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	w, writer := watch(t, dir, other), newWriter(t, dir)
	write(t, writer, "a", "one")
	w.until("a new document", sees(dir, "a", "one"))
	write(t, writer, "a", "two")
	w.until("a changed document", sees(dir, "a", "two"))
	write(t, newWriter(t, other), "b", "one")
	w.until("a document in another directory", sees(other, "b", "one"))
	if err := writer.Remove("a"); err != nil {
		t.Fatal(err)
	}
	w.until("a removed document", func() bool { _, err := read(dir, "a"); return err != nil })
}

func TestTemporaryFilesWakeNobody(t *testing.T) {
	dir := t.TempDir()
	w := watch(t, dir)
	w.until("the start", func() bool { return true })
	before := w.calls.Load()
	for _, name := range []string{".one", ".two", ".three", "document"} { // one event each
		if err := os.Symlink("nowhere", filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	w.until("the document", func() bool { return true })
	if n := w.calls.Load() - before; n != 1 {
		t.Errorf("%d calls for three temporary files and a document, want 1", n)
	}
}

func TestWatchFindsDirectoriesThatComeLater(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "elector", "vips")
	w := watch(t, dir)
	write(t, newWriter(t, dir), "a", "one")
	w.until("the document in the new directory", sees(dir, "a", "one"))
	write(t, newWriter(t, dir), "a", "two")
	w.until("a change in the new directory", sees(dir, "a", "two"))
}

func TestWatchFollowsAReplacedDirectory(t *testing.T) {
	for name, replace := range map[string]func(dir string) error{
		"removed":      os.RemoveAll,
		"renamed":      func(dir string) error { return os.Rename(dir, dir+".away") },
		"renamed over": func(dir string) error { return renameOver(dir) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "vips")
			write(t, newWriter(t, dir), "a", "one")
			w := watch(t, dir+"/") // the path need not be clean
			w.until("the document", sees(dir, "a", "one"))
			if err := replace(dir); err != nil {
				t.Fatal(err)
			}
			writer := newWriter(t, dir)
			for _, text := range []string{"two", "three"} {
				write(t, writer, "a", text)
				w.until("a document in the new directory", sees(dir, "a", text))
			}
		})
	}
}

// renameOver puts an empty directory into dir's place.
func renameOver(dir string) error {
	if err := os.Mkdir(dir+".new", 0o750); err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(dir, "a.json")); err != nil {
		return err
	}
	return unix.Rename(dir+".new", dir) // os.Rename refuses directories
}

func TestOverflowIsAFullPass(t *testing.T) {
	data, err := os.ReadFile("/proc/sys/fs/inotify/max_queued_events")
	if err != nil {
		t.Fatal(err)
	}
	limit, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	gate, last := make(chan struct{}), trigger.New()
	w := &watching{T: t, trigger: last}
	w.start(func() {
		<-gate // a reader that does not get to run
		last.Fire()
	}, dir)
	for i := range limit/2 + 1000 {
		name := filepath.Join(dir, fmt.Sprint("f", i%2))
		if err := os.Symlink("nowhere", name); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	write(t, newWriter(t, dir), "a", "last") // its events are lost
	close(gate)
	w.until("the overflow", func() bool { return strings.Contains(w.log.String(), "overflow") })
	if !sees(dir, "a", "last")() {
		t.Error("the pass after the overflow does not see the last document")
	}
}

// TestWatchWithoutInotifyLooksEachSecond uses up the instances of another
// user.
func TestNetnsWatchWithoutInotifyLooksEachSecond(t *testing.T) {
	var fds []int
	defer func() {
		for _, fd := range fds {
			_ = unix.Close(fd)
		}
	}()
	calls := 0
	var log lockedBuffer
	statetest.As(t, 65598, func() {
		for {
			fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
			if err != nil {
				break
			}
			fds = append(fds, fd)
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		err := statefile.Watch(ctx, slog.New(slog.NewTextHandler(&log, nil)), func() {
			if calls++; calls == 2 {
				cancel()
			}
		}, "/")
		if err != nil {
			t.Errorf("Watch: %v", err)
		}
	})
	if calls != 2 || strings.Count(log.String(), "\n") != 1 {
		t.Errorf("%d calls, log %q, want 2 calls and one line", calls, log.String())
	}
}

func TestUnreadableDirectoryIsLookedAtEachSecond(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "vips")
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	w := watch(t, filepath.Join(dir, "below a file"))
	for range 3 {
		w.until("a look", func() bool { return true })
	}
	if n := strings.Count(w.log.String(), "cannot watch directory"); n != 1 {
		t.Errorf("%d lines about the directory, want 1:\n%s", n, w.log.String())
	}
}
