package kernel_test

import (
	"testing"

	"github.com/vipod/vipod/egressd/internal/kernel"
	"github.com/vipod/vipod/egressd/internal/kernel/kerneltest"
	"github.com/vipod/vipod/shared/netsafe/nstest"
)

func TestFakeKernelIsAsTheModel(t *testing.T) {
	kerneltest.Run(t, func(*testing.T) kernel.Kernel { return &kerneltest.Fake{} })
}

func TestNetnsKernelIsAsTheModel(t *testing.T) {
	kerneltest.Run(t, func(t *testing.T) kernel.Kernel {
		nstest.New(t)
		k := kernel.NewLinux("")
		t.Cleanup(func() {
			if err := k.Close(); err != nil {
				t.Error(err)
			}
		})
		return k
	})
}
