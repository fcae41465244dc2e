package lab

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vipod/vipod/shared/ownership"
)

// TestMain is also the daemons: started under a daemon's name, the test
// binary tells what it was given and waits for its end.
func TestMain(m *testing.M) {
	name := filepath.Base(os.Args[0])
	if slices.Contains(DaemonNames(), name) {
		os.Exit(fakeDaemon(name))
	}
	os.Exit(m.Run())
}

func fakeDaemon(name string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	status, _ := os.ReadFile("/proc/self/status")
	fmt.Printf("args %q\n%s", os.Args[1:], status)
	for _, env := range os.Environ() {
		fmt.Println("env", env)
	}
	stateDir := os.Getenv("VIPOD_STATE_DIR")
	for _, d := range ownership.Table() {
		path := filepath.Join(ownership.Dir(stateDir, d.Name), "from-"+name)
		fmt.Printf("write %s %t\n", d.Name, os.WriteFile(path, nil, 0o640) == nil)
		_, err := os.ReadDir(ownership.Dir(stateDir, d.Name))
		fmt.Printf("read %s %t\n", d.Name, err == nil)
	}
	_, err := os.ReadFile(os.Getenv("k8s_config_file"))
	fmt.Printf("kubeconfig %t\nready\n", err == nil)
	<-ctx.Done()
	fmt.Println("terminated")
	return 0
}

// binDir returns a directory with the programs that were built and the test
// binary as every daemon. Without the programs the test is skipped, or fails
// where it must not be.
func binDir(t *testing.T) string {
	t.Helper()
	built := os.Getenv("VIPOD_BIN_DIR")
	if built == "" {
		built = filepath.Join("..", "..", "bin")
	}
	built, err := filepath.Abs(built)
	if err != nil {
		t.Fatal(err)
	}
	if err := Check(Options{BinDir: built}); err != nil {
		if os.Getenv("VIPOD_REQUIRE_NETNS") == "1" {
			t.Fatalf("no lab can run here: %v", err)
		}
		t.Skipf("no lab can run here: %v", err)
	}
	// Only root can look into this directory; the daemons have to be able to
	// run all the same.
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Dir(dir), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, program := range []string{"cluster", "lab"} {
		if err := os.Symlink(filepath.Join(built, program), filepath.Join(dir, program)); err != nil {
			t.Fatal(err)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	first := filepath.Join(dir, DaemonNames()[0])
	copyProgram(t, self, first)
	for _, name := range DaemonNames()[1:] {
		if err := os.Link(first, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func copyProgram(t *testing.T, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
}

// testName returns a lab's name that no other run of the tests uses.
func testName(prefix string) string {
	return prefix + strconv.FormatInt(int64(os.Getpid()), 36)
}

// upForTest makes a lab that is removed at the end of the test, and checks
// that nothing is left then.
func upForTest(t *testing.T, opts Options) *Lab {
	t.Helper()
	before := machine(t, opts.Name)
	if len(before["namespaces"])+len(before["mounts"])+len(before["processes"]) > 0 {
		t.Fatalf("lab %s of an earlier run is in the way: lab down --name %s", opts.Name, opts.Name)
	}
	opts.Log = slog.New(slog.NewTextHandler(testWriter{t}, nil))
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	l, err := Up(ctx, opts)
	if err != nil {
		t.Fatalf("Up: %v", err)
	}
	t.Cleanup(func() {
		if err := l.Down(); err != nil {
			t.Errorf("Down: %v", err)
		}
		wantMachine(t, opts.Name, before)
	})
	return l
}

// testWriter prints lines with the test's own.
type testWriter struct{ t *testing.T }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Log(string(bytes.TrimSpace(p)))
	return len(p), nil
}

// machine returns what a lab of this name has on the machine, and what the
// machine's own network looks like.
func machine(t *testing.T, name string) map[string][]string {
	t.Helper()
	namespaces, err := namespacesOf(name)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(root, name)
	mounts, err := mountsBelow(dir)
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(dir)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string][]string{"namespaces": namespaces, "mounts": mounts, "files": files}
	cmdlines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range cmdlines {
		data, _ := os.ReadFile(path)
		if bytes.Contains(data, []byte(dir+"/")) {
			found["processes"] = append(found["processes"], string(bytes.ReplaceAll(data, []byte{0}, []byte{' '})))
		}
	}
	for _, args := range []string{"-br link", "-br addr", "route show table all", "-6 route show table all", "rule"} {
		out, err := exec.Command("ip", strings.Fields(args)...).Output()
		if err != nil {
			t.Fatal(err)
		}
		found["ip "+args] = strings.Split(string(out), "\n")
	}
	return found
}

func wantMachine(t *testing.T, name string, want map[string][]string) {
	t.Helper()
	if diff := cmp.Diff(want, machine(t, name)); diff != "" {
		t.Errorf("the machine is not as it was (-before +after):\n%s", diff)
	}
}

// eventually waits until the condition holds.
func eventually(t *testing.T, what string, condition func() error) {
	t.Helper()
	deadline := time.Now().Add(15 * time.Second)
	for {
		err := condition()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %v", what, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
