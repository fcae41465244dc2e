package lab

import (
	"context"
	"fmt"
	"net/netip"

	"golang.org/x/sync/errgroup"
)

// makeLAN makes the bridge, and the machines that are not nodes.
func (l *Lab) makeLAN(ctx context.Context) error {
	lan := l.NS("lan")
	if err := addNamespace(ctx, lan); err != nil {
		return err
	}
	router := RouterAddrs()
	err := ipBatch(ctx, lan,
		"link add br0 type bridge stp_state 0 forward_delay 0 mcast_snooping 0",
		addrAdd(router.V4, LAN4, "br0"), addrAdd(router.V6, LAN6, "br0"),
		"link set br0 up")
	if err != nil {
		return fmt.Errorf("making the LAN: %w", err)
	}
	if err := l.plug(ctx, "cp", APIAddrs()); err != nil {
		return err
	}
	if err := l.makeCutTable(ctx); err != nil {
		return err
	}
	return l.plug(ctx, "client", ClientAddrs())
}

// makeNodes makes the nodes, with routes to each other's pods, a relay to the
// API server and one pod each.
func (l *Lab) makeNodes(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for i, node := range l.Nodes() {
		group.Go(func() error {
			err := l.plug(ctx, node, lanAddrs(10+i+1), "ipv4/ip_forward=1",
				"ipv6/conf/all/forwarding=1", "ipv6/conf/default/forwarding=1")
			if err != nil {
				return err
			}
			if err := ipBatch(ctx, l.NS(node), l.podRoutes(node)...); err != nil {
				return fmt.Errorf("adding routes on %s: %w", node, err)
			}
			if err := l.StartRelay(ctx, node); err != nil {
				return err
			}
			return l.addPod(ctx, fmt.Sprintf("p%d", i+1), node)
		})
	}
	return group.Wait()
}

// plug makes a machine on the LAN, with a default route.
func (l *Lab) plug(ctx context.Context, role string, addrs Addrs, sysctls ...string) error {
	ns := l.NS(role)
	if err := addNamespace(ctx, ns, sysctls...); err != nil {
		return err
	}
	// The cable's two ends: eth0 there, and a port of the bridge with the
	// machine's name.
	err := ipBatch(ctx, l.NS("lan"),
		fmt.Sprintf("link add %s type veth peer name eth0 netns %s", role, ns),
		fmt.Sprintf("link set %s master br0 up", role))
	if err != nil {
		return fmt.Errorf("plugging %s into the LAN: %w", role, err)
	}
	if err := ipBatch(ctx, ns, lanSetup(addrs)...); err != nil {
		return fmt.Errorf("configuring %s: %w", role, err)
	}
	return nil
}

// lanSetup is what a machine on the LAN has on eth0. It can be applied again.
func lanSetup(addrs Addrs) []string {
	router := RouterAddrs()
	return []string{
		"link set eth0 up",
		addrAdd(addrs.V4, LAN4, "eth0"), addrAdd(addrs.V6, LAN6, "eth0"),
		fmt.Sprintf("route replace default via %s dev eth0", router.V4),
		fmt.Sprintf("route replace default via %s dev eth0", router.V6),
	}
}

func addrAdd(addr netip.Addr, network netip.Prefix, dev string) string {
	line := fmt.Sprintf("addr replace %s/%d dev %s", addr, network.Bits(), dev)
	if addr.Is6() {
		line += " nodad"
	}
	return line
}

// podRoutes are a node's routes to the pods of the others.
func (l *Lab) podRoutes(node string) []string {
	var routes []string
	for i, other := range l.Nodes() {
		if other == node {
			continue
		}
		via, pods := lanAddrs(10+i+1), podRangeOf(i+1)
		routes = append(routes,
			fmt.Sprintf("route replace %s via %s", pods.prefix4, via.V4),
			fmt.Sprintf("route replace %s via %s", pods.prefix6, via.V6))
	}
	return routes
}
