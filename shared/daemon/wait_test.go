package daemon

import (
	"testing"

	"github.com/vipod/vipod/shared/bootclock"
	"github.com/vipod/vipod/shared/ownership"
	"github.com/vipod/vipod/shared/sock"
)

func TestNobodyWaitsLongerThanTheStopOrderAllows(t *testing.T) {
	dir := t.TempDir()
	s := stopper{stateDir: dir, elector: sock.NewClient(dir, ownership.Elector), start: bootclock.Now() - stopWait - 1}
	if leave, why := s.decide(t.Context()); leave != CleanUp || why != "waited long enough" {
		t.Errorf("leave %d because %q, want CleanUp because of the time", leave, why)
	}
}
