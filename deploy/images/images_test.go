// Package images holds the definition of the daemons' images; its tests hold
// the definition against the ownership table.
package images

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vipod/vipod/shared/netsafe/nstest"
	"github.com/vipod/vipod/shared/ownership"
	"github.com/vipod/vipod/shared/statetest"
)

// stages returns the instructions of each stage of the Dockerfile by the
// stage's name, the FROM line first.
func stages(t *testing.T) map[string][]string {
	t.Helper()
	data, err := os.ReadFile("Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	result, name := map[string][]string{}, ""
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if fields := strings.Fields(line); fields[0] == "FROM" && len(fields) == 4 {
			name = fields[3]
		}
		result[name] = append(result[name], line)
	}
	return result
}

func TestImageRunsAsItsDaemonsUserAndHoldsOnlyItsBinary(t *testing.T) {
	all := stages(t)
	for _, d := range ownership.Table() {
		want := []string{"FROM scratch AS " + d.Name}
		if d.Token {
			const roots = "/etc/ssl/certs/ca-certificates.crt"
			want = append(want, fmt.Sprintf("COPY --from=build-%s %s %s", d.Name, roots, roots))
		}
		want = append(want,
			fmt.Sprintf("COPY --from=build-%s /out/%s /%s", d.Name, d.Name, d.Name),
			fmt.Sprintf("USER %d:%d", d.UID, ownership.Group),
			fmt.Sprintf("ENTRYPOINT [%q]", "/"+d.Name))
		if diff := cmp.Diff(want, all[d.Name]); diff != "" {
			t.Errorf("stage %s (-want +got):\n%s", d.Name, diff)
		}
	}
}

func TestBuildStageSeesOneDaemonAndGivesItsCapability(t *testing.T) {
	all := stages(t)
	for _, d := range ownership.Table() {
		command := "build-daemon " + d.Name
		if len(d.Capabilities) > 0 {
			command += " cap_" + strings.ToLower(strings.Join(d.Capabilities, ",cap_"))
		}
		stage := all["build-"+d.Name]
		if len(stage) != 3 {
			t.Errorf("stage build-%s has %d instructions, want FROM, COPY and RUN", d.Name, len(stage))
			continue
		}
		if stage[1] != fmt.Sprintf("COPY %s %s", d.Name, d.Name) {
			t.Errorf("stage build-%s copies more than its daemon: %s", d.Name, stage[1])
		}
		if !strings.HasSuffix(stage[2], " "+command) {
			t.Errorf("stage build-%s runs %q, want it to end in %q", d.Name, stage[2], command)
		}
	}
}

// cannot skips the test, or fails it where nothing may be skipped.
func cannot(t *testing.T, format string, args ...any) {
	t.Helper()
	if os.Getenv(nstest.Require) == "1" {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}

// The manifests rest on this: with its capability as a file attribute a
// program runs under a plain uid and no_new_privs where the container has the
// capability, and cannot be executed where it has not.
func TestFileCapabilityWorksOnlyWhereTheContainerAllowsIt(t *testing.T) {
	statetest.Root(t)
	for _, tool := range []string{"setcap", "setpriv", "/bin/grep"} {
		if _, err := exec.LookPath(tool); err != nil {
			cannot(t, "needs %s: %v", tool, err)
		}
	}
	program := copyOfGrep(t)
	if out, err := exec.Command("setcap", "cap_net_admin+ep", program).CombinedOutput(); err != nil {
		cannot(t, "file system without file capabilities: %v: %s", err, out)
	}
	run := func(bounding, inheritable, ambient string) (string, error) {
		out, err := exec.Command("setpriv", "--reuid", "65502", "--regid", "65500", "--clear-groups", "--no-new-privs",
			"--bounding-set", bounding, "--inh-caps", inheritable, "--ambient-caps", ambient,
			program, "CapEff", "/proc/self/status").CombinedOutput()
		return string(out), err
	}
	// The container runtime leaves the capability in the permitted set; what
	// setpriv has for that is the ambient set, which the kernel clears when it
	// executes a file with capabilities.
	if out, err := run("-all,+net_admin", "-all,+net_admin", "-all,+net_admin"); err != nil || !strings.Contains(out, "0000000000001000") {
		t.Errorf("allowed: %v: %q, want CapEff with bit 12 only", err, out)
	}
	if out, err := run("-all", "-all", "-all"); err == nil {
		t.Errorf("not allowed: ran with %q, want it refused", out)
	}
}

func copyOfGrep(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile("/bin/grep")
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "images") // t.TempDir is closed to other uids
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	path := filepath.Join(dir, "program")
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}
