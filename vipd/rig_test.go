package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vipod/vipod/shared/bootclock"
	"github.com/vipod/vipod/shared/netsafe"
	"github.com/vipod/vipod/shared/netsafe/nstest"
	"github.com/vipod/vipod/shared/ownership"
	"github.com/vipod/vipod/shared/schema"
	"github.com/vipod/vipod/shared/sock"
	"github.com/vipod/vipod/shared/statefile"
)

// asDaemon makes the test binary be the daemon.
const asDaemon = "VIPOD_TEST_AS_DAEMON"

// asElector, set to a state directory, makes it answer as elector there.
const asElector = "VIPOD_TEST_AS_ELECTOR"

// serveAsElector answers every question with yes until it is killed.
func serveAsElector(dir string) {
	l, err := sock.Listen(dir, ownership.Elector)
	if err == nil {
		err = sock.Serve(context.Background(), l, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func TestMain(m *testing.M) {
	if os.Getenv(asDaemon) == "1" {
		main()
		return
	}
	if dir := os.Getenv(asElector); dir != "" {
		serveAsElector(dir)
		return
	}
	code := m.Run()
	if built.dir != "" {
		_ = os.RemoveAll(built.dir) // the tests' verdict stands without it
	}
	os.Exit(code)
}

const protocol = 248

// rig is a node: a namespace with link v0 to a peer's v1, a state directory,
// and vipd as a process of its own, under its own uid and with its only
// capability.
type rig struct {
	t        *testing.T
	ns, peer *nstest.NS
	state    string
	cmd      *exec.Cmd
	log      *lockedBuffer
	node     schema.Node
	elector  *statefile.Writer
	vips     *statefile.Writer
	wrote    map[string]schema.Observed // the newest document of each VIP
}

func newRig(t *testing.T) *rig {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	r := &rig{t: t, ns: nstest.New(t), peer: nstest.Peer(t), log: &lockedBuffer{}, wrote: map[string]schema.Observed{}}
	nstest.Veth(t, r.ns, "v0", r.peer, "v1")
	r.ns.Add(t, "v0", "198.51.100.1/24")
	r.ns.Add(t, "v0", "2001:db8::1/64")
	r.peer.Add(t, "v1", "198.51.100.2/24")
	r.peer.Add(t, "v1", "2001:db8::2/64")
	r.makeState()
	t.Cleanup(func() {
		r.kill()
		if t.Failed() {
			t.Logf("vipd said:\n%s", r.log.String())
		}
	})
	return r
}

func (r *rig) makeState() {
	r.t.Helper()
	base := "/dev/shm" // in memory, as in the pod
	if _, err := os.Stat(base); err != nil {
		base = ""
	}
	dir, err := os.MkdirTemp(base, "vipd-state")
	r.check(err)
	r.t.Cleanup(func() { r.check(os.RemoveAll(dir)) })
	r.check(os.Chmod(dir, 0o755))
	r.state = dir
	for _, name := range []string{ownership.Elector, ownership.Vipd} {
		own := ownership.Dir(dir, name)
		r.check(os.Mkdir(own, ownership.DirMode))
		r.check(os.Chown(own, ownership.UID(name), ownership.Group))
	}
	boot, err := bootclock.ID()
	r.check(err)
	r.asElector(func() {
		own := ownership.Dir(dir, ownership.Elector)
		r.elector, err = statefile.NewWriter(own, statefile.Instance(boot))
		r.check(err)
		r.vips, err = statefile.NewWriter(filepath.Join(own, "vips"), statefile.Instance(boot))
		r.check(err)
	})
	r.node = schema.Node{Name: "node-a", Boot: boot, Synced: true, Phase: schema.PhaseRunning, Settings: schema.Settings{
		Protocol: protocol, LeaseDurationMillis: 5000, AnnounceIntervalMillis: 1000}}
}

func (r *rig) check(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// asElector makes files under elector's uid; the test's goroutine owns its
// thread, whose file system uid this is.
func (r *rig) asElector(f func()) {
	r.t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	_, _ = unix.SetfsgidRetGid(ownership.Group)
	_, _ = unix.SetfsuidRetUid(ownership.UID(ownership.Elector))
	defer func() {
		_, _ = unix.SetfsuidRetUid(0)
		_, _ = unix.SetfsgidRetGid(0)
	}()
	f()
}

func (r *rig) write(w *statefile.Writer, name string, doc schema.Document) {
	r.t.Helper()
	r.asElector(func() {
		if _, err := w.Write(name, doc); err != nil {
			r.t.Fatal(err)
		}
	})
}

func (r *rig) writeNode(change func(*schema.Node)) {
	r.t.Helper()
	change(&r.node)
	r.write(r.elector, "node", &r.node)
}

func (r *rig) synced() { r.t.Helper(); r.writeNode(func(n *schema.Node) { n.Synced = true }) }

// grant holds the node's grant for d from now.
func (r *rig) grant(d time.Duration) {
	r.t.Helper()
	r.write(r.elector, "grant", &schema.Grant{Boot: r.node.Boot, ValidUntil: map[schema.GrantName]int64{
		schema.GrantNode: int64(bootclock.Now() + d)}})
}

// vip writes a document for addresses on v0.
func (r *rig) vip(key string, state schema.State, ips ...string) {
	r.t.Helper()
	doc := schema.VIP{Key: key, Kind: schema.KindService, State: state, Grant: schema.GrantNode}
	for _, s := range ips {
		ip := netip.MustParseAddr(s)
		doc.Addresses = append(doc.Addresses, schema.Address{IP: ip, PrefixLength: ip.BitLen(), Interface: "v0", Source: schema.SourceStatic})
	}
	r.write(r.vips, key, &doc)
	r.wrote[key] = doc.Seen()
}

func (r *rig) drop(key string) {
	r.t.Helper()
	r.asElector(func() { r.check(r.vips.Remove(key)) })
}

// start starts vipd in the node's namespace.
func (r *rig) start() {
	r.t.Helper()
	r.cmd = r.process(ownership.Vipd, asDaemon+"=1", "run", "--state-dir", r.state, "--log-level", "debug")
	r.cmd.SysProcAttr.AmbientCaps = []uintptr{unix.CAP_NET_ADMIN}
	r.check(r.cmd.Start())
}

// process is this test binary under a daemon's uid.
func (r *rig) process(daemon, env string, args ...string) *exec.Cmd {
	r.t.Helper()
	cmd := exec.Command(daemonBinary(r.t), args...)
	cmd.Env = append(os.Environ(), env)
	cmd.Stderr, cmd.Stdout = r.log, r.log
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Credential: &syscall.Credential{Uid: uint32(ownership.UID(daemon)), Gid: ownership.Group},
		Pdeathsig:  syscall.SIGKILL,
	}
	return cmd
}

// answerAsElector has somebody answer on elector's socket.
func (r *rig) answerAsElector() {
	r.t.Helper()
	cmd := r.process(ownership.Elector, asElector+"="+r.state)
	r.check(cmd.Start())
	r.t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	r.eventually("elector's socket", func() bool {
		_, err := os.Stat(ownership.Socket(r.state, ownership.Elector))
		return err == nil
	})
}

// exited waits for vipd to end by itself and returns how long that took.
func (r *rig) exited() time.Duration {
	r.t.Helper()
	start, done := time.Now(), make(chan error, 1)
	go func() { done <- r.cmd.Wait() }()
	select {
	case err := <-done:
		r.check(err)
	case <-time.After(2 * patience):
		r.t.Fatal("vipd does not exit")
	}
	r.cmd = nil
	return time.Since(start)
}

func (r *rig) signal(s syscall.Signal) { r.t.Helper(); r.check(r.cmd.Process.Signal(s)) }

// kill ends vipd at once.
func (r *rig) kill() {
	if r.cmd == nil {
		return
	}
	_ = r.cmd.Process.Kill() // it may have ended by itself
	_ = r.cmd.Wait()
	r.cmd = nil
}

// built is this test binary where any uid can execute it.
var built struct {
	once sync.Once
	dir  string
	err  error
}

func daemonBinary(t *testing.T) string {
	t.Helper()
	built.once.Do(func() {
		if built.dir, built.err = os.MkdirTemp("", "vipd-binary"); built.err != nil {
			return
		}
		var data []byte
		if data, built.err = os.ReadFile("/proc/self/exe"); built.err == nil {
			built.err = os.WriteFile(filepath.Join(built.dir, "vipd"), data, 0o755)
		}
		if built.err == nil {
			built.err = os.Chmod(built.dir, 0o755)
		}
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	return filepath.Join(built.dir, "vipd")
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// patience is how long something may take on a busy machine.
const patience = 15 * time.Second

// eventually waits for a condition and returns how long it took.
func (r *rig) eventually(what string, ok func() bool) time.Duration {
	r.t.Helper()
	start := time.Now()
	for !ok() {
		if time.Since(start) > patience {
			r.t.Fatalf("waited %s: %s", patience, what)
		}
		time.Sleep(2 * time.Millisecond)
	}
	return time.Since(start)
}

// address returns an address of the node's namespace.
func (r *rig) address(ip string) (netsafe.Address, bool) {
	r.t.Helper()
	list, err := netsafe.Addresses()
	r.check(err)
	for _, a := range list {
		if a.Prefix.Addr() == netip.MustParseAddr(ip) {
			return a, true
		}
	}
	return netsafe.Address{}, false
}

func (r *rig) has(ip string) bool {
	r.t.Helper()
	a, ok := r.address(ip)
	return ok && a.Protocol == protocol
}

func (r *rig) status(key string) (schema.Status, error) {
	return statefile.Read[schema.Status](filepath.Join(ownership.VIPs(r.state, ownership.Vipd), key+".json"), ownership.UID(ownership.Vipd))
}

// is says whether the VIP's condition is True for its newest document.
func (r *rig) is(key, condition string) bool {
	s, err := r.status(key)
	return err == nil && s.Observed == r.wrote[key] && schema.IsTrue(s.Conditions, condition)
}

// absentBecause says whether the VIP is not present for the reason.
func (r *rig) absentBecause(reason string) bool {
	s, err := r.status("default.web")
	c, ok := schema.FindCondition(s.Conditions, schema.ConditionPresent)
	return err == nil && ok && c.Status == schema.False && c.Reason == reason
}

func (r *rig) self() schema.Daemon {
	d, _ := statefile.Read[schema.Daemon](filepath.Join(ownership.Dir(r.state, ownership.Vipd), "daemon.json"), ownership.UID(ownership.Vipd))
	return d
}

func (r *rig) link(name string) schema.Link {
	for _, l := range r.self().Links {
		if l.Name == name {
			return l
		}
	}
	return schema.Link{}
}

// run runs a command in the node's namespace.
func (r *rig) run(args ...string) string {
	r.t.Helper()
	out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
	if err != nil {
		r.t.Fatalf("%v: %v\n%s", args, err, out)
	}
	return string(out)
}
