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
	"os"
	"path/filepath"
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
	last map[string][]byte // body of each document by name, with generation 0
	gen  map[string]int64
}

// NewWriter makes the directory where it is missing, removes temporary files
// of a writer that died, and remembers which documents are there.
func NewWriter(dir, instance string) (*Writer, error) {
	if err := os.MkdirAll(dir, ownership.DirMode); err != nil {
		return nil, fmt.Errorf("making %s: %w", dir, err)
	}
	w := &Writer{dir: dir, instance: instance, last: map[string][]byte{}, gen: map[string]int64{}}
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
			w.gen[name] = 0 // known, to be rewritten under our own instance
		}
	}
	return w, nil
}

// Instance returns the name under which this writer writes.
func (w *Writer) Instance() string { return w.instance }

// Names returns the documents of the directory, those of an earlier writer
// included.
func (w *Writer) Names() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	names := make([]string, 0, len(w.gen))
	for name := range w.gen {
		names = append(names, name)
	}
	return names
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
	head.Generation = w.gen[name]
	if bytes.Equal(body, w.last[name]) {
		return false, nil
	}
	head.Generation++
	data, err := schema.Encode(doc)
	if err != nil {
		return false, err
	}
	if err := w.replace(name+suffix, data); err != nil {
		return false, err
	}
	w.last[name], w.gen[name] = body, head.Generation
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
	// The generation stays: a document that comes back goes on counting.
	delete(w.last, name)
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
