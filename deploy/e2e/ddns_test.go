package e2e

import (
	"fmt"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/vipod/vipod/deploy/lab"
)

// lentControlPlane waits until another node than this one serves the control
// plane at an address that the DHCP server lent.
func (e *env) lentControlPlane(other string) (node string, ip netip.Addr) {
	e.t.Helper()
	e.within(takeover+soon, fmt.Sprintf("a node other than %q has a lent address of the control plane", other), func() (err error) {
		if node, err = e.ControlPlaneOwner(e.ctx); err != nil {
			return err
		}
		if node == "" || node == other {
			return fmt.Errorf("it is %q", node)
		}
		for _, prefix := range e.tagged(node) {
			if lent4.Contains(prefix.Addr()) {
				ip = prefix.Addr()
				return nil
			}
		}
		return fmt.Errorf("%s has none", node)
	})
	_, err := e.AwaitAPI(e.ctx, netip.AddrPortFrom(ip, lab.APIPort))
	e.must(err)
	e.must(e.only(node, ip))
	return node, ip
}

func TestE2EControlPlanesAddressIsLentToItsName(t *testing.T) {
	e := begin(t)
	for _, node := range e.Nodes() {
		e.restartWith(node, []string{"address=api.example.com", "vip_ddns=true"}, lab.DaemonNames()...)
	}
	server := e.serveDHCP()
	owner, ip := e.lentControlPlane("")
	if n := server.said("client provides name: api"); n == 0 {
		t.Error("the server was not told the name")
	}
	e.stop(owner, unix.SIGTERM)
	if left := e.macvlans(owner); len(left) > 0 {
		t.Errorf("%s has %q left", owner, left)
	}
	next, again := e.lentControlPlane(owner)
	if again != ip {
		t.Errorf("%s has %s, on %s it was %s", next, again, owner, ip)
	}
	if n := server.said("DHCPRELEASE"); n != 0 {
		t.Errorf("released %d times by a move", n)
	}
}
