package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/vipod/vipod/shared/ownership"
)

// capabilities are those of capabilities(7) that daemons may have, by number.
var capabilities = map[string]int{"NET_BIND_SERVICE": 10, "NET_ADMIN": 12, "NET_RAW": 13}

// mask returns a daemon's capabilities as /proc/<pid>/status has them.
func mask(d ownership.Daemon) string {
	var bits uint64
	for _, name := range d.Capabilities {
		bits |= 1 << capabilities[name]
	}
	return fmt.Sprintf("%016x", bits)
}

// procStatus returns the fields of /proc/<pid>/status.
func procStatus(pid int) (map[string]string, error) {
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		return nil, err
	}
	fields := map[string]string{}
	for line := range strings.Lines(string(data)) {
		if key, value, ok := strings.Cut(line, ":"); ok {
			fields[key] = strings.Join(strings.Fields(value), " ")
		}
	}
	return fields, nil
}

// labFile returns the path of a file of the lab.
func (e *env) labFile(parts ...string) string {
	nodes := filepath.Dir(filepath.Dir(e.StateDir("n1")))
	return filepath.Join(append([]string{nodes}, parts...)...)
}

// as runs a subcommand of a daemon's binary on a node, under the daemon's uid
// and with its capabilities, and returns what it printed.
func (e *env) as(name, node string, vars []string, args ...string) (string, error) {
	e.t.Helper()
	d, ok := ownership.Lookup(name)
	if !ok {
		e.t.Fatalf("no daemon %s", name)
	}
	set := "-all"
	for _, c := range d.Capabilities {
		set += ",+" + strings.ToLower(c)
	}
	argv := []string{
		"netns", "exec", e.NS(node), "setpriv", "--reuid", strconv.Itoa(d.UID), "--regid", strconv.Itoa(ownership.Group),
		"--clear-groups", "--inh-caps", set, "--ambient-caps", set, "--bounding-set", set, "--no-new-privs", "--",
		e.labFile("bin", name),
	}
	cmd := exec.CommandContext(e.ctx, "ip", append(argv, args...)...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "VIPOD_STATE_DIR=" + e.StateDir(node), "vip_nodename=" + node}, vars...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}

// restartWith stops a node and starts the named daemons with more in their
// environment. The node is as before at the end of the test.
func (e *env) restartWith(node string, vars []string, names ...string) {
	e.t.Helper()
	e.stop(node, unix.SIGTERM)
	for _, name := range names {
		e.must(e.StartDaemon(e.ctx, node, name, vars...))
	}
	e.t.Cleanup(func() {
		e.stop(node, unix.SIGTERM)
		e.start(node)
	})
}
