package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// downTimeout is how long killed processes may take to end.
const downTimeout = 10 * time.Second

// Down removes everything that is the lab's: processes, namespaces, mounts
// and files. It goes on past errors and can be repeated.
func (l *Lab) Down() error {
	err := Down(l.name)
	l.children.Wait()
	return err
}

// Down removes a lab by its name, also one that was never fully up.
func Down(name string) error {
	if err := checkName(name); err != nil {
		return err
	}
	l := &Lab{name: name}
	ctx, cancel := context.WithTimeout(context.Background(), downTimeout)
	defer cancel()
	err := errors.Join(
		l.killRecorded(ctx),
		l.killStrays(ctx),
		l.removeNamespaces(ctx),
		unmountBelow(l.path()),
	)
	if err == nil {
		err = l.removeFiles()
	}
	_ = os.Remove(root) // stays while another lab is in it
	if err != nil {
		return fmt.Errorf("removing lab %s: %w", name, err)
	}
	return nil
}

// removeFiles removes the lab's directory, never through a mount: BinDir is
// mounted there.
func (l *Lab) removeFiles() error {
	points, err := mountsBelow(l.path())
	if err != nil {
		return err
	}
	if len(points) > 0 {
		return fmt.Errorf("still mounted: %q", points)
	}
	return os.RemoveAll(l.path())
}

// killRecorded kills the processes that were started for the lab. They are
// all killed before any is waited for.
func (l *Lab) killRecorded(ctx context.Context) error {
	procs, err := l.Processes()
	errs := []error{err}
	for _, p := range procs {
		errs = append(errs, p.signal(unix.SIGKILL))
	}
	for _, p := range procs {
		errs = append(errs, p.wait(ctx))
	}
	return errors.Join(errs...)
}

// killStrays kills whatever else lives in the lab's namespaces, such as what
// a test started there.
func (l *Lab) killStrays(ctx context.Context) error {
	names, err := namespacesOf(l.name)
	if err != nil {
		return err
	}
	var ids []nsID
	for _, name := range names {
		if id, err := readNSID(nsPath(name)); err == nil {
			ids = append(ids, id)
		}
	}
	// One that forks while it is killed needs another round.
	for range 10 {
		strays, err := processesIn(ids)
		if err != nil || len(strays) == 0 {
			return err
		}
		for _, p := range strays {
			if err := errors.Join(p.signal(unix.SIGKILL), p.wait(ctx)); err != nil {
				return err
			}
		}
	}
	return errors.New("processes keep appearing in its namespaces")
}

// nsID identifies a namespace.
type nsID struct{ dev, inode uint64 }

// readNSID reads it from a file that stands for the namespace.
func readNSID(path string) (nsID, error) {
	var stat unix.Stat_t
	if err := unix.Stat(path, &stat); err != nil {
		return nsID{}, err
	}
	return nsID{dev: stat.Dev, inode: stat.Ino}, nil
}

// processesIn returns the processes, other than this one, that live in one
// of the namespaces.
func processesIn(ids []nsID) ([]Process, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("listing processes: %w", err)
	}
	var found []Process
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		// The start time first: if the pid is reused in between, it no
		// longer fits and the newcomer is not touched.
		_, start, err := readStat(pid)
		if err != nil {
			continue
		}
		id, err := readNSID(fmt.Sprintf("/proc/%d/ns/net", pid))
		p := Process{Role: "?", Name: "stray", PID: pid, Start: start}
		if err == nil && slices.Contains(ids, id) && p.Alive() {
			found = append(found, p)
		}
	}
	return found, nil
}

func (l *Lab) removeNamespaces(ctx context.Context) error {
	names, err := namespacesOf(l.name)
	errs := []error{err}
	for _, name := range names {
		if _, err := run(ctx, "", "ip", "netns", "del", name); err != nil {
			errs = append(errs, fmt.Errorf("removing namespace %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

// unmountBelow unmounts everything below a directory, the innermost first.
func unmountBelow(dir string) error {
	points, err := mountsBelow(dir)
	errs := []error{err}
	for _, point := range slices.Backward(points) {
		if err := unix.Unmount(point, unix.MNT_DETACH); err != nil {
			errs = append(errs, fmt.Errorf("unmounting %s: %w", point, err))
		}
	}
	return errors.Join(errs...)
}

// mountsBelow returns the mount points below a directory in mounting order.
func mountsBelow(dir string) ([]string, error) {
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("listing mounts: %w", err)
	}
	var points []string
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		if len(fields) > 4 && strings.HasPrefix(fields[4], dir+string(filepath.Separator)) {
			points = append(points, fields[4])
		}
	}
	return points, nil
}
