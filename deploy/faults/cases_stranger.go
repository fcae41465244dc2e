package faults

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/vipod/vipod/deploy/lab"
)

// stranger is a machine on the LAN that knows nothing of vipod.
const stranger = "stranger"

// conflicts are faults in which somebody else has an address.
func conflicts() []Case {
	return []Case{
		{Name: "a stranger claims the address", Settle: time.Second, Fault: contest,
			// What goes to the stranger is lost, until the next defence; who of
			// vipod's nodes claims the address is not.
			Want: Expectation{Outcome: Stays, Bound: 15 * time.Second, Strangers: []string{stranger}, Rate: recoverRate}},
	}
}

// contest is a machine that takes a VIP of a served Service and says so once a
// second for longer than the time between two defences.
func contest(ctx context.Context, w *World) error {
	ns := w.NS(stranger)
	if err := w.host(ctx, "netns", "add", ns); err != nil {
		return err
	}
	w.After(func(ctx context.Context) error { return w.host(ctx, "netns", "del", ns) })
	err := errors.Join(
		w.in(ctx, lanRole, fmt.Sprintf("ip link add %s type veth peer name %s netns %s", stranger, iface, ns)),
		w.in(ctx, lanRole, "ip link set "+stranger+" master br0 up"),
		w.in(ctx, stranger, "ip link set eth0 up"),
		w.in(ctx, stranger, fmt.Sprintf("ip addr add %s/%d dev eth0", w.VIP.V4, lab.LAN4.Bits())),
	)
	if err != nil {
		return err
	}
	return w.in(ctx, stranger, fmt.Sprintf("arping -q -U -w 12 -I eth0 %s", w.VIP.V4))
}
