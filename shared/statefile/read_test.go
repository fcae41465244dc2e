package statefile_test

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vipod/vipod/shared/schema"
	"github.com/vipod/vipod/shared/statefile"
	"github.com/vipod/vipod/shared/statetest"
)

func newWriterOf(dir string) (*statefile.Writer, error) {
	return statefile.NewWriter(dir, statefile.Instance("boot"))
}

func newSet(dir string) *statefile.Set[schema.Status, *schema.Status] {
	return statefile.NewSet[schema.Status](dir, os.Geteuid())
}

func TestNetnsReadRefusesWhatTheWriterDidNotPutThere(t *testing.T) {
	dir := t.TempDir()
	write(t, newWriter(t, dir), "good", "one")
	good := filepath.Join(dir, "good.json")
	for _, test := range []struct {
		name string
		make func(path string) error
		want string
	}{
		{"symbolic link", func(path string) error { return os.Symlink(good, path) }, "symbolic link"},
		{"FIFO", func(path string) error { return unix.Mkfifo(path, 0o600) }, "not a regular file"},
		{"directory", func(path string) error { return os.Mkdir(path, 0o700) }, "not a regular file"},
		{"device", func(path string) error { return unix.Mknod(path, unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))) }, "not a regular file"},
		{"too large", func(path string) error { return os.WriteFile(path, make([]byte, schema.MaxSize+1), 0o600) }, "too large"},
		{"endless", func(path string) error {
			return errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, 1<<40))
		}, "too large"},
		{"truncated", func(path string) error { return os.WriteFile(path, []byte("{"), 0o600) }, "EOF"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.name == "device" {
				statetest.Root(t)
			}
			path := filepath.Join(dir, "bad.json")
			if err := test.make(path); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = os.RemoveAll(path) }()
			_, err := read(dir, "bad")
			if err == nil || !strings.Contains(err.Error(), test.want) && !errors.Is(err, unix.ELOOP) {
				t.Errorf("error %v, want one with %q", err, test.want)
			}
		})
	}
}

func TestReadRefusesAnotherWriter(t *testing.T) {
	dir := t.TempDir()
	write(t, newWriter(t, dir), "a", "one")
	if _, err := statefile.Read[schema.Status](filepath.Join(dir, "a.json"), os.Geteuid()+1); !errors.Is(err, statefile.ErrOwner) {
		t.Errorf("error %v, want ErrOwner", err)
	}
}

func TestMissingFileIsErrNotExist(t *testing.T) {
	if _, err := read(t.TempDir(), "a"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v, want ErrNotExist", err)
	}
}

// load returns the messages of the documents that a set knows.
func load(t *testing.T, s *statefile.Set[schema.Status, *schema.Status]) (texts map[string]string, problems map[string]error) {
	t.Helper()
	docs, problems, err := s.Load()
	if err != nil {
		t.Fatal(err)
	}
	texts = map[string]string{}
	for name, doc := range docs {
		texts[name] = message(doc)
	}
	return texts, problems
}

func TestSetFollowsTheDirectory(t *testing.T) {
	dir := t.TempDir()
	w, s := newWriter(t, dir), newSet(dir)
	expect := func(step string, want map[string]string, bad ...string) {
		t.Helper()
		for range 2 { // a second look finds the same
			texts, problems := load(t, s)
			if !maps.Equal(texts, want) || !slices.Equal(slices.Sorted(maps.Keys(problems)), bad) {
				t.Errorf("%s: %v, problems %v, want %v and problems with %v", step, texts, problems, want, bad)
			}
		}
	}
	file := func(name string) string { return filepath.Join(dir, name) }
	expect("empty", map[string]string{})
	write(t, w, "a", "one")
	write(t, w, "b", "one")
	expect("two documents", map[string]string{"a": "one", "b": "one"})
	write(t, w, "a", "two")
	expect("a change", map[string]string{"a": "two", "b": "one"})

	for _, name := range []string{".c.json", "readme.txt", "json"} {
		if err := os.WriteFile(file(name), []byte("{"), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	expect("files that are no documents", map[string]string{"a": "two", "b": "one"})

	if err := os.WriteFile(file("a.json"), []byte(`{"schema":`), 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file("d.json"), nil, 0o640); err != nil {
		t.Fatal(err)
	}
	expect("bad files", map[string]string{"a": "two", "b": "one"}, "a", "d")

	write(t, w, "a", "three")
	expect("repaired", map[string]string{"a": "three", "b": "one"}, "d")
	for _, name := range []string{"b", "d"} {
		if err := os.Remove(file(name + ".json")); err != nil {
			t.Fatal(err)
		}
	}
	expect("removed", map[string]string{"a": "three"})
	if err := os.Remove(file("a.json")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("b.json", file("a.json")); err != nil {
		t.Fatal(err)
	}
	expect("replaced by a link", map[string]string{"a": "three"}, "a")
}

func TestNetnsSetKeepsTheLastGoodOfAnotherOwner(t *testing.T) {
	statetest.Root(t)
	dir := t.TempDir()
	w, s := newWriter(t, dir), newSet(dir)
	write(t, w, "a", "one")
	load(t, s)
	write(t, w, "a", "forged")
	if err := os.Chown(filepath.Join(dir, "a.json"), 65599, -1); err != nil {
		t.Fatal(err)
	}
	texts, problems := load(t, s)
	if texts["a"] != "one" || !errors.Is(problems["a"], statefile.ErrOwner) {
		t.Errorf("%v, problems %v, want the last good document and ErrOwner", texts, problems)
	}
}

func TestMissingDirectoryIsNotAnEmptyOne(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "vips")
	s := newSet(dir)
	if _, _, err := s.Load(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v, want ErrNotExist", err)
	}
	write(t, newWriter(t, dir), "a", "one")
	load(t, s)
	if err := os.Rename(dir, dir+".away"); err != nil {
		t.Fatal(err)
	}
	docs, _, err := s.Load()
	if err == nil || len(docs) != 1 {
		t.Errorf("%d documents, error %v, want the one that was known and an error", len(docs), err)
	}
}

func TestUnchangedFileIsReadOnce(t *testing.T) {
	dir := t.TempDir()
	write(t, newWriter(t, dir), "a", "one")
	time.Sleep(100 * time.Millisecond) // older than the kernel's tick
	s := newSet(dir)
	first, _, err := s.Load()
	if err != nil {
		t.Fatal(err)
	}
	second, _, err := s.Load()
	if err != nil {
		t.Fatal(err)
	}
	// A decoded document has slices of its own.
	if &first["a"].Conditions[0] != &second["a"].Conditions[0] {
		t.Error("the file was decoded again")
	}
}
