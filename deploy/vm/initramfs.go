package vm

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// archive writes a cpio archive in the "newc" format, which is what the kernel
// unpacks as its first file system (Documentation/driver-api/early-userspace/
// buffer-format.rst).
type archive struct {
	w   io.Writer
	ino int
	err error
}

// File types of stat(2).
const (
	typeDir  = 0o040000
	typeFile = 0o100000
	typeChar = 0o020000
)

// entry writes one entry; the first error stays.
func (a *archive) entry(name string, mode int, major, minor int, data []byte) {
	if a.err != nil {
		return
	}
	a.ino++
	head := fmt.Sprintf("070701%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%s\x00",
		a.ino, mode, 0, 0, 1, 0, len(data), 0, 0, major, minor, len(name)+1, 0, name)
	_, a.err = io.WriteString(a.w, head+strings.Repeat("\x00", pad(len(head))))
	if a.err == nil {
		_, a.err = a.w.Write(data)
	}
	if a.err == nil {
		_, a.err = io.WriteString(a.w, strings.Repeat("\x00", pad(len(data))))
	}
}

func pad(n int) int { return (4 - n%4) % 4 }

func (a *archive) dir(name string)               { a.entry(name, typeDir|0o755, 0, 0, nil) }
func (a *archive) file(name string, data []byte) { a.entry(name, typeFile|0o755, 0, 0, data) }

// copy adds a file of the host.
func (a *archive) copy(name, from string) {
	data, err := os.ReadFile(from)
	if err != nil {
		a.err = errors.Join(a.err, err)
		return
	}
	a.file(name, data)
}

// tree adds a directory of the host; one that is not there is none.
func (a *archive) tree(name, from string) {
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if to := filepath.Join(name, rel); d.IsDir() {
			a.dir(to)
		} else if d.Type().IsRegular() {
			a.copy(to, path)
		}
		return a.err
	})
	if !errors.Is(err, fs.ErrNotExist) {
		a.err = errors.Join(a.err, err)
	}
}

func (a *archive) close() error {
	a.entry("TRAILER!!!", 0, 0, 0, nil)
	return a.err
}

// contents is what the machine is made of.
type contents struct {
	busybox, binary, testdata string
	modules                   []string
	files                     map[string]string
	args, env                 []string
	marker                    string
}

// write writes the initramfs.
func (c contents) write(w io.Writer) error {
	a := &archive{w: w}
	for _, d := range []string{"bin", "dev", "proc", "sys", "tmp", "modules", "test"} {
		a.dir(d)
	}
	a.entry("dev/console", typeChar|0o600, 5, 1, nil) // for the kernel's first process
	a.copy("bin/busybox", c.busybox)
	a.copy("test/test", c.binary)
	a.tree("test/testdata", c.testdata)
	for _, to := range slices.Sorted(maps.Keys(c.files)) {
		a.copy(to, c.files[to])
	}
	var names []string
	for _, m := range c.modules {
		names = append(names, filepath.Base(m))
		a.copy("modules/"+filepath.Base(m), m)
	}
	a.file("init", []byte(c.init(names)))
	if err := a.close(); err != nil {
		return fmt.Errorf("writing initramfs: %w", err)
	}
	return nil
}

// init returns the script that is the machine's first process. The test's
// output goes to the second serial line, the kernel's to the first.
func (c contents) init(modules []string) string {
	var s strings.Builder
	s.WriteString(`#!/bin/busybox sh
b=/bin/busybox
$b mount -t proc proc /proc
$b mount -t sysfs sysfs /sys
$b mount -t devtmpfs devtmpfs /dev
$b mount -t tmpfs tmpfs /tmp
$b stty -F /dev/ttyS1 raw
cd /test
`)
	for _, m := range modules {
		fmt.Fprintf(&s, "$b insmod /modules/%s || echo cannot load %s >/dev/ttyS1\n", m, m)
	}
	for _, e := range c.env {
		fmt.Fprintf(&s, "export %s\n", quote(e))
	}
	s.WriteString("/test/test")
	for _, a := range c.args {
		s.WriteString(" " + quote(a))
	}
	fmt.Fprintf(&s, " </dev/null >/dev/ttyS1 2>&1\necho %s $? >/dev/ttyS1\n$b poweroff -f\n", quote(c.marker))
	return s.String()
}

// quote makes one word of the shell of a string.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// staticBusybox finds a busybox that needs no libraries.
func staticBusybox() (string, error) {
	path, err := exec.LookPath("busybox")
	if err != nil {
		return "", fmt.Errorf("looking for busybox (package busybox-static): %w", err)
	}
	f, err := elf.Open(path)
	if err != nil {
		return "", fmt.Errorf("looking at %s: %w", path, err)
	}
	defer func() { _ = f.Close() }() // only read
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return "", fmt.Errorf("%s needs libraries, install the package busybox-static", path)
		}
	}
	return path, nil
}
