package selfcheck_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/vipod/vipod/shared/ownership"
	"github.com/vipod/vipod/shared/selfcheck"
	"github.com/vipod/vipod/shared/statetest"
)

// expect wants every part in the error, and no error for none.
func expect(t *testing.T, err error, parts ...string) {
	t.Helper()
	if len(parts) == 0 {
		if err != nil {
			t.Errorf("error %v, want none", err)
		}
		return
	}
	for _, part := range parts {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("error %v, want one with %q", err, part)
		}
	}
}

func TestCompareCapabilities(t *testing.T) {
	const admin, raw, bind, chown = 1 << unix.CAP_NET_ADMIN, 1 << unix.CAP_NET_RAW, 1 << unix.CAP_NET_BIND_SERVICE, 1 << unix.CAP_CHOWN
	for _, test := range []struct {
		name                 string
		effective, permitted uint64
		names                []string
		want                 []string
	}{
		{"none wanted, none held", 0, 0, nil, nil},
		{"one", admin, admin, []string{"NET_ADMIN"}, nil},
		{"two", admin | raw, admin | raw, []string{"NET_RAW", "NET_ADMIN"}, nil},
		{"missing", 0, 0, []string{"NET_ADMIN"}, []string{"NET_ADMIN is missing"}},
		{"permitted only", 0, admin, []string{"NET_ADMIN"}, []string{"NET_ADMIN is missing"}},
		{"one of two missing", raw, raw, []string{"NET_ADMIN", "NET_RAW"}, []string{"NET_ADMIN is missing"}},
		{"surplus", admin | raw | bind, admin | raw | bind, []string{"NET_RAW"}, []string{"must not have: NET_ADMIN, NET_BIND_SERVICE"}},
		{"surplus permitted", 0, raw, nil, []string{"must not have: NET_RAW"}},
		{"surplus without a name", chown, chown, nil, []string{"must not have: 0x1"}},
		{"wrong one", raw, raw, []string{"NET_ADMIN"}, []string{"NET_ADMIN is missing", "must not have: NET_RAW"}},
		{"all", 1<<41 - 1, 1<<41 - 1, []string{"NET_RAW"}, []string{"must not have: NET_ADMIN, NET_BIND_SERVICE, 0x"}},
		{"unknown name", 0, 0, []string{"FLY"}, []string{"FLY has no number"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			expect(t, selfcheck.CompareCapabilities(test.effective, test.permitted, test.names), test.want...)
		})
	}
}

func TestEveryCapabilityOfTheTableIsKnown(t *testing.T) {
	for _, d := range ownership.Table() {
		for _, name := range d.Capabilities {
			if _, ok := selfcheck.Capability(name); !ok {
				t.Errorf("%s needs %s, which has no number here", d.Name, name)
			}
		}
	}
}

func TestNetnsCheckUnderTheRightUser(t *testing.T) {
	stateDir := newStateDir(t)
	statetest.As(t, ownership.UID(ownership.Elector), func() { // a change of uid drops all capabilities
		expect(t, selfcheck.Check(stateDir, ownership.Elector))
	})
	statetest.As(t, ownership.UID(ownership.Vipd), func() {
		expect(t, selfcheck.Check(stateDir, ownership.Vipd), "NET_ADMIN is missing", "vipd: no such file")
		expect(t, selfcheck.Check(stateDir, ownership.Elector), "running as uid 65502, want 65501")
	})
}

func TestNetnsCheckAsRootNamesEverything(t *testing.T) {
	expect(t, selfcheck.Check(newStateDir(t), ownership.Metricsd), "running as uid 0, want 65507", "must not have", "no such file")
}

func TestUnknownDaemonIsAnError(t *testing.T) {
	expect(t, selfcheck.Check(t.TempDir(), "nobody"), "not in the ownership table")
}

// newStateDir makes a state directory with elector's own.
func newStateDir(t *testing.T) string {
	t.Helper()
	statetest.Root(t)
	root := t.TempDir()
	own := filepath.Join(root, ownership.Elector)
	err := errors.Join(os.Mkdir(own, 0o750), os.Chmod(own, ownership.DirMode),
		os.Chown(own, ownership.UID(ownership.Elector), ownership.Group))
	// Every parent must let others through.
	for dir := root; dir != "/"; dir = filepath.Dir(dir) {
		if st, statErr := os.Stat(dir); statErr == nil && st.Mode()&0o001 == 0 {
			err = errors.Join(err, os.Chmod(dir, 0o755))
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return root
}

func TestNetnsCheckDir(t *testing.T) {
	row, _ := ownership.Lookup(ownership.Elector)
	for _, test := range []struct {
		name   string
		change func(dir string) error
		want   []string
	}{
		{"as made", func(string) error { return nil }, nil},
		{"with the group's bit of an emptyDir", func(dir string) error { return os.Chmod(dir, os.ModeSetgid|0o750) }, nil},
		{"missing", os.Remove, []string{"no such file"}},
		{"open to all", func(dir string) error { return os.Chmod(dir, 0o755) }, []string{"has mode 0755, want 0750"}},
		{"writable for the group", func(dir string) error { return os.Chmod(dir, 0o770) }, []string{"has mode 0770"}},
		{"closed to the group", func(dir string) error { return os.Chmod(dir, 0o700) }, []string{"has mode 0700"}},
		{"of another user", func(dir string) error { return os.Chown(dir, 0, -1) }, []string{"belongs to uid 0, want 65501"}},
		{"of another group", func(dir string) error { return os.Chown(dir, -1, 0) }, []string{"belongs to group 0, want 65500"}},
		{"a link", func(dir string) error { return errors.Join(os.Rename(dir, dir+"2"), os.Symlink(dir+"2", dir)) },
			[]string{"is not a directory"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := filepath.Join(newStateDir(t), ownership.Elector)
			if err := test.change(dir); err != nil {
				t.Fatal(err)
			}
			expect(t, selfcheck.CheckDir(dir, row), test.want...)
		})
	}
}
