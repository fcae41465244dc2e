package desired

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/vipod/vipod/egressd/internal/plan"
	"github.com/vipod/vipod/egressd/internal/tunnel"
	"github.com/vipod/vipod/shared/schema"
)

// Tunnel is a tunnel and what documents want of it.
type Tunnel struct {
	tunnel.Tunnel
	// Keys are the documents that name its VIP.
	Keys []string
	// Grants are those that are needed.
	Grants []schema.GrantName
	// Used says that this node may use it: some document is active, none
	// drains, and all grants are held.
	Used bool
}

// TunnelOf returns the tunnel by which the address is reached, nil for none.
func (w *Wanted) TunnelOf(ip netip.Addr) *Tunnel { return w.tunnels[ip] }

// Tunnels are those that this node may use, and the names of those that it may
// not as far as documents tell.
func (w *Wanted) Tunnels() (used []tunnel.Tunnel, idle map[string]bool) {
	idle = map[string]bool{}
	for _, t := range w.tunnels {
		if t.Used {
			used = append(used, t.Tunnel)
		} else if len(t.Keys) > 0 {
			idle[t.Name] = true
		}
	}
	return used, idle
}

// Permissions say from which ports tunnels may send, and for how long.
func (w *Wanted) Permissions(grants schema.Grants, now time.Duration) map[uint16]time.Duration {
	ports := map[uint16]time.Duration{}
	for _, t := range w.tunnels {
		if !t.Used {
			continue
		}
		left := forEver
		for _, g := range t.Grants {
			if g != schema.GrantNone {
				left = min(left, grants.Left(g, now))
			}
		}
		if left > 0 {
			ports[t.Port] = left
		}
	}
	return ports
}

// forEver is for how long a tunnel may send that needs no grant; it is given
// anew at every renewal.
const forEver = time.Hour

// wireguard fills in the table of that name, and finds which tunnels may be
// used. A tunnel is used by all documents that name its VIP together: it goes
// when the last has gone, or when one of them is to be silent.
func (w *Wanted) wireguard(in Input) {
	w.tunnels = map[netip.Addr]*Tunnel{}
	for _, t := range in.Tunnels {
		w.tunnels[t.VIP.Addr()] = &Tunnel{Tunnel: t}
	}
	silent := map[*Tunnel]bool{}
	for key, vip := range in.VIPs {
		for _, a := range vip.Addresses {
			t := w.tunnels[a.IP]
			if t == nil || vip.WireGuard == nil {
				continue
			}
			t.Keys = append(t.Keys, key)
			switch vip.State {
			case schema.StateActive:
				t.Used = true
				t.Grants = append(t.Grants, vip.Grant)
				silent[t] = silent[t] || vip.Grant != schema.GrantNone && !in.Held[vip.Grant]
			case schema.StateDraining:
				silent[t] = true
			}
		}
	}
	table := plan.Table{}
	for _, t := range w.tunnels {
		if t.Used = t.Used && !silent[t]; t.Used {
			put(table, t, in.VIPs)
		}
	}
	if len(table) > 0 {
		w.Desired.Tables[plan.Wireguard] = table
	}
}

// put adds what comes through a tunnel.
func put(table plan.Table, t *Tunnel, vips map[string]schema.VIP) {
	mark, ip, f := itoa(int(t.Mark())), t.VIP.Addr(), family(t.VIP.Addr())
	table.Put(plan.Tunnels, t.Name, "")
	table.Put(plan.Marks, t.Name, mark)
	table.Put(plan.Marked, mark, "")
	table.Put(plan.Fenced, itoa(int(t.Port)), "")
	table.Put(plan.Reached+f, t.Name+" . "+ip.String(), "")
	for _, key := range t.Keys {
		if vips[key].State != schema.StateActive {
			continue
		}
		for _, forward := range vips[key].WireGuard.Forwards {
			door := fmt.Sprintf("%s . %s", ip, portKey(forward.Port))
			table.Put(plan.Doors+f, door, doorID(key, forward.Port))
			putTargets(table, door, f, forward)
		}
	}
}

// doorID is the id of a port: a key is a namespace, a dot and a name, and a
// namespace has no dot.
func doorID(key string, p schema.Port) string {
	namespace, name, _ := strings.Cut(key, ".")
	return tunnel.ID(namespace, name, p.Port, string(p.Protocol))
}

// putTargets shares a port's elements between its endpoints of the family.
func putTargets(table plan.Table, door, f string, forward schema.Forward) {
	var targets []netip.AddrPort
	for _, b := range forward.Backends {
		if family(b.Addr()) == f && len(targets) < plan.TargetCount {
			targets = append(targets, b)
		}
	}
	if len(targets) == 0 {
		return
	}
	for i := range plan.TargetCount {
		table.Put(plan.Targets+f, door+" . "+itoa(i), Socket(targets[i%len(targets)]))
	}
	if !forward.KeepSource {
		return
	}
	for _, b := range targets {
		table.Put(plan.Kept+f, fmt.Sprintf("%s . %s", b.Addr(), portKey(schema.Port{Protocol: forward.Protocol, Port: b.Port()})), "")
	}
}
