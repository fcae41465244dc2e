package kernel_test

import (
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/vipod/vipod/linkd/internal/kernel"
	"github.com/vipod/vipod/linkd/internal/kernel/kerneltest"
	"github.com/vipod/vipod/linkd/internal/plan"
	"github.com/vipod/vipod/shared/netsafe/nstest"
)

// A client that learned another VIP at the macvlan's hardware address would
// lose it when the macvlan moves to another node.
func TestNetnsMacvlanAnswersForItsOwnAddressesOnly(t *testing.T) {
	if !slices.Contains(kerneltest.Kinds(t), plan.Macvlan) {
		t.Fatal("this kernel has no macvlan")
	}
	node, client := nstest.New(t), nstest.Peer(t)
	nstest.Veth(t, node, kerneltest.Parent, client, "c0")
	node.Add(t, kerneltest.Parent, "198.51.100.11/24")
	client.Add(t, "c0", "198.51.100.1/24")
	add := kerneltest.Add(plan.Macvlan, nil)
	if err := (kernel.Linux{}).Do(add); err != nil {
		t.Fatal(err)
	}
	const onParent, onMacvlan = "198.51.100.200", "198.51.100.201"
	node.Add(t, kerneltest.Parent, onParent+"/32")
	node.Add(t, add.Name, onMacvlan+"/32")

	sender := regexp.MustCompile(`\[(.*?)\]`)
	ask := func(ip string) (macs []string) {
		t.Helper()
		// It fails when nobody answers, which the MACs say as well.
		var out []byte
		_ = client.Do(func() (err error) {
			out, err = exec.Command("arping", "-c", "4", "-w", "1", "-I", "c0", ip).CombinedOutput()
			return err
		})
		for _, m := range sender.FindAllStringSubmatch(string(out), -1) {
			macs = append(macs, strings.ToLower(m[1]))
		}
		return macs
	}
	if macs := ask(onMacvlan); !slices.Contains(macs, add.MAC) {
		t.Errorf("%s of the macvlan is answered for by %q, want %s among them", onMacvlan, macs, add.MAC)
	}
	if macs := ask(onParent); len(macs) == 0 || slices.Contains(macs, add.MAC) {
		t.Errorf("%s of the parent is answered for by %q, want the parent alone and not %s", onParent, macs, add.MAC)
	}
}
