package vm

import "testing"

// tunnelModules are those of tunnels and of nftables.
var tunnelModules = []string{"veth", "wireguard", "nf_tables", "nft_ct", "nft_nat", "nft_masq", "nft_numgen", "nft_chain_nat",
	"nft_reject_inet", "nf_conntrack", "nf_conntrack_netlink"}

func TestVMTunnelsAreWhatTheModelSaysOnDebiansKernel(t *testing.T) {
	pass(t, "../../egressd/internal/wg", tunnelModules, "TestNetnsTunnelsMatchTheModel", "TestNetnsLinkOfSomebodyElseStays")
}

func TestVMTunnelsServeOnDebiansKernel(t *testing.T) {
	pass(t, "../../egressd", tunnelModules, "TestNetnsTunnel")
}

func TestVMTablesAreWhatTheModelSaysOnDebiansKernel(t *testing.T) {
	pass(t, "../../egressd/internal/kernel", tunnelModules, "TestNetnsKernelIsAsTheModel")
}
