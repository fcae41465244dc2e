package kernel_test

import (
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/vipod/vipod/linkd/internal/kernel"
	"github.com/vipod/vipod/linkd/internal/kernel/kerneltest"
	"github.com/vipod/vipod/linkd/internal/plan"
	"github.com/vipod/vipod/shared/netsafe/nstest"
)

func TestFakeKernelMatchesTheModel(t *testing.T) {
	kerneltest.Run(t, []string{plan.VLAN, plan.Macvlan}, func(*testing.T) kernel.Kernel {
		return kerneltest.New(plan.Link{Name: kerneltest.Parent, Index: 2, MTU: 1400, MAC: "02:00:00:00:00:02", Admin: true})
	})
}

func TestNetnsKernelMatchesTheModel(t *testing.T) {
	kerneltest.Run(t, kerneltest.Kinds(t), func(t *testing.T) kernel.Kernel {
		ns := nstest.New(t)
		nstest.Veth(t, ns, kerneltest.Parent, ns, "v1")
		link, err := netlink.LinkByName(kerneltest.Parent)
		if err == nil {
			err = netlink.LinkSetMTU(link, 1400)
		}
		if err != nil {
			t.Fatal(err)
		}
		return kernel.Linux{}
	})
}
