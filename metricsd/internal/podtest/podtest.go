// Package podtest makes a pod for tests: a state directory whose files and
// sockets belong to the users that the ownership table names.
package podtest

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vipod/vipod/shared/ownership"
	"github.com/vipod/vipod/shared/schema"
)

// Boot is the boot id of a pod's documents.
const Boot = "boot"

// Pod is a state directory.
type Pod struct {
	Dir string
	t   testing.TB
	gen int64
}

// New makes a pod in which no daemon has run yet but all directories are.
func New(t testing.TB) *Pod {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: files and sockets belong to several users")
	}
	dir, err := os.MkdirTemp("", "pod") // t.TempDir is closed to other users
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	p := &Pod{Dir: dir, t: t}
	p.check(os.Chmod(dir, 0o755))
	for _, d := range ownership.Table() {
		for _, sub := range []string{ownership.Dir(dir, d.Name), ownership.VIPs(dir, d.Name)} {
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

// Write writes a document of the named daemon, such as "vips/default.web". The
// head is filled in where it is empty.
func (p *Pod) Write(daemon, name string, doc schema.Document) {
	p.t.Helper()
	head := doc.Head()
	head.Schema = doc.SchemaName()
	if head.Instance == "" {
		head.Instance = Boot + "." + daemon
	}
	if head.Generation == 0 {
		p.gen++
		head.Generation = p.gen
	}
	data, err := schema.Encode(doc)
	p.check(err)
	p.WriteRaw(daemon, name, data)
}

// WriteRaw writes a file of the named daemon.
func (p *Pod) WriteRaw(daemon, name string, data []byte) {
	p.t.Helper()
	path := filepath.Join(ownership.Dir(p.Dir, daemon), name+".json")
	tmp := filepath.Join(filepath.Dir(path), "."+filepath.Base(path))
	p.check(os.WriteFile(tmp, data, ownership.FileMode)) //nolint:forbidigo // bad documents too
	p.check(os.Chown(tmp, ownership.UID(daemon), ownership.Group))
	p.check(os.Rename(tmp, path)) //nolint:forbidigo // as above
}

// Remove removes a document.
func (p *Pod) Remove(daemon, name string) {
	p.t.Helper()
	p.check(os.Remove(filepath.Join(ownership.Dir(p.Dir, daemon), name+".json")))
}

// Serve answers on the named daemon's socket as a process of that daemon's
// user would, until the test ends.
func (p *Pod) Serve(daemon string, h http.Handler) {
	p.t.Helper()
	p.ServeAs(daemon, ownership.UID(daemon), h)
}

// ServeAs is Serve under another user, which gets the daemon's directory.
func (p *Pod) ServeAs(daemon string, uid int, h http.Handler) {
	p.t.Helper()
	p.check(os.Chown(ownership.Dir(p.Dir, daemon), uid, ownership.Group))
	l, err := listenAs(ownership.Socket(p.Dir, daemon), uid)
	p.check(err)
	s := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	done := make(chan error)
	go func() { done <- s.Serve(l) }()
	p.t.Cleanup(func() {
		if err := errors.Join(s.Close(), <-done); !errors.Is(err, http.ErrServerClosed) {
			p.t.Error(err)
		}
	})
}

// listenAs opens a socket under the effective user uid, which is what the
// kernel shows to peers: that of the thread that called listen(2), unix(7).
func listenAs(path string, uid int) (net.Listener, error) {
	type result struct {
		net.Listener
		error
	}
	done := make(chan result)
	go func() {
		runtime.LockOSThread() // never unlocked: the runtime ends the thread
		const same = ^uintptr(0)
		// The raw system call changes this thread only.
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, same, uintptr(uid), same); errno != 0 {
			done <- result{nil, fmt.Errorf("becoming uid %d: %w", uid, errno)}
			return
		}
		l, err := net.Listen("unix", path)
		done <- result{l, err}
	}()
	r := <-done
	return r.Listener, r.error
}
