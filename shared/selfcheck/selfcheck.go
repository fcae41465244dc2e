// Package selfcheck compares the process with its row in the ownership table
// at start, so that a wrong container says so in one sentence instead of
// failing somewhere later.
package selfcheck

import (
	"errors"
	"fmt"
	"os"
	"sort"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/vipod/vipod/shared/ownership"
)

// Capability numbers of capabilities(7) that the table uses.
var capabilities = map[string]uint{
	"NET_BIND_SERVICE": unix.CAP_NET_BIND_SERVICE,
	"NET_ADMIN":        unix.CAP_NET_ADMIN,
	"NET_RAW":          unix.CAP_NET_RAW,
}

// Capability returns the number of a capability that the table names.
func Capability(name string) (number uint, ok bool) {
	number, ok = capabilities[name]
	return number, ok
}

// Check returns everything that is wrong with how the named daemon was
// started: uid, capabilities, its directory.
func Check(stateDir, daemon string) error {
	row, ok := ownership.Lookup(daemon)
	if !ok {
		return fmt.Errorf("checking %s: not in the ownership table", daemon)
	}
	return errors.Join(UID(daemon), checkCapabilities(row), checkDir(ownership.Dir(stateDir, daemon), row))
}

// UID returns an error if the process does not run as the named daemon.
func UID(daemon string) error {
	if uid, want := os.Geteuid(), ownership.UID(daemon); uid != want {
		return fmt.Errorf("running as uid %d, want %d (securityContext.runAsUser)", uid, want)
	}
	return nil
}

func checkCapabilities(row ownership.Daemon) error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return fmt.Errorf("reading capabilities: %w", err)
	}
	return compareCapabilities(
		uint64(data[1].Effective)<<32|uint64(data[0].Effective),
		uint64(data[1].Permitted)<<32|uint64(data[0].Permitted), row.Capabilities)
}

// compareCapabilities wants exactly the named capabilities: one that is not
// effective breaks the daemon, a surplus one, though only permitted, is a
// privilege nobody meant to give.
func compareCapabilities(effective, permitted uint64, names []string) error {
	var want uint64
	var errs []error
	for _, name := range names {
		n, ok := capabilities[name]
		if !ok {
			errs = append(errs, fmt.Errorf("capability %s has no number here", name))
			continue
		}
		bit := uint64(1) << n
		want |= bit
		if effective&bit == 0 {
			errs = append(errs, fmt.Errorf("capability %s is missing (securityContext.capabilities.add, "+
				"and a file capability on the binary for a process that is not root)", name))
		}
	}
	if surplus := (effective | permitted) &^ want; surplus != 0 {
		errs = append(errs, fmt.Errorf("has capabilities it must not have: %s (securityContext.capabilities.drop)",
			capabilityNames(surplus)))
	}
	return errors.Join(errs...)
}

func capabilityNames(set uint64) string {
	var names []string
	for name, n := range capabilities {
		if set&(1<<n) != 0 {
			names = append(names, name)
			set &^= 1 << n
		}
	}
	sort.Strings(names)
	if set != 0 {
		names = append(names, fmt.Sprintf("%#x", set))
	}
	return strings.Join(names, ", ")
}

func checkDir(dir string, row ownership.Daemon) error {
	var st unix.Stat_t
	if err := unix.Lstat(dir, &st); err != nil {
		return fmt.Errorf("looking at %s: %w", dir, err)
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFDIR:
		return fmt.Errorf("%s is not a directory", dir)
	case int(st.Uid) != row.UID:
		return fmt.Errorf("%s belongs to uid %d, want %d", dir, st.Uid, row.UID)
	case int(st.Gid) != ownership.Group:
		return fmt.Errorf("%s belongs to group %d, want %d", dir, st.Gid, ownership.Group)
	case st.Mode&0o777 != ownership.DirMode:
		return fmt.Errorf("%s has mode %#o, want %#o", dir, st.Mode&0o777, ownership.DirMode)
	}
	return nil
}
