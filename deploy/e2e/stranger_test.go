package e2e

import (
	"fmt"
	"net/netip"
	"os/exec"

	"github.com/vipod/vipod/deploy/lab"
)

// stranger is a machine on the LAN that knows nothing of vipod.
const stranger = "stranger"

// newStranger makes the machine. It does duplicate address detection, as
// most do.
func (e *env) newStranger() (mac string) {
	e.t.Helper()
	ns := e.NS(stranger)
	e.netns("add", ns)
	e.t.Cleanup(func() { e.netns("del", ns) })
	e.run("lan", fmt.Sprintf("ip link add %s type veth peer name eth0 netns %s", stranger, ns))
	e.run("lan", fmt.Sprintf("ip link set %s master br0 up", stranger))
	e.run(stranger, "ip link set lo up")
	e.run(stranger, "ip link set eth0 up")
	e.run(stranger, "ip addr add 198.51.100.102/24 dev eth0")
	return e.mac(stranger).String()
}

// netns makes or removes a namespace; its name is one that goes with the lab.
func (e *env) netns(verb, name string) {
	e.t.Helper()
	if out, err := exec.CommandContext(e.ctx, "ip", "netns", verb, name).CombinedOutput(); err != nil {
		e.t.Errorf("ip netns %s %s: %v: %s", verb, name, err, out)
	}
}

// takes gives the stranger an address, whoever else has it.
func (e *env) takes(ip netip.Addr) {
	e.t.Helper()
	line := fmt.Sprintf("ip addr add %s/%d dev eth0", ip, lab.LAN4.Bits())
	if ip.Is6() {
		line = fmt.Sprintf("ip addr add %s/%d dev eth0 nodad", ip, lab.LAN6.Bits())
	}
	e.run(stranger, line)
}

// leaves takes it away.
func (e *env) leaves(ip netip.Addr) {
	e.t.Helper()
	bits := lab.LAN4.Bits()
	if ip.Is6() {
		bits = lab.LAN6.Bits()
	}
	e.run(stranger, fmt.Sprintf("ip addr del %s/%d dev eth0", ip, bits))
}
