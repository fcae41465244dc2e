// Package bootclock is the clock by which two processes of one node agree on
// a moment: CLOCK_BOOTTIME, which neither jumps nor stops in suspend, and the
// boot id that says whose clock it is.
package bootclock

import (
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Now returns the time since boot.
func Now() time.Duration {
	var ts unix.Timespec
	// clock_gettime fails only for an unknown clock or a bad pointer.
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic(fmt.Sprintf("reading CLOCK_BOOTTIME: %v", err))
	}
	return time.Duration(ts.Nano())
}

// ID returns the id of this boot, random(4).
func ID() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("reading boot id: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}
