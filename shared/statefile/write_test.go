package statefile_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/vipod/vipod/shared/ownership"
	"github.com/vipod/vipod/shared/schema"
	"github.com/vipod/vipod/shared/statefile"
	"github.com/vipod/vipod/shared/statetest"
)

// report returns a document that is told apart by its message.
func report(message string) *schema.Status {
	return &schema.Status{Key: "a", Conditions: []schema.Condition{
		{Type: schema.ConditionPresent, Status: schema.True, Message: message},
	}}
}

func message(s schema.Status) string { return s.Conditions[0].Message }

func read(dir, name string) (schema.Status, error) {
	return statefile.Read[schema.Status](filepath.Join(dir, name+".json"), os.Geteuid())
}

func newWriter(t testing.TB, dir string) *statefile.Writer {
	t.Helper()
	w, err := statefile.NewWriter(dir, statefile.Instance("boot"))
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func write(t testing.TB, w *statefile.Writer, name, text string) {
	t.Helper()
	doc := report(text)
	doc.Key = name
	if changed, err := w.Write(name, doc); err != nil || !changed {
		t.Fatalf("writing %q: changed %v, error %v", text, changed, err)
	}
}

func inode(t testing.TB, path string) uint64 {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		t.Fatal(err)
	}
	return st.Ino
}

func dotFiles(t testing.TB, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			names = append(names, e.Name())
		}
	}
	return names
}

