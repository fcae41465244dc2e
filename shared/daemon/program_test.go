package daemon_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/vipod/vipod/shared/daemon"
	"github.com/vipod/vipod/shared/ownership"
	"github.com/vipod/vipod/shared/sock"
	"github.com/vipod/vipod/shared/statetest"
	"github.com/vipod/vipod/shared/version"
)

// newStateDir makes a state directory in which every user may make its own.
func newStateDir(t *testing.T) string {
	t.Helper()
	statetest.Root(t)
	dir, err := os.MkdirTemp("/tmp", "daemon") // a socket's path is short, unix(7)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	// As an emptyDir with fsGroup is.
	if err := errors.Join(os.Chown(dir, 0, ownership.Group), os.Chmod(dir, os.ModeSetgid|0o777)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// result is what a command line did.
type result struct {
	code           int
	stdout, stderr string
}

// command runs a command line of elector under its own uid.
func command(t *testing.T, p *daemon.Program, stateDir string, args ...string) result {
	t.Helper()
	p.Name = ownership.Elector
	var stdout, stderr bytes.Buffer
	getenv := func(name string) string { return map[string]string{"VIPOD_STATE_DIR": stateDir}[name] }
	var r result
	statetest.As(t, ownership.UID(ownership.Elector), func() {
		r.code = p.Main(args, getenv, &stdout, &stderr)
	})
	r.stdout, r.stderr = stdout.String(), stderr.String()
	return r
}

func (r result) expect(t *testing.T, code int, stdout, stderr string) {
	t.Helper()
	if r.code != code || r.stdout != stdout || !strings.Contains(r.stderr, stderr) {
		t.Errorf("exit code %d, output %q, errors %q; want %d, %q and %q", r.code, r.stdout, r.stderr, code, stdout, stderr)
	}
}

// asksToStop is a daemon that gets SIGTERM.
func asksToStop(ctx context.Context, _ *daemon.Env) error {
	if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

func TestNetnsRunEndsWithSIGTERM(t *testing.T) {
	for _, args := range [][]string{nil, {"run"}, {"-log-level", "debug"}} {
		dir := newStateDir(t)
		command(t, &daemon.Program{Run: asksToStop}, dir, args...).expect(t, 0, "", "msg=stopped")
		st, err := os.Stat(ownership.Dir(dir, ownership.Elector))
		if err != nil || st.Mode().Perm() != ownership.DirMode {
			t.Errorf("run %v: own directory %v, error %v", args, st, err)
		}
	}
}

func TestNetnsRunPassesEnvironmentAndError(t *testing.T) {
	dir := newStateDir(t)
	var own string
	p := &daemon.Program{
		Flags: func(fs *flag.FlagSet) { fs.StringVar(&own, "own", "", "") },
		Run: func(_ context.Context, env *daemon.Env) error {
			env.Log.Debug("quiet")
			_, err := fmt.Fprintln(env.Stdout, env.StateDir == dir, own)
			return errors.Join(err, errBroken)
		},
	}
	r := command(t, p, dir, "run", "-own", "value")
	r.expect(t, 1, "true value\n", "elector: broken")
	if strings.Contains(r.stderr, "quiet") {
		t.Errorf("debug output at level info: %s", r.stderr)
	}
	command(t, p, "/nowhere", "run", "-state-dir", dir).expect(t, 1, "true \n", "elector: broken")
	command(t, p, dir, "run", "-log-level", "debug").expect(t, 1, "true \n", "quiet")
}

func TestNetnsRunRefusesAWrongProcess(t *testing.T) {
	p := &daemon.Program{Run: func(context.Context, *daemon.Env) error {
		t.Error("the daemon ran")
		return nil
	}}
	dir := newStateDir(t)
	p.Check = func(*daemon.Env) error { return errBroken }
	command(t, p, dir).expect(t, 1, "", "elector: broken")

	p.Name = ownership.Vipd
	var stderr bytes.Buffer
	code := p.Main([]string{"-state-dir", dir}, func(string) string { return "" }, io.Discard, &stderr)
	if code != 1 || !strings.Contains(stderr.String(), "running as uid 0, want 65502") {
		t.Errorf("as root: exit code %d, errors %q", code, stderr.String())
	}
	if _, err := os.Stat(ownership.Dir(dir, ownership.Vipd)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the wrong user made the daemon's directory: %v", err)
	}
}

func TestNetnsCheckChangesNothing(t *testing.T) {
	dir := newStateDir(t)
	command(t, &daemon.Program{}, dir, "check").expect(t, 1, "", "elector: no such file")
	command(t, &daemon.Program{}, dir, "prepare").expect(t, 0, "", "")
	command(t, &daemon.Program{}, dir, "prepare").expect(t, 0, "", "")
	command(t, &daemon.Program{}, dir, "check").expect(t, 0, "", "")
	command(t, &daemon.Program{Check: func(*daemon.Env) error { return errBroken }}, dir, "check").expect(t, 1, "", "elector: broken")
	command(t, &daemon.Program{}, "/proc", "prepare").expect(t, 1, "", "preparing state directory")
}

func TestNetnsCommandLinesThatMakeNoSense(t *testing.T) {
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"fly"}, `unknown command "fly" (run, status, check, healthz, readyz, prepare, version, help)`},
		{[]string{"run", "now"}, `unexpected argument "now"`},
		{[]string{"-what"}, "flag provided but not defined: -what"},
		{[]string{"-log-level", "loud"}, "-log-level"},
		{[]string{"status", "-o", "xml"}, `-o "xml" is not table or json`},
	} {
		command(t, &daemon.Program{}, newStateDir(t), test.args...).expect(t, daemon.ExitUsage, "", test.want)
	}
}

