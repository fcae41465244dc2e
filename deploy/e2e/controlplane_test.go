package e2e

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vipod/vipod/deploy/lab"
	"github.com/vipod/vipod/shared/ownership"
)

// holder waits until another node than this one holds the control plane's
// Lease and has its addresses, and returns it.
func (e *env) holder(other string) (node string) {
	e.t.Helper()
	e.within(takeover+soon, fmt.Sprintf("the control plane is on a node other than %q", other), func() (err error) {
		if node, err = e.ControlPlaneOwner(e.ctx); err != nil {
			return err
		}
		if node == "" || node == other {
			return fmt.Errorf("it is %q", node)
		}
		_, ok4 := e.address(node, lab.ControlPlaneVIP().V4)
		_, ok6 := e.address(node, lab.ControlPlaneVIP().V6)
		return want("in the kernel of "+node, ok4 && ok6, true)
	})
	return node
}

// askAPI waits until the API server answers at the control plane's addresses.
func (e *env) askAPI() {
	e.t.Helper()
	for _, ip := range lab.ControlPlaneVIP().Slice() {
		_, err := e.AwaitAPI(e.ctx, netip.AddrPortFrom(ip, lab.APIPort))
		e.must(err)
	}
}

func TestE2EControlPlaneAnswersThroughItsLease(t *testing.T) {
	e := begin(t)
	node := e.holder("")
	e.askAPI()
	for _, ip := range lab.ControlPlaneVIP().Slice() {
		e.must(e.only(node, ip))
		e.inKernel(node, ip)
	}
	lease := e.lease(controlPlane)
	if got := time.Duration(*lease.Spec.LeaseDurationSeconds) * time.Second; got != leaseDuration {
		t.Errorf("the Lease lasts %v, want %v", got, leaseDuration)
	}
	e.within(soon, "the Lease is renewed", func() error {
		if !e.lease(controlPlane).Spec.RenewTime.After(lease.Spec.RenewTime.Time) {
			return errors.New("its time has not changed")
		}
		return nil
	})
}

func TestE2EControlPlaneLeavesANodeWhoseAPIServerDies(t *testing.T) {
	for _, c := range []struct {
		name string
		// elsewhere: the elector's own API server is another one, so that it
		// can still say that it goes.
		elsewhere bool
	}{{"and-its-elector-is-deaf", false}, {"and-its-elector-is-not", true}} {
		t.Run(c.name, func(t *testing.T) {
			e := begin(t)
			node := e.holder("")
			if c.elsewhere {
				e.stop(node, unix.SIGKILL, ownership.Elector)
				e.must(e.StartDaemon(e.ctx, node, ownership.Elector,
					fmt.Sprintf("kubernetes_addr=https://%s", netip.AddrPortFrom(lab.APIAddrs().V4, lab.APIPort))))
				t.Cleanup(func() {
					e.stop(node, unix.SIGKILL, ownership.Elector)
					e.start(node, ownership.Elector)
				})
				e.must(e.AwaitReady(e.ctx, node))
				node = e.holder("")
			}
			var took time.Duration
			e.during(lab.ControlPlaneVIP(), func() {
				begin := time.Now()
				e.must(e.StopRelay(e.ctx, node))
				e.holder(node)
				e.askAPI()
				took = time.Since(begin)
				e.within(soon, "the old holder lets go", func() error {
					return want("holders", len(e.holders(lab.ControlPlaneVIP().V4)), 1)
				})
			}).changedHands(1)
			t.Logf("the API server answers again after %v", took)
			if took > takeover {
				t.Errorf("the API server answers again after %v, want %v", took, takeover)
			}
		})
	}
}

// kubeVIPDuration is kube-vip's vip_leaseduration where its own manifests set
// it.
const kubeVIPDuration = 15 * time.Second

func TestE2EControlPlaneOfKubeVIPIsRespectedUntilItExpires(t *testing.T) {
	e := beside(t)
	e.holder("")
	var written, gone, before time.Time
	s := e.during(lab.ControlPlaneVIP(), func() {
		e.changeLease(controlPlane, func(l *coordinationv1.Lease) {
			holder, seconds, now := "kube-vip-host", int32(kubeVIPDuration/time.Second), metav1.NowMicro()
			l.Spec.HolderIdentity, l.Spec.LeaseDurationSeconds = &holder, &seconds
			l.Spec.RenewTime, l.Spec.AcquireTime = &now, &now
		})
		written = time.Now()
		e.within(soon, "the addresses are nowhere", func() error {
			return firstError(e.nowhere(lab.ControlPlaneVIP().V4), e.nowhere(lab.ControlPlaneVIP().V6))
		})
		gone = time.Now()
		// It was written a little before the time that is counted from.
		before = written.Add(kubeVIPDuration - 2*time.Second)
		e.holds(time.Until(before), "kube-vip keeps the Lease", func() error {
			return errors.Join(e.nowhere(lab.ControlPlaneVIP().V4),
				want("the holder", *e.lease(controlPlane).Spec.HolderIdentity, "kube-vip-host"))
		})
		e.holder("kube-vip-host")
		e.askAPI()
	})
	for _, seen := range s.seen {
		for _, f := range seen.Claims {
			if f.Time.After(gone) && f.Time.Before(before) {
				t.Fatalf("claimed while kube-vip had it: %s", f)
			}
		}
	}
}
