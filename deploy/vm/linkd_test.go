package vm

import "testing"

// linkModules are those that linkd's links need on Debian's kernel.
var linkModules = []string{"veth", "macvlan", "8021q", "bridge"}

func TestVMLinksAreWhatTheModelSaysOnDebiansKernel(t *testing.T) {
	pass(t, "../../linkd/internal/kernel", linkModules, "TestNetnsKernelMatchesTheModel")
}

func TestVMVLANsAreSharedAdoptedRefusedAndMadeAgainOnDebiansKernel(t *testing.T) {
	pass(t, "../../linkd/internal/reconcile", linkModules, "TestNetnsOwnershipOnTheRealKernel")
}
