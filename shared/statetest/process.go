package statetest

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/vipod/vipod/shared/ownership"
	"github.com/vipod/vipod/shared/selfcheck"
	"github.com/vipod/vipod/shared/sock"
)

// asDaemon makes the test binary be the daemon.
const asDaemon = "VIPOD_TEST_AS_DAEMON"

// copied is the test binary where any user can execute it.
var copied struct {
	once sync.Once
	dir  string
	err  error
}

// Main is for TestMain of a package whose tests run its daemon as a process:
// the process is this very test binary. daemon is what the daemon's main does.
func Main(m *testing.M, daemon func() int) {
	if os.Getenv(asDaemon) == "1" {
		os.Exit(daemon())
	}
	code := m.Run()
	if copied.dir != "" {
		_ = os.RemoveAll(copied.dir) // the tests' verdict stands without it
	}
	os.Exit(code)
}

func binary(t testing.TB) string {
	t.Helper()
	copied.once.Do(func() {
		if copied.dir, copied.err = os.MkdirTemp("", "daemon"); copied.err != nil {
			return
		}
		var data []byte
		if data, copied.err = os.ReadFile("/proc/self/exe"); copied.err == nil {
			copied.err = os.WriteFile(filepath.Join(copied.dir, "daemon"), data, 0o755)
		}
		if copied.err == nil {
			copied.err = os.Chmod(copied.dir, 0o755)
		}
	})
	if copied.err != nil {
		t.Fatal(copied.err)
	}
	return filepath.Join(copied.dir, "daemon")
}

// Process is a daemon as the pod runs it: under its own uid, with no other
// capability than the table's.
type Process struct {
	t      testing.TB
	pod    *Pod
	daemon ownership.Daemon
	// program is what is run, the test binary if it is "".
	program string
	cmd     *exec.Cmd // nil while it does not run
	log     output
}

// Process prepares the named daemon; it is killed when the test ends. Its log
// is shown when the test failed.
func (p *Pod) Process(daemon string) *Process {
	p.t.Helper()
	row, ok := ownership.Lookup(daemon)
	if !ok {
		p.t.Fatalf("no daemon %s", daemon)
	}
	d := &Process{t: p.t, pod: p, daemon: row}
	p.t.Cleanup(func() {
		d.Kill()
		if p.t.Failed() {
			p.t.Logf("%s said:\n%s", daemon, d.log.String())
		}
	})
	return d
}

// Program makes the process that of a program which any user can execute, and
// not of the test binary.
func (d *Process) Program(path string) { d.program = path }

func (d *Process) command(args ...string) *exec.Cmd {
	program := d.program
	if program == "" {
		program = binary(d.t)
	}
	cmd := exec.Command(program, append(args, "--state-dir", d.pod.Dir)...)
	cmd.Env = append(os.Environ(), asDaemon+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Credential: &syscall.Credential{Uid: uint32(d.daemon.UID), Gid: ownership.Group},
	}
	return cmd
}

// Start starts it in the network namespace of the calling thread.
func (d *Process) Start() {
	d.t.Helper()
	cmd := d.command("run", "--log-level", "debug")
	cmd.Stdout, cmd.Stderr = &d.log, &d.log
	for _, name := range d.daemon.Capabilities {
		n, ok := selfcheck.Capability(name)
		if !ok {
			d.t.Fatalf("no capability %s", name)
		}
		cmd.SysProcAttr.AmbientCaps = append(cmd.SysProcAttr.AmbientCaps, uintptr(n))
	}
	if err := cmd.Start(); err != nil {
		d.t.Errorf("starting %s: %v", d.daemon.Name, err)
		return
	}
	d.cmd = cmd
}

// Signal sends it a signal.
func (d *Process) Signal(s syscall.Signal) {
	d.t.Helper()
	if err := d.cmd.Process.Signal(s); err != nil {
		d.t.Fatal(err)
	}
}

// Exited waits for it to end by itself and returns how long that took.
func (d *Process) Exited() time.Duration {
	d.t.Helper()
	start, done := time.Now(), make(chan error, 1)
	go func() { done <- d.cmd.Wait() }()
	select {
	case err := <-done:
		if err != nil {
			d.t.Fatal(err)
		}
	case <-time.After(2 * Patience):
		d.t.Fatalf("%s does not exit", d.daemon.Name)
	}
	d.cmd = nil
	return time.Since(start)
}

// Kill ends it at once.
func (d *Process) Kill() {
	if d.cmd == nil {
		return
	}
	_ = d.cmd.Process.Kill() // it may have ended by itself
	_ = d.cmd.Wait()
	d.cmd = nil
}

// Ask asks it on its socket.
func (d *Process) Ask(path string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	b, err := sock.NewClient(d.pod.Dir, d.daemon.Name).Get(ctx, path)
	return string(b), err
}

// Output is what it has logged so far.
func (d *Process) Output() string { return d.log.String() }

// Run runs one of its subcommands and returns what it prints.
func (d *Process) Run(subcommand ...string) string {
	d.t.Helper()
	out, err := d.command(subcommand...).Output()
	if err != nil {
		d.t.Fatalf("%s %v: %v", d.daemon.Name, subcommand, err)
	}
	return string(out)
}

// output is a log that is written and read side by side.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

// String returns all that was written.
func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}
