package arpd

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/vipod/vipod/shared/netsafe/nstest"
	"github.com/vipod/vipod/shared/schema"
)

// These tests have a real host at the other end: its kernel answers.

func TestNetnsAHostThatHasTheAddressAnswersTheProbe(t *testing.T) {
	w := newKernelWorld(t)
	w.peer.Add(t, far, vip4.String()+"/32")
	w.peer.Add(t, far, vip6.String()+"/128")
	e := newElector(t)
	start(t, e, w)
	e.vip("default.four", schema.StateStandby, vip4)
	e.vip("default.six", schema.StateStandby, vip6)
	e.vip("default.free", schema.StateStandby, vip4.Next(), vip6.Next())
	for _, key := range []string{"default.four", "default.six"} {
		e.condition(t, key, schema.ConditionUnclaimed, schema.False)
		if s, _ := e.status(key); s.Addresses[0].ConflictMAC != stranger.String() {
			t.Errorf("%s: answered by %q", key, s.Addresses[0].ConflictMAC)
		}
	}
	e.condition(t, "default.free", schema.ConditionUnclaimed, schema.True)
}

func TestNetnsAHostThatTakesTheAddressIsAConflict(t *testing.T) {
	if _, err := exec.LookPath("arping"); err != nil {
		if os.Getenv(nstest.Require) == "1" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	w := newKernelWorld(t)
	e := newElector(t)
	e.vip("default.web", schema.StateActive, vip4)
	w.add(t, vip4, protocol)
	start(t, e, w)
	e.condition(t, "default.web", schema.ConditionAnnounced, schema.True)
	time.Sleep(1100 * time.Millisecond) // the grace of a second
	w.peer.Add(t, far, vip4.String()+"/32")
	cmd := exec.Command("arping", "-U", "-c", "1", "-I", far, vip4.String())
	must(t, w.peer.Do(cmd.Run))
	e.condition(t, "default.web", schema.ConditionConflict, schema.True)
	if s, _ := e.status("default.web"); s.Addresses[0].ConflictMAC != stranger.String() {
		t.Errorf("conflict with %q", s.Addresses[0].ConflictMAC)
	}
}
