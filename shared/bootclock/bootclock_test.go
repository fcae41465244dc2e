package bootclock_test

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/vipod/vipod/shared/bootclock"
)

func TestNowIsTheTimeSinceBoot(t *testing.T) {
	before := bootclock.Now()
	data, err := os.ReadFile("/proc/uptime") // proc(5): seconds, from the same clock
	if err != nil {
		t.Fatal(err)
	}
	after := bootclock.Now()
	seconds, err := strconv.ParseFloat(strings.Fields(string(data))[0], 64)
	if err != nil {
		t.Fatal(err)
	}
	uptime := time.Duration(seconds * float64(time.Second))
	if uptime < before-time.Second || uptime > after+time.Second {
		t.Errorf("uptime %s is not between %s and %s", uptime, before, after)
	}
	if after < before {
		t.Errorf("the clock went back from %s to %s", before, after)
	}
}

func TestIDIsOneOfThisBoot(t *testing.T) {
	first, err := bootclock.ID()
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`).MatchString(first) {
		t.Errorf("id %q is not a UUID", first)
	}
	if second, err := bootclock.ID(); err != nil || second != first {
		t.Errorf("second id %q, error %v, want %q", second, err, first)
	}
}
