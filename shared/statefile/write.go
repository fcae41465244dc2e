// Package statefile writes and reads the documents of the state directory so
// that a reader sees a whole document or none, whatever dies in between.
package statefile

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/vipod/vipod/shared/ownership"
	"github.com/vipod/vipod/shared/schema"
)

const suffix = ".json"

// Instance returns a new name for the writing process: the boot id and a
// random part.
func Instance(bootID string) string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails, crypto/rand
	return bootID + "." + hex.EncodeToString(b[:])
}

// Writer is the one writer of a directory. It is safe for concurrent use.
type Writer struct {
	dir      string
	instance string

	mu   sync.Mutex
	docs map[string]written
	// floor is the highest generation of a removed document. One that comes
	// back goes on above it, so that no generation names two contents.
	floor int64
}

// written is what the writer knows of one document.
type written struct {
	// body is what stands in the file, encoded with generation 0, and nil if
	// that is not known.
	body []byte
	gen  int64
}

// NewWriter makes the directory where it is missing, removes temporary files
// of a writer that died, and remembers which documents are there.
func NewWriter(dir, instance string) (*Writer, error) {
	if err := makeDir(dir); err != nil {
		return nil, err
	}
	w := &Writer{dir: dir, instance: instance, docs: map[string]written{}}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", dir, err)
	}
	for _, e := range entries {
		switch name, isDoc := strings.CutSuffix(e.Name(), suffix); {
		case strings.HasPrefix(e.Name(), ".") && e.Type().IsRegular():
			if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
				return nil, fmt.Errorf("removing leftover of an earlier writer: %w", err)
			}
		case isDoc:
			w.docs[name] = written{} // to be rewritten under our own instance
		}
	}
	return w, nil
}

func makeDir(dir string) error {
	_, err := os.Lstat(dir)
	if err == nil {
		return nil
	}
	if err := os.MkdirAll(dir, ownership.DirMode); err != nil {
		return fmt.Errorf("making %s: %w", dir, err)
	}
	if err := os.Chmod(dir, ownership.DirMode); err != nil { // whatever the umask
		return fmt.Errorf("opening %s to its group: %w", dir, err)
	}
	return nil
}

// Instance returns the name under which this writer writes.
func (w *Writer) Instance() string { return w.instance }

// Names returns the documents of the directory in no order, those of an
// earlier writer included.
func (w *Writer) Names() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Collect(maps.Keys(w.docs))
}

// Write puts the document into <dir>/<name>.json and says whether it changed.
// It fills in the document's head. A document equal to the last one written
// is not written again.
func (w *Writer) Write(name string, doc schema.Document) (bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	head := doc.Head()
	*head = schema.Meta{Schema: doc.SchemaName(), Instance: w.instance}
	body, err := schema.Encode(doc)
	if err != nil {
		return false, err
	}
	last, known := w.docs[name]
	if !known {
		last.gen = w.floor
	}
	head.Generation = last.gen
	if bytes.Equal(body, last.body) {
		return false, nil
	}
	head.Generation++
	data, err := schema.Encode(doc)
	if err != nil {
		return false, err
	}
	// An error does not tell which content the file has now: the next call
	// writes in any case, and under another generation.
	w.docs[name] = written{gen: head.Generation}
	if err := w.replace(name+suffix, data); err != nil {
		return false, err
	}
	w.docs[name] = written{gen: head.Generation, body: body}
	return true, nil
}

// Remove removes the document; one that is not there is no error.
func (w *Writer) Remove(name string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	err := os.Remove(filepath.Join(w.dir, name+suffix))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing document: %w", err)
	}
	w.floor = max(w.floor, w.docs[name].gen)
	delete(w.docs, name)
	return w.syncDir()
}

// replace is write, fsync, rename, fsync of the directory: rename(2) makes
// the change atomic, fsync(2) of both makes it durable in this order.
func (w *Writer) replace(file string, data []byte) error {
	tmp, err := os.CreateTemp(w.dir, "."+file+".*") // O_EXCL, mode 0600
	if err != nil {
		return fmt.Errorf("creating temporary file: %w", err)
	}
	err = fill(tmp, data)
	if err == nil {
		err = os.Rename(tmp.Name(), filepath.Join(w.dir, file))
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", filepath.Join(w.dir, file), errors.Join(err, os.Remove(tmp.Name())))
	}
	return w.syncDir()
}

func fill(f *os.File, data []byte) error {
	_, err := f.Write(data)
	if err == nil {
		err = f.Chmod(ownership.FileMode)
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

func (w *Writer) syncDir() error {
	d, err := os.Open(w.dir)
	if err != nil {
		return fmt.Errorf("opening directory: %w", err)
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("syncing %s: %w", w.dir, err)
	}
	return nil
}
