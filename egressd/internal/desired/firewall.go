package desired

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/vipod/vipod/egressd/internal/plan"
	"github.com/vipod/vipod/shared/schema"
)

// firewall fills in the table of that name. An address is guarded before it
// comes and until its document goes, whatever the state: there is no moment at
// which it is reached on another port. One that several Services share is
// guarded if one of them wants that, and open for the ports of all.
func (w *Wanted) firewall(in Input) {
	guarded := map[netip.Addr]bool{}
	for _, vip := range in.VIPs {
		if vip.Firewall == nil || vip.Firewall.Open {
			continue
		}
		for _, a := range vip.Addresses {
			guarded[a.IP] = true
		}
	}
	if len(guarded) == 0 {
		return
	}
	t := plan.Table{}
	for ip := range guarded {
		t.Put(plan.Guarded+family(ip), ip.String(), "")
	}
	for _, key := range slices.Sorted(maps.Keys(in.VIPs)) {
		vip := in.VIPs[key]
		if vip.Firewall == nil {
			continue
		}
		for _, a := range vip.Addresses {
			for _, p := range vip.Firewall.Ports {
				if guarded[a.IP] {
					t.Put(plan.Open+family(a.IP), a.IP.String()+" . "+portKey(p), "")
				}
			}
		}
	}
	w.Tables[plan.Firewall] = t
}

// balance fills in the table of that name, from the control plane's document.
// Backends share the slots evenly. Without a backend there is no translation:
// the API server of this node, if there is one, answers itself.
func (w *Wanted) balance(in Input) {
	vip, ok := in.VIPs[schema.ControlPlaneKey]
	if !ok {
		return
	}
	w.Known[plan.OwnerControlPlane] = true
	here := vip.State == schema.StateActive || vip.State == schema.StateDraining
	if vip.Balance == nil || !here || vip.Grant != schema.GrantNone && !in.Held[vip.Grant] {
		return
	}
	t := plan.Table{}
	for _, f := range []string{"4", "6"} {
		var backends []netip.AddrPort
		for _, b := range vip.Balance.Backends {
			if family(b.Addr()) == f {
				backends = append(backends, b)
			}
		}
		if len(backends) == 0 {
			continue
		}
		for _, a := range vip.Addresses {
			if family(a.IP) == f {
				t.Put(plan.Frontends+f, Socket(netip.AddrPortFrom(a.IP, vip.Balance.Port)), "")
				t.Put(plan.FrontPorts+f, itoa(int(vip.Balance.Port)), "")
			}
		}
		for _, b := range backends {
			t.Put(plan.Backends+f, Socket(b), "")
		}
		for i := range plan.SlotCount {
			t.Put(plan.Slots+f, itoa(i), Socket(backends[i%len(backends)]))
		}
	}
	if len(t) > 0 {
		w.Tables[plan.Balance] = t
	}
}

// Socket returns an address and port as elements have them.
func Socket(a netip.AddrPort) string { return a.Addr().String() + " . " + itoa(int(a.Port())) }

// Frontend says whether connections to the address are spread over backends.
func (w *Wanted) Frontend(a netip.AddrPort) bool {
	_, ok := w.Tables[plan.Balance][plan.Frontends+family(a.Addr())][Socket(a)]
	return ok
}
