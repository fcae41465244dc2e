package e2e

import (
	"errors"
	"strings"
	"testing"

	"github.com/vipod/vipod/deploy/lab"
	"github.com/vipod/vipod/shared/ownership"
)

func TestE2EMachineWithAnotherNodesNameServesNothingBesideIt(t *testing.T) {
	e := begin(t)
	vip, name := e.vip(), "twin"
	owner := e.served(name, vip)
	twin := e.others(owner)[0]
	e.during(vip, func() {
		e.restartWith(twin, []string{"vip_nodename=" + owner}, lab.DaemonNames()...)
		e.within(takeover+soon, "it says why it serves nothing", func() error {
			answer, err := e.Ask(e.ctx, twin, ownership.Elector, "/status")
			return errors.Join(err, want("in its status", strings.Contains(string(answer), "is node "+owner+" as well"), true))
		})
		e.holds(leaseDuration+calm, "no address is on two nodes", func() error {
			if left := e.tagged(twin); len(left) > 0 {
				t.Errorf("the twin has %v", left)
			}
			return firstError(e.only(owner, vip.V4), e.only(owner, vip.V6))
		})
	}).changedHands(0)
	e.stays(name, owner)
}
