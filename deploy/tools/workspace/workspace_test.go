package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// thisRepository is seen from this package's folder.
const thisRepository = repository("../../..")

func TestModulesLinkOnlyWhatTheirImageMayHold(t *testing.T) {
	modules, err := thisRepository.modules()
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(modules, "shared") {
		t.Fatalf("modules are %v, want shared among them", modules)
	}
	for _, m := range modules {
		if slices.Contains(foreign, m) {
			continue
		}
		linked, err := thisRepository.linked(m)
		if err != nil {
			t.Fatal(err)
		}
		for _, err := range violations(m, linked) {
			t.Error(err)
		}
	}
}

func TestViolations(t *testing.T) {
	for _, test := range []struct {
		name, module, pkg string
		refused           bool
	}{
		{"own package", "vipd", home + "vipd/internal/plan", false},
		{"program itself", "vipd", home + "vipd", false},
		{"shared", "vipd", home + "shared/schema", false},
		{"another daemon", "vipd", home + "arpd/internal/plan", true},
		{"shared importing a daemon", "shared", home + "vipd/internal/plan", true},
		{"client-go in elector", "elector", "k8s.io/client-go/rest", false},
		{"client-go in shared", "shared", "k8s.io/client-go/rest", true},
		{"client-go in vipd", "vipd", "k8s.io/client-go/rest", true},
		{"nftables in vipd", "vipd", "github.com/google/nftables", false},
		{"nftables in arpd", "arpd", "github.com/google/nftables/expr", true},
		{"netlink in metricsd", "metricsd", "github.com/vishvananda/netlink", true},
		{"netlink's folder in metricsd", "metricsd", "github.com/vishvananda/netlink/nl", true},
		{"like netlink by name only", "metricsd", "github.com/vishvananda/netlinkx", false},
		{"gobgp in anything", "vipd", "github.com/osrg/gobgp/v4/pkg/server", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			if errs := violations(test.module, []string{test.pkg}); (len(errs) > 0) != test.refused {
				t.Errorf("violations(%s, %s) = %v, want refused %v", test.module, test.pkg, errs, test.refused)
			}
		})
	}
}

// newRepository makes a git repository of two modules.
func newRepository(t *testing.T) repository {
	t.Helper()
	root := t.TempDir()
	files := map[string]string{
		"a/go.mod":     "module example.com/a\n\ngo 1.25.0\n",
		"a/main.go":    "package main\n\nimport _ \"example.com/a/b\"\n\nfunc main() {}\n",
		"a/b/b.go":     "package b\n\nimport _ \"fmt\"\n",
		"a/c/c.go":     "package c\n",
		"lib/l/go.mod": "module example.com/l\n\ngo 1.26.0\n",
		"lib/l/l.go":   "package l\n",
	}
	for name, content := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "."}} {
		cmd := exec.Command("git", args...)
		cmd.Dir = root
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	return repository(root)
}

func TestFixMakesVerifyContent(t *testing.T) {
	r := newRepository(t)
	want := map[string]string{
		"go.work":        "go 1.26.0\n\nuse (\n\t./a\n\t./lib/l\n)\n",
		"a/deps.txt":     "example.com/a\nexample.com/a/b\n",
		"lib/l/deps.txt": "example.com/l\n",
	}
	for _, what := range []string{"work", "deps"} {
		if err := run(r, what, false); err == nil || !strings.Contains(err.Error(), "make fix-"+what) {
			t.Errorf("verifying %s without its file: error %v, want one that says how to repair it", what, err)
		}
		if err := run(r, what, true); err != nil {
			t.Fatal(err)
		}
		if err := run(r, what, false); err != nil {
			t.Errorf("verifying %s after the repair: %v", what, err)
		}
	}
	for name, content := range want {
		have, err := os.ReadFile(filepath.Join(string(r), name))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(string(have), content) {
			t.Errorf("%s is %q, want it to end in %q", name, have, content)
		}
	}
}

func TestVerifyNamesTheDifference(t *testing.T) {
	for _, test := range []struct{ name, have, want, difference string }{
		{"missing line", "a\n", "a\nb\n", "lacks b"},
		{"surplus line", "a\nb\n", "a\n", "has b"},
		{"order", "b\na\n", "a\nb\n", "other order"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := firstDifference(test.have, test.want); got != test.difference {
				t.Errorf("firstDifference = %q, want %q", got, test.difference)
			}
		})
	}
}
