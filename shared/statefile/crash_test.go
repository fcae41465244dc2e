package statefile_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vipod/vipod/shared/schema"
)

// crashDir tells the child process that it is the writer to be killed.
const crashDir = "STATEFILE_TEST_CRASH_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(crashDir); dir != "" {
		fmt.Fprintln(os.Stderr, writeForEver(dir))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// writeForEver says on its output when it begins.
func writeForEver(dir string) error {
	w, err := newWriterOf(dir)
	if err != nil {
		return err
	}
	for i := 0; ; i++ {
		text := fmt.Sprint(i, ":", strings.Repeat("x", i%5*20_000))
		if _, err := w.Write("a", report(text)); err != nil {
			return err
		}
		if i == 0 {
			fmt.Println("writing")
		}
	}
}

func TestKilledWriterLeavesAWholeDocument(t *testing.T) {
	dir := t.TempDir()
	for range 15 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), crashDir+"="+dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := out.Read(make([]byte, 64)); err != nil {
			t.Errorf("the writer did not begin: %v", err)
		}
		time.Sleep(rand.N(10 * time.Millisecond))
		if err := cmd.Process.Kill(); err != nil {
			t.Error(err)
		}
		_ = cmd.Wait() // killed
		if _, err := read(dir, "a"); err != nil {
			t.Fatalf("after the kill: %v", err)
		}
		newWriter(t, dir)
		if left := dotFiles(t, dir); len(left) > 0 {
			t.Fatalf("the next writer left %v", left)
		}
	}
}

// TestCrashAfterEveryStep makes by hand what is on disk when the writer dies
// after each of its steps.
func TestCrashAfterEveryStep(t *testing.T) {
	encode := func(text string, generation int64) []byte {
		doc := report(text)
		doc.Meta = schema.Meta{Schema: doc.SchemaName(), Instance: "dead", Generation: generation}
		data, err := schema.Encode(doc)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	before, after := encode("old", 1), encode("new", 2)
	for _, test := range []struct {
		name      string
		temporary []byte // nil for none
		document  []byte
		want      string
	}{
		{"temporary file created", []byte{}, before, "old"},
		{"half written", after[:len(after)/2], before, "old"},
		{"written", after, before, "old"},
		{"renamed", nil, after, "new"},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, "a.json")
			if err := os.WriteFile(file, test.document, 0o640); err != nil {
				t.Fatal(err)
			}
			if test.temporary != nil {
				if err := os.WriteFile(filepath.Join(dir, ".a.json.42"), test.temporary, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			docs, problems, err := newSet(dir).Load()
			if err != nil || len(problems) > 0 || len(docs) != 1 || message(docs["a"]) != test.want {
				t.Errorf("reader sees %v, problems %v, error %v, want %q alone", docs, problems, err, test.want)
			}
			w := newWriter(t, dir)
			if left := dotFiles(t, dir); len(left) > 0 || !slices.Equal(w.Names(), []string{"a"}) {
				t.Errorf("the next writer leaves %v and knows %v", left, w.Names())
			}
			if have, err := os.ReadFile(file); err != nil || !bytes.Equal(have, test.document) {
				t.Errorf("the next writer changed the document: %v", err)
			}
		})
	}
}
