package vm

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const qemu = "qemu-system-x86_64"

// Test is what a machine is started for.
type Test struct {
	// Package is the directory of the Go package, with its go.mod above it.
	Package string
	// Args are the arguments of the test binary, such as -test.run=X.
	Args []string
	// Env are further variables of its environment, as NAME=value.
	Env []string
	// Modules are the kernel modules to load; what they need is loaded too.
	Modules []string
	// Files are copied into the machine: there by their absolute paths, which
	// are given without the first slash, here by any.
	Files map[string]string
	// Timeout is for the machine, from its start to its end.
	Timeout time.Duration
}

// Missing returns an error that names what this machine lacks to run another.
func Missing() error {
	var errs []error
	for program, in := range map[string]string{
		qemu: "qemu-system-x86", "depmod": "kmod", "dpkg": "dpkg", "apt-get": "apt",
	} {
		if _, err := exec.LookPath(program); err != nil {
			errs = append(errs, fmt.Errorf("%w (package %s)", err, in))
		}
	}
	_, err := staticBusybox()
	return errors.Join(append(errs, err)...)
}

// Run builds the package's tests, runs them in a machine and writes what they
// print to out. It returns their exit code, or an error if it is not known.
func Run(ctx context.Context, k Kernel, test Test, out io.Writer) (code int, err error) {
	dir, err := os.MkdirTemp("", "vm")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	c := contents{
		binary: filepath.Join(dir, "test"), testdata: filepath.Join(test.Package, "testdata"),
		files: test.Files, args: test.Args, env: append([]string{"HOME=/tmp", "PATH=/bin"}, test.Env...),
		marker: "VIPOD-VM-EXIT-" + rand.Text(),
	}
	if c.busybox, err = staticBusybox(); err != nil {
		return 0, err
	}
	if c.modules, err = k.modules(test.Modules); err != nil {
		return 0, err
	}
	if err := build(ctx, test.Package, c.binary); err != nil {
		return 0, err
	}
	if err := writeFile(filepath.Join(dir, "initramfs"), c.write); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, test.Timeout)
	defer cancel()
	return boot(ctx, k, dir, c.marker, out)
}

// build makes a static test binary of the package as it is for itself.
func build(ctx context.Context, dir, binary string) error {
	cmd := exec.CommandContext(ctx, "go", "test", "-c", "-o", binary, ".")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOOS=linux", "GOARCH=amd64")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building the tests of %s: %w: %s", dir, err, bytes.TrimSpace(out))
	}
	return nil
}

func writeFile(path string, write func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}

// boot starts the machine and waits for its end.
func boot(ctx context.Context, k Kernel, dir, marker string, out io.Writer) (int, error) {
	console := filepath.Join(dir, "console")
	cmd := exec.CommandContext(ctx, qemu,
		"-accel", "tcg", "-cpu", "max", "-m", "512", "-nodefaults", "-no-user-config", "-no-reboot",
		"-display", "none", "-monitor", "none", "-nic", "none",
		"-serial", "file:"+console, "-serial", "stdio",
		"-kernel", k.image(), "-initrd", filepath.Join(dir, "initramfs"),
		"-append", "console=ttyS0 quiet panic=-1 rdinit=/init")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // no machine without its test
	cmd.WaitDelay = time.Second
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	lines := &exitReader{marker: marker, out: out}
	cmd.Stdout = lines
	err := cmd.Run()
	lines.flush()
	switch {
	case lines.err != nil:
		return 0, lines.err
	case lines.found:
		return lines.code, nil
	case ctx.Err() != nil:
		err = errors.Join(err, ctx.Err())
	}
	return 0, fmt.Errorf("the machine ended without a result: %w: %s\n%s", err, complaint.Bytes(), tail(console))
}

// exitReader passes lines on until one of them says how the test ended.
type exitReader struct {
	marker string
	out    io.Writer
	rest   []byte
	found  bool
	code   int
	err    error
}

// Write implements io.Writer.
func (r *exitReader) Write(p []byte) (int, error) {
	r.rest = append(r.rest, p...)
	for {
		line, rest, ok := bytes.Cut(r.rest, []byte("\n"))
		if !ok {
			return len(p), nil
		}
		r.rest = rest
		r.line(strings.TrimSuffix(string(line), "\r"))
	}
}

func (r *exitReader) line(line string) {
	before, code, ok := strings.Cut(line, r.marker+" ")
	if ok && !r.found {
		r.found = true
		if r.code, r.err = strconv.Atoi(strings.TrimSpace(code)); r.err != nil {
			r.err = fmt.Errorf("reading the exit code: %w", r.err)
		}
		line = before // output without a newline at its end
	}
	if line == "" && ok {
		return
	}
	if _, err := fmt.Fprintln(r.out, line); err != nil && r.err == nil {
		r.err = fmt.Errorf("passing on output: %w", err)
	}
}

// flush passes on a last line without an end.
func (r *exitReader) flush() {
	if len(r.rest) > 0 {
		r.line(string(r.rest))
	}
}

// tail returns the last lines of the machine's console.
func tail(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return "no console: " + err.Error()
	}
	defer func() { _ = f.Close() }() // only read
	var last []string
	for lines := bufio.NewScanner(f); lines.Scan(); {
		last = append(last[max(0, len(last)-29):], lines.Text())
	}
	return strings.Join(last, "\n")
}
