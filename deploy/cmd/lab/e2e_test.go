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
	name := "tcmd" + strconv.FormatInt(int64(os.Getpid()), 36)
	t.Cleanup(func() {
		if err := lab.Down(name); err != nil {
			t.Error(err)
		}
	})
	for _, step := range []struct {
		args  string
		want  string
		fails bool
	}{
		{args: "up --nodes 2 --env a=b", want: "lab is up"},
		{args: "up", want: "exists already", fails: true},
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
		{args: "stop n1"}, // what does not run is stopped
		{args: "down"},
		{args: "down"},
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
