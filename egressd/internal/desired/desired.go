// Package desired turns elector's documents into the tables that the plan
// works on, and says which source every connection of a pod shall have. It is
// pure; whether a document is to be believed was decided when it was read.
package desired

import (
	"maps"
	"net/netip"
	"slices"
	"strconv"

	"github.com/vipod/vipod/egressd/internal/plan"
	"github.com/vipod/vipod/egressd/internal/tunnel"
	"github.com/vipod/vipod/shared/schema"
)

// Input is everything that is known from documents.
type Input struct {
	// Internal are the cluster's networks.
	Internal []netip.Prefix
	VIPs     map[string]schema.VIP
	Egress   map[string]schema.Egress
	// Ways are the marks that lead to other nodes, by their addresses.
	Ways map[netip.Addr]uint32
	// Held are the grants that are held now.
	Held map[schema.GrantName]bool
	// Complete says that what no document wants may go.
	Complete bool
	// Tunnels are those of the file.
	Tunnels []tunnel.Tunnel
}

// Wanted is what the documents want.
type Wanted struct {
	plan.Desired
	// Services are those with pods on this node, by key.
	Services map[string]*Service
	internal []netip.Prefix
	pods     map[netip.Addr]*Service
	tunnels  map[netip.Addr]*Tunnel
}

// Service is a Service whose pods leave with its VIP.
type Service struct {
	schema.Egress
	// VIP4 and VIP6 are its addresses while this node may use them, else
	// invalid.
	VIP4, VIP6 netip.Addr
	// ways lead to the node that owns the VIP.
	ways map[netip.Addr]uint32
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
	w.wireguard(in)
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
		s.gateways(in)
		w.Services[key] = s
		l := s.list()
		for _, pod := range s.Pods {
			if w.pods[pod] == nil { // elector gives a pod to one Service
				w.pods[pod], w.Known[pod.String()] = s, true
				s.put(t, pod, l)
			}
		}
		for _, pod := range s.Elsewhere {
			if w.pods[pod] == nil && s.vip(pod).IsValid() {
				w.pods[pod], w.Known[pod.String()] = s, true
				s.put(t, pod, l)
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

// gateways finds the ways to the node that owns the VIP.
func (s *Service) gateways(in Input) {
	s.ways = map[netip.Addr]uint32{}
	for _, g := range s.Gateways {
		if mark, ok := in.Ways[g]; ok && s.Hold == "" {
			s.ways[g] = mark
		}
	}
}

// mark returns what leads the pod's packets to the node that owns the VIP.
func (s *Service) mark(pod netip.Addr) (uint32, bool) {
	for g, mark := range s.ways {
		if g.Is4() == pod.Is4() && !s.vip(pod).IsValid() {
			return mark, true
		}
	}
	return 0, false
}

// source returns what the pod's connections leave this node with, invalid for
// nothing. On their way to another node they keep the pod's address, whatever
// other programs would make of it.
func (s *Service) source(pod netip.Addr) netip.Addr {
	if vip := s.vip(pod); vip.IsValid() {
		return vip
	}
	if _, ok := s.mark(pod); ok {
		return pod
	}
	return netip.Addr{}
}

// list is what narrows a Service's connections.
type list struct {
	plan.List
	name, text string
}

func (s *Service) list() list {
	l := list{List: plan.List{Denied: reduce(s.Denied), Allowed: reduce(s.Allowed), Ports: s.Ports}}
	if l.Concerns("4") || l.Concerns("6") {
		l.name, l.text = l.Name(), l.String()
	}
	return l
}

// put adds a pod.
func (s *Service) put(t plan.Table, pod netip.Addr, l list) {
	f, text := family(pod), pod.String()
	if f == "4" && s.IPv6Only {
		return
	}
	t.Put(plan.Pods+f, text, "")
	if source := s.source(pod); source.IsValid() {
		t.Put(plan.VIPs+f, text, source.String())
	} else {
		t.Put(plan.Held+f, text, "")
	}
	if mark, ok := s.mark(pod); ok {
		t.Put(plan.Via+f, text, strconv.FormatUint(uint64(mark), 10))
	}
	if s.Internal {
		t.Put(plan.Everywhere+f, text, "")
	}
	if l.Concerns(f) {
		t.Put(plan.Lists, l.name, l.text)
		t.Put(plan.Narrowed+f, text, "jump "+l.name)
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
