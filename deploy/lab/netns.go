package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// netnsDir is where iproute2 keeps named network namespaces.
const netnsDir = "/run/netns"

// nsName returns the name of a role's namespace.
func nsName(lab, role string) string { return "vl-" + lab + "-" + role }

// nsPath returns the file that holds a namespace open.
func nsPath(ns string) string { return filepath.Join(netnsDir, ns) }

// enter runs f on a thread that is in the named namespace. The thread is
// thrown away, so that no other goroutine ever runs on it.
func enter(ns string, f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() != unix.Getpid() {
			done <- setnsAndRun(ns, f)
			return
		}
		// The main thread cannot be thrown away. While it is held here,
		// another goroutine gets another thread.
		defer runtime.UnlockOSThread()
		done <- enter(ns, f)
	}()
	return <-done
}

func setnsAndRun(ns string, f func() error) error {
	file, err := os.Open(nsPath(ns))
	if err != nil {
		return fmt.Errorf("opening namespace %s: %w", ns, err)
	}
	defer file.Close()
	if err := unix.Setns(int(file.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("entering namespace %s: %w", ns, err)
	}
	return f()
}

// run runs a command and returns its output; an error quotes what it printed.
func run(ctx context.Context, stdin string, argv ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Stdin = strings.NewReader(stdin)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Run(); err != nil {
		text := bytes.TrimSpace(append(errOut.Bytes(), out.Bytes()...))
		return out.Bytes(), fmt.Errorf("running %s: %w: %s", strings.Join(argv, " "), err, text)
	}
	return out.Bytes(), nil
}

// ipBatch runs lines of ip(8) in a namespace, all in one process.
func ipBatch(ctx context.Context, ns string, lines ...string) error {
	script := strings.Join(lines, "\n") + "\n"
	if _, err := run(ctx, script, "ip", "-n", ns, "-batch", "-"); err != nil {
		return fmt.Errorf("in %q: %w", lines, err)
	}
	return nil
}

// addNamespace makes a namespace whose interfaces come up without duplicate
// address detection and listen to no router.
func addNamespace(ctx context.Context, ns string, sysctls ...string) error {
	if _, err := run(ctx, "", "ip", "netns", "add", ns); err != nil {
		return fmt.Errorf("adding namespace %s: %w", ns, err)
	}
	sysctls = append([]string{
		"ipv6/conf/all/accept_dad=0", "ipv6/conf/default/accept_dad=0",
		"ipv6/conf/all/accept_ra=0", "ipv6/conf/default/accept_ra=0",
		"ipv6/conf/all/autoconf=0", "ipv6/conf/default/autoconf=0",
		"ipv4/conf/all/rp_filter=0", "ipv4/conf/default/rp_filter=0",
	}, sysctls...)
	if err := enter(ns, func() error { return setSysctls(sysctls) }); err != nil {
		return err
	}
	return ipBatch(ctx, ns, "link set lo up")
}

// setSysctls writes below /proc/sys/net as the calling thread sees it.
func setSysctls(settings []string) error {
	for _, s := range settings {
		key, value, _ := strings.Cut(s, "=")
		if err := os.WriteFile(filepath.Join("/proc/sys/net", key), []byte(value), 0); err != nil {
			return fmt.Errorf("setting %s: %w", s, err)
		}
	}
	return nil
}

// namespacesOf lists the namespaces of a lab, the removed ones left out.
func namespacesOf(lab string) ([]string, error) {
	entries, err := os.ReadDir(netnsDir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing namespaces: %w", err)
	}
	var names []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), nsName(lab, "")) {
			names = append(names, e.Name())
		}
	}
	return names, nil
}
