package kernel_test

import (
	"os/exec"
	"testing"

	"github.com/vipod/vipod/egressd/internal/kernel"
	"github.com/vipod/vipod/egressd/internal/plan"
	"github.com/vipod/vipod/shared/netsafe/nstest"
)

// People look at tables with nft, of which older versions give up on rules
// that its language cannot say.
func TestNetnsNftListsEveryTable(t *testing.T) {
	for _, kind := range plan.Kinds {
		t.Run(string(kind), func(t *testing.T) {
			nstest.New(t)
			k := kernel.NewLinux("")
			t.Cleanup(func() { _ = k.Close() })
			if err := k.Do([]plan.Op{plan.AddTable{Kind: kind}}); err != nil {
				t.Fatal(err)
			}
			out, err := exec.Command("nft", "list", "ruleset").CombinedOutput()
			if err != nil {
				t.Errorf("%v: %s", err, out)
			}
			t.Logf("%s", out)
		})
	}
}