func TestNetnsHelpAndVersion(t *testing.T) {
	r := command(t, &daemon.Program{}, newStateDir(t), "-h")
	r.expect(t, 0, "", "VIPOD_STATE_DIR")
	if r := command(t, &daemon.Program{}, newStateDir(t), "help"); r.code != 0 || r.stderr != "" ||
		!strings.Contains(r.stdout, "usage: elector [COMMAND]") || !strings.Contains(r.stdout, "VIPOD_STATE_DIR") {
		t.Errorf("help: exit code %d, output %q, errors %q", r.code, r.stdout, r.stderr)
	}
	command(t, &daemon.Program{}, "", "version").expect(t, 0, version.String()+"\n", "")
}

func TestNetnsStatusAndHealthAskTheDaemon(t *testing.T) {
	dir := newStateDir(t)
	p := &daemon.Program{Status: func(out io.Writer, answer []byte) error {
		_, err := fmt.Fprintf(out, "table of %s\n", answer)
		return err
	}}
	command(t, p, dir, "status").expect(t, 1, "", "no such file")
	command(t, p, dir, "healthz").expect(t, 1, "", "no such file")

	healthy, status := http.StatusOK, `{"a":1}`
	serve(t, dir, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/healthz" || r.URL.Path == "/readyz" {
			w.WriteHeader(healthy)
			return
		}
		_, _ = io.WriteString(w, status)
	})
	command(t, p, dir, "status").expect(t, 0, "table of {\"a\":1}\n", "")
	command(t, p, dir, "status", "-o", "json").expect(t, 0, "{\n  \"a\": 1\n}\n", "")
	command(t, p, dir, "healthz").expect(t, 0, "", "")
	command(t, p, dir, "readyz").expect(t, 0, "", "")
	healthy, status = http.StatusServiceUnavailable, "{"
	command(t, p, dir, "healthz").expect(t, 1, "", "503")
	command(t, p, dir, "readyz").expect(t, 1, "", "503")
	command(t, p, dir, "status", "-o", "json").expect(t, 1, "", "reading status")
}

// serve answers on elector's socket until the test ends.
func serve(t *testing.T, stateDir string, h http.HandlerFunc) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	statetest.As(t, ownership.UID(ownership.Elector), func() {
		if err := daemon.Prepare(stateDir, ownership.Elector); err != nil {
			t.Error(err)
		}
		l, err := sock.Listen(stateDir, ownership.Elector)
		if err != nil {
			t.Error(err)
			done <- nil
			return
		}
		go func() { done <- sock.Serve(ctx, l, h) }()
	})
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
}
