package e2e

import (
	"fmt"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/vipod/vipod/deploy/lab"
	"github.com/vipod/vipod/shared/ownership"
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

// restartElectors kills the elector of every node and starts it with more in its
// environment.
func (e *env) restartElectors(vars ...string) {
	e.t.Helper()
	for _, node := range e.Nodes() {
		e.stop(node, unix.SIGKILL, ownership.Elector)
		e.must(e.StartDaemon(e.ctx, node, ownership.Elector, vars...))
		delete(e.down, daemonOn{node, ownership.Elector})
	}
}

func TestE2EControlPlanesAddressIsLentToItsName(t *testing.T) {
	e := begin(t)
	server := e.serveDHCP()
	e.restartElectors("address=api.example.com", "vip_ddns=true")
	t.Cleanup(func() { e.restartElectors() })
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