func TestReaderSeesWholeDocumentsWhileTheWriterWrites(t *testing.T) {
	dir := t.TempDir()
	w := newWriter(t, dir)
	write(t, w, "a", "0:")
	done := make(chan struct{})
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			var last int64
			for {
				doc, err := read(dir, "a")
				if err != nil {
					t.Errorf("reading: %v", err)
					return
				}
				if doc.Generation < last {
					t.Errorf("generation went from %d back to %d", last, doc.Generation)
				}
				last = doc.Generation
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	for i := range 100 {
		write(t, w, "a", fmt.Sprint(i, strings.Repeat("x", i%7*10_000)))
	}
	close(done)
	readers.Wait()
	if left := dotFiles(t, dir); len(left) > 0 {
		t.Errorf("the writer left %v", left)
	}
}

func TestConcurrentWritersOfOneProcess(t *testing.T) {
	dir := t.TempDir()
	w := newWriter(t, dir)
	var writers sync.WaitGroup
	for i := range 4 {
		writers.Go(func() {
			for j := range 10 {
				if _, err := w.Write("a", report(fmt.Sprint(i, j))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
	if doc, err := read(dir, "a"); err != nil || doc.Generation != 40 {
		t.Errorf("generation %d, error %v, want 40", doc.Generation, err)
	}
}

func TestEqualDocumentIsNotWrittenAgain(t *testing.T) {
	dir := t.TempDir()
	w := newWriter(t, dir)
	write(t, w, "a", "one")
	before := inode(t, filepath.Join(dir, "a.json"))
	doc := report("one")
	if changed, err := w.Write("a", doc); err != nil || changed {
		t.Errorf("equal document: changed %v, error %v", changed, err)
	}
	if after := inode(t, filepath.Join(dir, "a.json")); after != before {
		t.Error("the file was replaced by an equal one")
	}
	if want := (schema.Observed{Instance: w.Instance(), Generation: 1}); doc.Seen() != want {
		t.Errorf("head of the equal document %+v, want %+v", doc.Seen(), want)
	}
}

func TestNoGenerationNamesTwoContents(t *testing.T) {
	dir := t.TempDir()
	w := newWriter(t, dir)
	var seen []int64
	see := func(name string) {
		doc, err := read(dir, name)
		if err != nil {
			t.Fatal(err)
		}
		seen = append(seen, doc.Generation)
	}
	write(t, w, "a", "one")
	see("a")
	write(t, w, "a", "two")
	see("a")
	if err := w.Remove("a"); err != nil {
		t.Fatal(err)
	}
	write(t, w, "a", "two") // the same content as before is written again
	see("a")
	if !slices.IsSorted(seen) || len(slices.Compact(slices.Clone(seen))) != len(seen) {
		t.Errorf("generations %v, want each above the one before", seen)
	}
}

func TestFileHasItsModeWhateverTheUmask(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "vips")
	old := syscall.Umask(0o077)
	w := newWriter(t, dir)
	write(t, w, "a", "one")
	syscall.Umask(old)
	for path, want := range map[string]fs.FileMode{
		dir:                          fs.ModeDir | ownership.DirMode,
		filepath.Join(dir, "a.json"): ownership.FileMode,
	} {
		if st, err := os.Stat(path); err != nil || st.Mode() != want {
			t.Errorf("%s: %v, error %v, want mode %v", path, st.Mode(), err, want)
		}
	}
}

func TestNewWriterTakesOverFromADeadOne(t *testing.T) {
	dir := t.TempDir()
	first := newWriter(t, dir)
	write(t, first, "a", "one")
	write(t, first, "b", "one")
	for _, leftover := range []string{".a.json.123", ".other"} {
		if err := os.WriteFile(filepath.Join(dir, leftover), []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, foreign := range []string{"sub", ".dir"} {
		if err := os.Mkdir(filepath.Join(dir, foreign), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	second := newWriter(t, dir)
	names := second.Names()
	slices.Sort(names)
	if !slices.Equal(names, []string{"a", "b"}) {
		t.Errorf("documents %v, want a and b", names)
	}
	if left := dotFiles(t, dir); !slices.Equal(left, []string{".dir"}) {
		t.Errorf("leftovers %v, want the directory alone, which no writer makes", left)
	}
	write(t, second, "a", "one") // equal, but of another instance
	doc, err := read(dir, "a")
	if err != nil || doc.Instance != second.Instance() || doc.Instance == first.Instance() {
		t.Errorf("instance %q, error %v, want %q", doc.Instance, err, second.Instance())
	}
}

func TestRemovedDocumentIsForgotten(t *testing.T) {
	dir := t.TempDir()
	w := newWriter(t, dir)
	write(t, w, "a", "one")
	for range 2 { // the second time it is not there
		if err := w.Remove("a"); err != nil {
			t.Error(err)
		}
	}
	if names := w.Names(); len(names) != 0 {
		t.Errorf("documents %v after the removal", names)
	}
	if _, err := read(dir, "a"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("reading a removed document: %v, want ErrNotExist", err)
	}
}

func TestTooLargeDocumentLeavesTheLastOne(t *testing.T) {
	dir := t.TempDir()
	w := newWriter(t, dir)
	write(t, w, "a", "one")
	if _, err := w.Write("a", report(strings.Repeat("x", schema.MaxSize))); !errors.Is(err, schema.ErrTooLarge) {
		t.Errorf("error %v, want ErrTooLarge", err)
	}
	if doc, err := read(dir, "a"); err != nil || message(doc) != "one" {
		t.Errorf("document %v, error %v, want the last one", doc, err)
	}
}

func TestNetnsFullDiskLeavesTheLastDocument(t *testing.T) {
	dir := t.TempDir()
	statetest.WithTmpfs(t, dir, "64k", func() {
		w, err := statefile.NewWriter(dir, "instance")
		if err != nil {
			t.Error(err)
			return
		}
		if _, err := w.Write("a", report("one")); err != nil {
			t.Error(err)
		}
		if _, err := w.Write("a", report(strings.Repeat("x", 128<<10))); !errors.Is(err, unix.ENOSPC) {
			t.Errorf("error %v, want ENOSPC", err)
		}
		if doc, err := read(dir, "a"); err != nil || message(doc) != "one" {
			t.Errorf("document %v, error %v, want the last one", doc, err)
		}
		if left := dotFiles(t, dir); len(left) > 0 {
			t.Errorf("the writer left %v on a full disk", left)
		}
		// What the file holds after an error is not assumed: equal content is
		// written, under a generation that no other content had.
		if changed, err := w.Write("a", report("one")); err != nil || !changed {
			t.Errorf("writing again: changed %v, error %v", changed, err)
		}
		if doc, err := read(dir, "a"); err != nil || doc.Generation != 3 {
			t.Errorf("generation %d, error %v, want 3", doc.Generation, err)
		}
	})
}

func TestDirectoryThatCannotBeMadeIsAnError(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{file, filepath.Join(file, "vips")} {
		if _, err := statefile.NewWriter(dir, "instance"); err == nil {
			t.Errorf("a writer in %s, want an error", dir)
		}
	}
}

func TestInstancesDiffer(t *testing.T) {
	a, b := statefile.Instance("boot"), statefile.Instance("boot")
	if a == b || !strings.HasPrefix(a, "boot.") {
		t.Errorf("instances %q and %q, want two of the same boot", a, b)
	}
}
