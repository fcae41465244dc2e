package kerneltest

import (
	"errors"
	"os"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/vipod/vipod/linkd/internal/plan"
	"github.com/vipod/vipod/shared/netsafe/nstest"
)

// RequireVLAN is the environment variable by which a machine says that its
// kernel has VLANs, as the one of the tests in a virtual machine does.
const RequireVLAN = "VIPOD_REQUIRE_VLAN"

// Kinds returns the kinds of links that the kernel at hand can make: macvlans,
// and VLANs where it has them.
func Kinds(t *testing.T) []string {
	t.Helper()
	kinds := []string{plan.Macvlan}
	if os.Getenv(RequireVLAN) == "1" {
		return append(kinds, plan.VLAN)
	}
	t.Run("probe", func(t *testing.T) {
		ns := nstest.New(t)
		nstest.Veth(t, ns, "v0", ns, "v1")
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.ParentIndex = "probe", ns.Index(t, "v0")
		err := netlink.LinkAdd(&netlink.Vlan{LinkAttrs: attrs, VlanId: 1, VlanProtocol: netlink.VLAN_PROTOCOL_8021Q})
		switch {
		case err == nil:
			kinds = append(kinds, plan.VLAN)
		case !errors.Is(err, unix.EOPNOTSUPP):
			t.Fatal(err)
		}
	})
	return kinds
}
