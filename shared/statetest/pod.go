// Package statetest is a pod for tests: a state directory whose files, sockets
// and processes belong to the users that the ownership table names, with
// elector played by the test. All of it needs root.
package statetest

import (
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/vipod/vipod/shared/bootclock"
	"github.com/vipod/vipod/shared/ownership"
	"github.com/vipod/vipod/shared/schema"
	"github.com/vipod/vipod/shared/statefile"
)

// Patience is how long something may take on a busy machine.
const Patience = 20 * time.Second

// Pod is a state directory. Its methods fail the test.
type Pod struct {
	// Dir is the state directory, Boot this machine's boot id.
	Dir, Boot string

	t          testing.TB
	generation int64
}

// New makes a pod in which no daemon has run yet but all directories are.
func New(t testing.TB) *Pod {
	t.Helper()
	Root(t)
	p := &Pod{t: t}
	base := "/dev/shm" // in memory, as in the pod
	if _, err := os.Stat(base); err != nil {
		base = ""
	}
	dir, err := os.MkdirTemp(base, "pod") // t.TempDir is closed to other users
	p.check(err)
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	p.Dir = dir
	p.Boot, err = bootclock.ID()
	p.check(err)
	p.check(os.Chmod(dir, 0o755))
	for _, d := range ownership.Table() {
		dirs := []string{ownership.Dir(dir, d.Name), ownership.VIPs(dir, d.Name)}
		if d.Name == ownership.Elector {
			dirs = append(dirs, ownership.Egress(dir))
		}
		for _, sub := range dirs {
			p.check(os.Mkdir(sub, ownership.DirMode))
			p.check(os.Chmod(sub, ownership.DirMode))
			p.check(os.Chown(sub, d.UID, ownership.Group))
		}
	}
	return p
}

func (p *Pod) check(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

// Path returns the file of a document, such as "vips/default.web".
func (p *Pod) Path(daemon, name string) string {
	return filepath.Join(ownership.Dir(p.Dir, daemon), name+".json")
}

// Write writes a document of the named daemon, which gets a head of its own.
func (p *Pod) Write(daemon, name string, doc schema.Document) {
	p.t.Helper()
	p.generation++
	*doc.Head() = schema.Meta{Schema: doc.SchemaName(), Instance: "test." + daemon, Generation: p.generation}
	data, err := schema.Encode(doc)
	p.check(err)
	p.WriteRaw(daemon, name, data)
}

// WriteRaw writes a file of the named daemon.
func (p *Pod) WriteRaw(daemon, name string, data []byte) {
	p.t.Helper()
	path := p.Path(daemon, name)
	tmp := filepath.Join(filepath.Dir(path), "."+filepath.Base(path))
	p.check(os.WriteFile(tmp, data, ownership.FileMode))
	p.check(os.Chown(tmp, ownership.UID(daemon), ownership.Group))
	p.check(os.Rename(tmp, path))
}

// Remove removes a document.
func (p *Pod) Remove(daemon, name string) {
	p.t.Helper()
	p.check(os.Remove(p.Path(daemon, name)))
}

// Status returns a daemon's report about a VIP, Self that about itself; the
// daemon may be a process of its own or run inside the test.
func (p *Pod) Status(daemon, key string) (schema.Status, error) {
	return own[schema.Status](p.Path(daemon, "vips/"+key), daemon)
}

// Self returns the daemon's report about itself, an empty one if there is none.
func (p *Pod) Self(daemon string) schema.Daemon {
	d, _ := own[schema.Daemon](p.Path(daemon, "daemon"), daemon)
	return d
}

func own[T any, P schema.Pointer[T]](path, daemon string) (T, error) {
	doc, err := statefile.Read[T, P](path, ownership.UID(daemon))
	if errors.Is(err, statefile.ErrOwner) {
		return statefile.Read[T, P](path, os.Geteuid())
	}
	return doc, err
}

// Serve answers on the named daemon's socket as a process of that daemon's
// user would, until the test ends.
func (p *Pod) Serve(daemon string, h http.Handler) {
	p.t.Helper()
	p.ServeAs(daemon, ownership.UID(daemon), h)
}

// ServeAs is Serve under another user, which gets the daemon's directory. The
// kernel shows to peers the user of the thread that called listen(2), unix(7).
func (p *Pod) ServeAs(daemon string, uid int, h http.Handler) {
	p.t.Helper()
	p.check(os.Chown(ownership.Dir(p.Dir, daemon), uid, ownership.Group))
	var l net.Listener
	var err error
	path := ownership.Socket(p.Dir, daemon)
	As(p.t, uid, func() { l, err = net.Listen("unix", path) })
	p.check(err)
	p.check(os.Chown(path, uid, ownership.Group))
	p.check(os.Chmod(path, ownership.SocketMode))
	s := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	done := make(chan error)
	go func() { done <- s.Serve(l) }()
	p.t.Cleanup(func() {
		if err := errors.Join(s.Close(), <-done); !errors.Is(err, http.ErrServerClosed) {
			p.t.Error(err)
		}
	})
}

// Eventually waits for a condition and returns how long that took.
func Eventually(t testing.TB, what string, ok func() bool) time.Duration {
	t.Helper()
	start := time.Now()
	for !ok() {
		if time.Since(start) > Patience {
			t.Fatalf("waited %s: %s", Patience, what)
		}
		time.Sleep(2 * time.Millisecond)
	}
	return time.Since(start)
}
