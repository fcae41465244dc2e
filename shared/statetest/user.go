package statetest

import (
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// require is the environment variable under which nothing may be skipped.
const require = "VIPOD_REQUIRE_NETNS"

// Root skips the test if it does not run as root, and fails it instead where
// VIPOD_REQUIRE_NETNS=1 says that nothing may be skipped. Such a test's name
// begins with TestNetns.
func Root(t testing.TB) {
	t.Helper()
	if os.Geteuid() == 0 {
		return
	}
	if os.Getenv(require) == "1" {
		t.Fatal("needs root")
	}
	t.Skip("needs root")
}

// As runs f under the given uid and without capabilities, on a thread of its
// own, of which the uid is a property. Goroutines that f starts run as before.
func As(t testing.TB, uid int, f func()) {
	t.Helper()
	Root(t)
	onThread(t, func() error {
		// The raw call: the library's changes all threads.
		_, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, uintptr(uid), uintptr(uid), uintptr(uid))
		if errno != 0 {
			return errno
		}
		return nil
	}, f)
}

// WithTmpfs runs f in a mount namespace in which a tmpfs of the given size in
// bytes, such as "64k", is mounted on dir.
func WithTmpfs(t testing.TB, dir, size string, f func()) {
	t.Helper()
	Root(t)
	onThread(t, func() error {
		if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
			return err
		}
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			return err
		}
		return unix.Mount("tmpfs", dir, "tmpfs", 0, "size="+size)
	}, f)
}

func onThread(t testing.TB, change func() error, f func()) {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		if err := change(); err != nil {
			done <- err
			return
		}
		defer close(done)
		f()
	}()
	if err := <-done; err != nil {
		t.Fatalf("changing a thread's privilege: %v", err)
	}
}
