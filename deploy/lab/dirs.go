package lab

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/vipod/vipod/shared/ownership"
)

// makeDirs makes the lab's directory:
//
//	lab.json         the options
//	bin/             BinDir, mounted here so that every uid can reach it
//	pki/             keys and certificates, kubeconfigs of root's
//	etcd/            the database
//	logs/            <role>-<process>.log
//	processes/       <role>.<process>.json
//	pods/            <pod>.json
//	<node>/state/    the daemons' state directory, a tmpfs
//	<node>/api/      kubeconfig and token of the node's elector
func (l *Lab) makeDirs() error {
	if err := writeJSON(l.path("lab.json"), l.opts); err != nil {
		return fmt.Errorf("writing the options: %w", err)
	}
	for dir, mode := range map[string]os.FileMode{
		"bin": 0o755, "pki": 0o700, "etcd": 0o700, "logs": 0o755, "processes": 0o755, "pods": 0o755,
	} {
		if err := os.Mkdir(l.path(dir), mode); err != nil {
			return fmt.Errorf("making a directory: %w", err)
		}
	}
	if err := unix.Mount(l.opts.BinDir, l.path("bin"), "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mounting %s: %w", l.opts.BinDir, err)
	}
	for _, node := range l.Nodes() {
		if err := l.makeNodeDirs(node); err != nil {
			return fmt.Errorf("making the directories of %s: %w", node, err)
		}
	}
	return nil
}

// bin returns the path of a program as processes of the lab see it.
func (l *Lab) bin(program string) string { return l.path("bin", program) }

// makeNodeDirs does what the pod's volumes and its init container do: a
// directory in memory, in it one directory per writer, owned by the writer.
func (l *Lab) makeNodeDirs(node string) error {
	state := l.StateDir(node)
	if err := os.MkdirAll(state, 0o755); err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", state, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755,size=64m"); err != nil {
		return fmt.Errorf("mounting %s: %w", state, err)
	}
	if err := makeStateDirs(state); err != nil {
		return err
	}
	return makeOwned(l.path(node, "api"), 0o700, ownership.UID(ownership.Elector))
}

// makeStateDirs makes one directory per writer.
func makeStateDirs(state string) error {
	for _, d := range ownership.Table() {
		dirs := []string{ownership.Dir(state, d.Name)}
		for _, doc := range d.Documents {
			dir := filepath.Join(dirs[0], filepath.Dir(doc.Path))
			if strings.Contains(doc.Path, "/") && !slices.Contains(dirs, dir) {
				dirs = append(dirs, dir)
			}
		}
		for _, dir := range dirs {
			if err := makeOwned(dir, ownership.DirMode, d.UID); err != nil {
				return err
			}
		}
	}
	return nil
}

// ResetState empties a node's state directory, as a new pod finds it. None of
// the node's daemons may be running.
func (l *Lab) ResetState(node string) error {
	procs, err := l.daemons(node, nil)
	if err != nil {
		return err
	}
	for _, p := range procs {
		if p.Alive() {
			return fmt.Errorf("emptying the state directory of %s: %s runs", node, p.Name)
		}
	}
	entries, err := os.ReadDir(l.StateDir(node))
	if err != nil {
		return fmt.Errorf("emptying the state directory of %s: %w", node, err)
	}
	for _, e := range entries {
		if err := os.RemoveAll(filepath.Join(l.StateDir(node), e.Name())); err != nil {
			return fmt.Errorf("emptying the state directory of %s: %w", node, err)
		}
	}
	return makeStateDirs(l.StateDir(node))
}

// makeOwned makes a directory of a daemon.
func makeOwned(dir string, mode os.FileMode, uid int) error {
	if err := os.Mkdir(dir, mode); err != nil {
		return err
	}
	if err := os.Chown(dir, uid, ownership.Group); err != nil {
		return err
	}
	return os.Chmod(dir, mode) // whatever the umask
}
