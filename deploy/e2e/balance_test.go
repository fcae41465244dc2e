package e2e

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/vipod/vipod/deploy/lab"
)

// closed returns an error unless nobody answers at the port, not even with a
// refusal.
func (e *env) closed(to netip.AddrPort) error {
	ctx, cancel := context.WithTimeout(e.ctx, 300*time.Millisecond)
	defer cancel()
	c, err := e.Dial(ctx, "client", "tcp", to.String())
	var timeout net.Error
	switch {
	case err == nil:
		return errors.Join(fmt.Errorf("%s is open", to), c.Close())
	case errors.As(err, &timeout) && timeout.Timeout():
		return nil
	}
	return fmt.Errorf("%s: %w", to, err)
}

// connects returns an error unless a connection comes about.
func (e *env) connects(to netip.AddrPort) error {
	ctx, cancel := context.WithTimeout(e.ctx, time.Second)
	defer cancel()
	c, err := e.Dial(ctx, "client", "tcp", to.String())
	if err != nil {
		return err
	}
	return c.Close()
}

// spreadOver returns an error unless the node spreads the control plane's
// connections over the API servers of these nodes and no others.
func (e *env) spreadOver(holder string, nodes ...string) error {
	rules, err := e.Exec(e.ctx, holder, "nft", "list", "table", "inet", "vipod_balance")
	if err != nil {
		return err
	}
	wanted := map[string]bool{}
	for _, n := range nodes {
		wanted[n] = true
	}
	for _, n := range e.Nodes() {
		addrs, err := lab.NodeAddrs(n)
		if err != nil {
			return err
		}
		for _, ip := range addrs.Slice() {
			if err := want("a share of "+n, strings.Contains(string(rules), fmt.Sprintf(" : %s . %d", ip, lab.APIPort)), wanted[n]); err != nil {
				return err
			}
		}
	}
	return nil
}

func TestE2EFirewallAndSpreadingOfTheControlPlane(t *testing.T) {
	e := begin(t)
	vip, name := e.vip(), "guarded"
	for _, node := range e.Nodes() {
		e.restartWith(node, []string{"lb_enable=true", "lb_fwdmethod=local", "enable_service_security=true"}, lab.DaemonNames()...)
	}
	e.must(e.AwaitReady(e.ctx, e.Nodes()...))
	owner := e.served(name, vip)
	for _, ip := range vip.Slice() {
		e.must(e.connects(netip.AddrPortFrom(ip, 80)))
		// The node's own API server listens on every address.
		e.must(e.closed(netip.AddrPortFrom(ip, lab.APIPort)))
		e.must(e.closed(netip.AddrPortFrom(ip, 22)))
	}
	e.annotate(name, "kube-vip.io/ignore-service-security", "true")
	e.within(soon, "the Service has opted out", func() error { return e.connects(netip.AddrPortFrom(vip.V4, lab.APIPort)) })
	e.annotate(name, "kube-vip.io/ignore-service-security", "")
	e.within(soon, "the Service has opted in", func() error { return e.closed(netip.AddrPortFrom(vip.V4, lab.APIPort)) })
	_, err := e.Exec(e.ctx, owner, "nft", "delete", "table", "inet", "vipod_firewall")
	e.must(err)
	e.within(soon, "the firewall is repaired", func() error { return e.closed(netip.AddrPortFrom(vip.V6, lab.APIPort)) })

	holder := e.holder("")
	e.within(soon, "connections are spread", func() error { return e.spreadOver(holder, e.Nodes()...) })
	e.askAPI()
	all := func() error {
		for _, ip := range lab.ControlPlaneVIP().Slice() {
			if err := e.connects(netip.AddrPortFrom(ip, lab.APIPort)); err != nil {
				return err
			}
		}
		return nil
	}
	e.holds(calm, "the control plane answers", all)
	dead := e.others(holder)[0]
	e.must(e.StopRelay(e.ctx, dead))
	e.within(soon, "the dead one has no share", func() error {
		return e.spreadOver(holder, e.others(dead)...)
	})
	e.holds(calm, "the control plane answers", all)
	e.must(e.StartRelay(e.ctx, dead))
	e.within(soon, "all have a share again", func() error { return e.spreadOver(holder, e.Nodes()...) })
	e.holds(calm, "the control plane answers", all)
}
