package faults

import (
	"context"
	"errors"
)

// canary is a table that looks like one of vipod's and is not.
const canary = `table inet vip_canary {
	set vips { type ipv4_addr; elements = { 192.0.2.1 } }
	chain input { type filter hook input priority 10; ip daddr @vips counter accept; }
}
`

// canaries puts objects on every node that are much like vipod's and are
// somebody else's: every snapshot has them, so each case shows that they are
// let alone.
func (w *World) canaries(ctx context.Context) error {
	var errs []error
	for _, node := range w.Nodes() {
		for _, command := range []string{
			"ip link add vip-canary type veth peer name canary",
			"ip link set vip-canary alias vipods:default:web up",
			"ip link set canary up",
			"ip addr add 192.0.2.1/32 dev vip-canary",
			"ip addr add 192.0.2.2/32 dev vip-canary preferred_lft 0",
			"ip addr add 2001:db8:ffff::1/128 dev vip-canary nodad",
			"ip route add 192.0.2.8/32 dev vip-canary table 198 proto static",
			"ip rule add from 192.0.2.8 table 198 priority 100",
		} {
			errs = append(errs, w.in(ctx, node, command))
		}
		errs = append(errs, w.script(ctx, node, canary))
	}
	return errors.Join(errs...)
}
