package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/vipod/vipod/deploy/lab"
)

// TestE2ECommands goes through the program's commands as a person would.
func TestE2ECommands(t *testing.T) {
	dir := binDir(t)
	name := labName(t, "tcmd")
	for _, step := range []struct {
		args  string
		want  string
		fails bool
	}{
		{args: "up --env a", want: "want KEY=value", fails: true},
		{args: "up --nodes 2 --env a=b", want: "lab is up"},
		{args: "up", want: "exists already", fails: true},
		{args: "start n1"},
		{args: "exec n1 true"},
		{args: "exec n3 true", want: `"n3"`, fails: true},
		{args: "service web p9", want: `"p9"`, fails: true}, // and leaves nothing behind
		{args: "service web p2 --vip 198.51.100.201 --local --class example.org/lab"},
		{args: "status", want: "default/web"},
		{args: "status", want: "kube-apiserver"},
		{args: "exec client ip -br addr show eth0", want: "198.51.100.100/24"},
		{args: "exec client false", fails: true},
		{args: "cut n2 --carrier"},
		{args: "exec n2 ip link show eth0", want: "NO-CARRIER"},
		{args: "cut n2 --carrier --api", want: "exclude", fails: true},
		{args: "heal n2"},
		{args: "exec client curl -sk https://198.51.100.12:6443/livez", want: "ok"},
		{args: "cut n3", want: `"n3"`, fails: true},
		{args: "start n1 nosuchd", want: `"nosuchd"`, fails: true},
		{args: "stop n1 --signal nosuch", want: `"nosuch"`, fails: true},
		{args: "stop n1"},
		{args: "stop n1"}, // what does not run is stopped
		{args: "down"},
		{args: "down", want: "no lab"},
		{args: "status", want: "no lab", fails: true},
	} {
		args := strings.Fields(step.args)
		args = append([]string{args[0], "--name", name}, args[1:]...)
		out, err := exec.Command(filepath.Join(dir, "lab"), args...).CombinedOutput()
		if (err != nil) != step.fails || !strings.Contains(string(out), step.want) {
			t.Fatalf("lab %s: %v, want an error: %t, and %q in\n%s", step.args, err, step.fails, step.want, out)
		}
	}
}

// TestE2EStart starts daemons with what a person gives who knows nothing yet,
// and with a setting that ends elector.
func TestE2EStart(t *testing.T) {
	dir := binDir(t)
	name := labName(t, "tst")
	command := func(args ...string) (string, error) {
		args = append([]string{args[0], "--name", name}, args[1:]...)
		out, err := exec.Command(filepath.Join(dir, "lab"), args...).CombinedOutput()
		return string(out), err
	}
	if out, err := command("up", "--nodes", "1", "--start"); err != nil {
		t.Fatalf("up --start: %v\n%s", err, out)
	}
	if out, err := command("service", "web", "--vip", "198.51.100.201"); err != nil {
		t.Fatalf("service: %v\n%s", err, out)
	}
	if out, err := command("exec", "client", "curl", "-s", "--retry", "40", "--retry-delay", "1", "--retry-all-errors",
		"--connect-timeout", "1", "http://198.51.100.201"); err != nil || !strings.Contains(out, `"p1"`) {
		t.Fatalf("asking the Service: %v\n%s", err, out)
	}
	if out, err := command("down"); err != nil {
		t.Fatalf("down: %v\n%s", err, out)
	}
	out, err := command("up", "--nodes", "1", "--start", "--env", "svc_enable=maybe")
	if err == nil || !strings.Contains(out, `elector of n1 ended`) || !strings.Contains(out, `"maybe" is not allowed`) {
		t.Errorf("up --start with a bad setting: %v, want elector's end and why in\n%s", err, out)
	}
}

// binDir returns where the programs are. Without them the test is skipped, or
// fails where it must not be.
func binDir(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("VIPOD_BIN_DIR")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "bin")
	}
	if err := lab.Check(lab.Options{BinDir: dir}); err != nil {
		if os.Getenv("VIPOD_REQUIRE_NETNS") == "1" {
			t.Fatalf("no lab can run here: %v", err)
		}
		t.Skipf("no lab can run here: %v", err)
	}
	return dir
}

// labName returns a name that no other process uses, and takes the lab of
// that name down at the end.
func labName(t *testing.T, prefix string) string {
	t.Helper()
	name := prefix + strconv.FormatInt(int64(os.Getpid()), 36)
	t.Cleanup(func() {
		if err := lab.Down(name); err != nil {
			t.Error(err)
		}
	})
	return name
}
