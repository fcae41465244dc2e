// Package desired turns elector's documents into the tables that the plan
// works on, and says which source every connection of a pod shall have. It is
// pure; whether a document is to be believed was decided when it was read.
package desired

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/vipod/vipod/egressd/internal/plan"
	"github.com/vipod/vipod/shared/schema"
)

// Input is everything that is known from documents.
type Input struct {
	// Internal are the cluster's networks.
	Internal []netip.Prefix
	VIPs     map[string]schema.VIP
	Egress   map[string]schema.Egress
	// Held are the grants that are held now.
	Held map[schema.GrantName]bool
	// Complete says that what no document wants may go.
	Complete bool
}

// Wanted is what the documents want.
type Wanted struct {
	plan.Desired
	// Services are those with pods on this node, by key.
	Services map[string]*Service
	internal []netip.Prefix
	pods     map[netip.Addr]*Service
}

// Service is a Service whose pods leave with its VIP.
type Service struct {
	schema.Egress
	// VIP4 and VIP6 are its addresses while this node may use them, else
	// invalid.
	VIP4, VIP6 netip.Addr
	// leaving are the addresses with which connections end that are let go.
	leaving []netip.Addr
}

// Of returns what the documents want.
func Of(in Input) *Wanted {
	w := &Wanted{
		Desired:  plan.Desired{Tables: plan.Tables{}, Sweep: in.Complete, Known: map[string]bool{}},
		Services: map[string]*Service{}, internal: reduce(in.Internal), pods: map[netip.Addr]*Service{},
	}
	w.egress(in)
	w.firewall(in)
	w.balance(in)
	return w
}

// egress fills in the table of that name.
func (w *Wanted) egress(in Input) {
	t := plan.Table{}
	for _, key := range slices.Sorted(maps.Keys(in.Egress)) {
		if key == schema.EgressGuardKey {
			continue
		}
		s := &Service{Egress: in.Egress[key]}
		s.locate(in)
		w.Services[key] = s
		list := s.list()
		name := list.Name()
		for _, pod := range s.Pods {
			if w.pods[pod] == nil { // elector gives a pod to one Service
				w.pods[pod], w.Known[pod.String()] = s, true
				s.put(t, pod, list, name)
			}
		}
	}
	w.Known[plan.OwnerCluster] = in.Complete // a new elector does not know them yet
	w.guard(t, in.Egress[schema.EgressGuardKey].Guard)
	if len(w.pods) == 0 && len(t) == 0 {
		return
	}
	for _, p := range w.internal {
		t.Put(plan.Internal+family(p.Addr()), p.String(), "")
	}
	w.Tables[plan.Egress] = t
}

// guard holds back the pods that are not known.
func (w *Wanted) guard(t plan.Table, g *schema.Guard) {
	if g == nil {
		return
	}
	w.Known[plan.OwnerGuard] = true
	for _, p := range reduce(g.Networks) {
		t.Put(plan.Local+family(p.Addr()), p.String(), "")
	}
	for _, ip := range g.Known {
		if w.pods[ip] == nil {
			t.Put(plan.Known+family(ip), ip.String(), "")
		}
	}
}

// locate finds the addresses that this node may use for the Service now.
func (s *Service) locate(in Input) {
	vip, ok := in.VIPs[s.Key]
	if !ok || s.Hold != "" {
		return
	}
	for _, a := range vip.Addresses {
		switch {
		case s.IPv6Only && a.IP.Is4():
		case vip.State == schema.StateDraining:
			s.leaving = append(s.leaving, a.IP)
		case vip.State != schema.StateActive || vip.Grant != schema.GrantNone && !in.Held[vip.Grant]:
		case a.IP.Is4() && !s.VIP4.IsValid():
			s.VIP4 = a.IP
		case a.IP.Is6() && !s.VIP6.IsValid():
			s.VIP6 = a.IP
		}
	}
}

// list returns what narrows the Service's connections.
func (s *Service) list() plan.List {
	return plan.List{Denied: reduce(s.Denied), Allowed: reduce(s.Allowed), Ports: s.Ports}
}

// put adds a pod.
func (s *Service) put(t plan.Table, pod netip.Addr, list plan.List, name string) {
	f, text := family(pod), pod.String()
	if f == "4" && s.IPv6Only {
		return
	}
	t.Put(plan.Pods+f, text, "")
	if vip := s.vip(pod); vip.IsValid() {
		t.Put(plan.VIPs+f, text, vip.String())
	} else {
		t.Put(plan.Held+f, text, "")
	}
	if s.Internal {
		t.Put(plan.Everywhere+f, text, "")
	}
	if list.Concerns(f) {
		t.Put(plan.Lists, name, list.String())
		t.Put(plan.Narrowed+f, text, "jump "+name)
	}
}

// vip returns the VIP of the pod's family.
func (s *Service) vip(pod netip.Addr) netip.Addr {
	if pod.Is4() {
		return s.VIP4
	}
	return s.VIP6
}

func family(ip netip.Addr) string {
	if ip.Is4() {
		return "4"
	}
	return "6"
}

// names of protocols as nft prints them.
var names = map[schema.Protocol]string{schema.TCP: "tcp", schema.UDP: "udp", schema.SCTP: "sctp"}

func portKey(p schema.Port) string {
	return names[p.Protocol] + " . " + itoa(int(p.Port))
}

// reduce leaves out networks that lie in others, which a set of intervals
// does not take.
func reduce(list []netip.Prefix) []netip.Prefix {
	list = slices.Clone(list)
	slices.SortFunc(list, netip.Prefix.Compare) // a network comes before what lies in it
	var out []netip.Prefix
	for _, p := range list {
		if n := len(out); n > 0 && out[n-1].Contains(p.Addr()) && out[n-1].Bits() <= p.Bits() {
			continue
		}
		out = append(out, p)
	}
	return out
}
