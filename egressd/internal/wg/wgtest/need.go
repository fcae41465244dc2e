package wgtest

import (
	"os"
	"testing"

	"github.com/vipod/vipod/egressd/internal/genl"
)

// Require is the variable that makes a kernel without WireGuard a failure: it
// is set in the virtual machine, which is where these tests run in CI.
const Require = "VIPOD_REQUIRE_WIREGUARD"

// Need skips a test on a kernel without WireGuard.
func Need(t *testing.T) {
	t.Helper()
	f, err := genl.Open("wireguard", 1)
	if err == nil {
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		return
	}
	if os.Getenv(Require) != "" {
		t.Fatalf("%s is set: %v", Require, err)
	}
	t.Skipf("needs WireGuard, see TestVM in deploy/vm: %v", err)
}
