package vm

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// cache is that of the repository.
const cache = "../../.cache/vm"

// kernel returns the machine's kernel, or skips the test where there can be no
// machine.
func kernel(t *testing.T) Kernel {
	t.Helper()
	err := Missing()
	var k Kernel
	if err == nil {
		k, err = GetKernel(t.Context(), cache)
	}
	if err != nil && os.Getenv("VIPOD_REQUIRE_VM") == "1" {
		t.Fatalf("making a virtual machine: %v", err)
	}
	if err != nil {
		t.Skipf("no virtual machine (VIPOD_REQUIRE_VM=1 makes this a failure): %v", err)
	}
	return k
}

// inMachine is the variable by which a test knows that it runs in a machine
// whose kernel has VLANs.
const inMachine = "VIPOD_REQUIRE_VLAN"

// pass runs tests of a package in a machine and wants them to pass, each by
// its name.
func pass(t *testing.T, dir string, modules []string, tests ...string) {
	t.Helper()
	passWith(t, Test{Package: dir, Modules: modules}, tests...)
}

// passWith is pass with more in the machine.
func passWith(t *testing.T, test Test, tests ...string) {
	t.Helper()
	var out bytes.Buffer
	k := kernel(t)
	test.Timeout = 10 * time.Minute
	test.Args = []string{"-test.v", "-test.run=^(" + strings.Join(tests, "|") + ")$"}
	test.Env = []string{"VIPOD_REQUIRE_NETNS=1", inMachine + "=1", "VIPOD_REQUIRE_WIREGUARD=1"}
	code, err := Run(t.Context(), k, test, &out)
	t.Logf("on kernel %s:\n%s", k.Version, out.String())
	if err != nil || code != 0 {
		t.Fatalf("exit code %d, %v", code, err)
	}
	for _, name := range tests {
		if !strings.Contains(out.String(), "--- PASS: "+name+" ") {
			t.Errorf("%s did not run", name)
		}
	}
}

func TestVMAddressesKeepProtocolAndLifetimeOnDebiansKernel(t *testing.T) {
	pass(t, "../../shared/netsafe", []string{"veth"},
		"TestNetnsAddressCarriesItsProtocolAndLeavesWhenItsLifetimeEnds",
		"TestNetnsAddressReadsBackAsItWasAdded", "TestNetnsReplaceRefreshesLifetime")
}

// guest is a package with one test, made for what the runner does with it.
func guest(t *testing.T, body string) string {
	t.Helper()
	dir := t.TempDir()
	files := map[string]string{
		"go.mod":          "module guest\n\ngo 1.26.0\n",
		"testdata/a/b.in": "hello\n",
		"guest_test.go": "package guest\n\nimport (\n\t\"fmt\"\n\t\"os\"\n\t\"testing\"\n\t\"time\"\n)\n\n" +
			"var _, _, _ = fmt.Print, os.Exit, time.Sleep\n\nfunc TestGuest(t *testing.T) {\n" + body + "\n}\n",
	}
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestVMGivesTheTestItsArgumentsEnvironmentAndFilesAndReturnsItsExitCode(t *testing.T) {
	k := kernel(t)
	dir := guest(t, `b, err := os.ReadFile("testdata/a/b.in")
	fmt.Printf("%s%v %q no newline", b, err, os.Getenv("X"))
	os.Exit(7)`)
	var out bytes.Buffer
	code, err := Run(t.Context(), k, Test{
		Package: dir, Modules: []string{"8021q"}, Timeout: 5 * time.Minute,
		Args: []string{"-test.run=TestGuest"}, Env: []string{"X=it's $HOME \"here\""},
	}, &out)
	if err != nil || code != 7 {
		t.Errorf("code %d, %v, want 7", code, err)
	}
	want := "hello\n<nil> \"it's $HOME \\\"here\\\"\" no newline\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
}

func TestVMThatDoesNotEndIsEnded(t *testing.T) {
	k := kernel(t)
	left := func() []string {
		dirs, err := filepath.Glob(filepath.Join(os.TempDir(), "vm*"))
		if err != nil {
			t.Fatal(err)
		}
		return dirs
	}
	t.Setenv("TMPDIR", t.TempDir())
	dir := guest(t, "time.Sleep(time.Hour)")
	_, err := Run(t.Context(), k, Test{
		Package: dir, Timeout: 15 * time.Second, Args: []string{"-test.run=TestGuest"},
	}, io.Discard)
	if err == nil || !strings.Contains(err.Error(), context.DeadlineExceeded.Error()) {
		t.Errorf("error %v, want the time to be over", err)
	}
	if dirs := left(); len(dirs) > 0 {
		t.Errorf("left behind: %v", dirs)
	}
}

func TestModulesAreLoadedAfterWhatTheyNeed(t *testing.T) {
	dep := []byte("kernel/net/llc/llc.ko:\nkernel/net/802/stp.ko: kernel/net/llc/llc.ko\n" +
		"kernel/net/bridge/bridge.ko: kernel/net/802/stp.ko kernel/net/llc/llc.ko\n" +
		"kernel/x/a-b.ko.xz: kernel/net/llc/llc.ko\n")
	for _, test := range []struct {
		names, want []string
		err         string
	}{
		{names: nil},
		{names: []string{"bridge", "llc", "a_b"}, want: []string{"kernel/net/llc/llc.ko", "kernel/net/802/stp.ko",
			"kernel/net/bridge/bridge.ko", "kernel/x/a-b.ko.xz"}},
		{names: []string{"wireguard"}, err: "has no module wireguard"},
	} {
		got, err := loadOrder(dep, test.names)
		if fmt.Sprint(err) != test.err && (err != nil || test.err != "") {
			t.Errorf("%v: error %v, want %q", test.names, err, test.err)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%v (-want +got):\n%s", test.names, diff)
		}
	}
}

func TestExitCodeIsFoundHoweverTheOutputIsCut(t *testing.T) {
	const all = "one\r\ntwo MARK 3\nMARK 4\nlast"
	for cut := range len(all) {
		var out strings.Builder
		r := &exitReader{marker: "MARK", out: &out}
		for _, part := range []string{all[:cut], all[cut:]} {
			if _, err := r.Write([]byte(part)); err != nil {
				t.Fatal(err)
			}
		}
		r.flush()
		if !r.found || r.code != 3 || r.err != nil {
			t.Fatalf("cut at %d: code %d, found: %t, %v", cut, r.code, r.found, r.err)
		}
		if diff := cmp.Diff("one\ntwo \nMARK 4\nlast\n", out.String()); diff != "" {
			t.Fatalf("cut at %d (-want +got):\n%s", cut, diff)
		}
	}
}

// The archive is one that another program can read.
func TestInitramfsIsACpioArchive(t *testing.T) {
	if _, err := exec.LookPath("cpio"); err != nil {
		t.Skip("needs cpio")
	}
	dir := t.TempDir()
	c := contents{busybox: filepath.Join(dir, "b"), binary: filepath.Join(dir, "b"), testdata: filepath.Join(dir, "none"), marker: "MARK"}
	if err := os.WriteFile(c.busybox, []byte("x"), 0o755); err != nil {
		t.Fatal(err)
	}
	var archive bytes.Buffer
	if err := c.write(&archive); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("cpio", "-t", "--quiet")
	cmd.Stdin = &archive
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	want := "bin\ndev\nproc\nsys\ntmp\nmodules\ntest\ndev/console\nbin/busybox\ntest/test\ninit\n"
	if diff := cmp.Diff(want, string(out)); diff != "" {
		t.Errorf("contents (-want +got):\n%s", diff)
	}
}
