package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vipod/vipod/deploy/lab"
)

func TestE2ELeaseThatIsMeddledWithRecovers(t *testing.T) {
	for _, c := range []struct {
		name   string
		meddle func(*env, string)
	}{
		{"deleted", func(e *env, lease string) {
			e.must(e.Client().CoordinationV1().Leases(lab.Namespace).Delete(e.ctx, lease, metav1.DeleteOptions{}))
		}},
		{"emptied", func(e *env, lease string) {
			e.changeLease(lease, func(l *coordinationv1.Lease) { delete(l.Annotations, annotationClaims) })
		}},
		{"nonsense", func(e *env, lease string) {
			e.changeLease(lease, func(l *coordinationv1.Lease) { l.Annotations[annotationClaims] = "}{\x00" })
		}},
		{"held-by-another", func(e *env, lease string) {
			e.changeLease(lease, func(l *coordinationv1.Lease) {
				holder := "somebody-else"
				l.Spec.HolderIdentity = &holder
			})
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := begin(t)
			vip, name := e.vip(), "lease-"+c.name
			owner := e.served(name, vip)
			e.during(vip, func() {
				c.meddle(e, "vipod-"+owner)
				time.Sleep(settle)
				took := e.within(takeover+soon, "the addresses are back", func() error { return e.recovered(name, vip) })
				e.answers(vip.V4, 80)
				e.answers(vip.V6, 80)
				t.Logf("back after %v", took)
				e.holds(calm, "it stays", func() error { return e.recovered(name, vip) })
			}).changedHands(1)
			e.unharmed()
		})
	}
}

// recovered returns nil when a Service's owner has its addresses and a Lease
// that says so.
func (e *env) recovered(name string, vip lab.Addrs) error {
	owner, err := e.Owner(e.ctx, name)
	if err != nil || owner == "" {
		return errors.Join(err, errors.New("no owner"))
	}
	lease, err := e.Client().CoordinationV1().Leases(lab.Namespace).Get(e.ctx, "vipod-"+owner, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, ip := range vip.Slice() {
		if claims := lease.Annotations[annotationClaims]; !strings.Contains(claims, ip.String()) {
			return fmt.Errorf("the Lease of %s claims %s", owner, claims)
		}
		if err := e.only(owner, ip); err != nil {
			return err
		}
	}
	return want("the holder", *lease.Spec.HolderIdentity, owner)
}
