package statefile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vipod/vipod/shared/schema"
)

// ErrOwner is a file that another than its writer put there.
var ErrOwner = errors.New("wrong owner")

// Read reads one document. The checks are made on the opened file, not on
// its path: it must be a regular file, not a link, of the given uid. A
// missing file is fs.ErrNotExist.
func Read[T any, P schema.Pointer[T]](path string, uid int) (T, error) {
	var zero T
	data, err := readFile(path, uid)
	if err != nil {
		return zero, fmt.Errorf("reading %s: %w", path, err)
	}
	doc, err := schema.Decode[T, P](data)
	if err != nil {
		return zero, fmt.Errorf("reading %s: %w", path, err)
	}
	return doc, nil
}

func readFile(path string, uid int) (data []byte, err error) {
	// O_NONBLOCK: a FIFO in the file's place must not block the open.
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return nil, fmt.Errorf("fstat: %w", err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, errors.New("not a regular file")
	}
	if int(st.Uid) != uid {
		return nil, fmt.Errorf("%w: uid %d, want %d", ErrOwner, st.Uid, uid)
	}
	data, err = io.ReadAll(io.LimitReader(f, schema.MaxSize+1))
	if err != nil {
		return nil, err
	}
	if len(data) > schema.MaxSize {
		return nil, schema.ErrTooLarge
	}
	return data, nil
}

// Set reads all documents of one type in one directory and keeps the last
// good one of each while its file is unreadable. It is not safe for
// concurrent use.
type Set[T any, P schema.Pointer[T]] struct {
	dir  string
	uid  int
	docs map[string]entry[T]
}

type entry[T any] struct {
	doc   T
	stamp stamp
}

// stamp tells whether a file is the one that was read: every write makes a
// new inode. The kernel may use an inode's number again, also within one tick
// of its clock, so that a file counts as known only when it had not just been
// changed at the time of reading.
type stamp struct {
	ino   uint64
	size  int64
	ctime unix.Timespec
	fresh bool
}

// tick is longer than the kernel's for change times, 10 ms at most.
const tick = 50 * time.Millisecond

// NewSet returns the set of documents <dir>/*.json written by uid.
func NewSet[T any, P schema.Pointer[T]](dir string, uid int) *Set[T, P] {
	return &Set[T, P]{dir: dir, uid: uid, docs: map[string]entry[T]{}}
}

// Load reads what changed since the last call and returns all documents by
// name. Problems are the files that could not be read; for each the last good
// document, if any, stays in force. A directory that is missing or cannot be
// listed is an error: nothing is known then, which is not the same as empty.
func (s *Set[T, P]) Load() (docs map[string]T, problems map[string]error, err error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return s.current(), nil, fmt.Errorf("listing %s: %w", s.dir, err)
	}
	problems = map[string]error{}
	seen := map[string]bool{}
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), suffix)
		if !ok || strings.HasPrefix(name, ".") {
			continue
		}
		seen[name] = true
		if err := s.load(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			problems[name] = err
		} else if err != nil {
			delete(seen, name) // removed between the listing and the reading
		}
	}
	for name := range s.docs {
		if !seen[name] {
			delete(s.docs, name)
		}
	}
	return s.current(), problems, nil
}

func (s *Set[T, P]) current() map[string]T {
	docs := make(map[string]T, len(s.docs))
	for name, e := range s.docs {
		docs[name] = e.doc
	}
	return docs
}

func (s *Set[T, P]) load(name string) error {
	path := filepath.Join(s.dir, name+suffix)
	// The stamp is taken before the reading, so that a file replaced in
	// between is read again at the next call.
	now, err := stampOf(path)
	if err != nil {
		return err
	}
	if old, ok := s.docs[name]; ok && old.stamp == now && !now.fresh {
		return nil
	}
	doc, err := Read[T, P](path, s.uid)
	if err != nil {
		return err
	}
	if k, ok := any(P(&doc)).(schema.Keyed); ok && k.DocumentKey() != name {
		return fmt.Errorf("reading %s: the key in the document is %q", path, k.DocumentKey())
	}
	s.docs[name] = entry[T]{doc: doc, stamp: now}
	return nil
}

func stampOf(path string) (stamp, error) {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return stamp{}, &fs.PathError{Op: "lstat", Path: path, Err: err}
	}
	fresh := time.Since(time.Unix(st.Ctim.Unix())).Abs() < tick
	return stamp{ino: st.Ino, size: st.Size, ctime: st.Ctim, fresh: fresh}, nil
}
