package desired

import (
	"net/netip"
	"slices"
	"strconv"

	"github.com/vipod/vipod/egressd/internal/plan"
	"github.com/vipod/vipod/shared/schema"
)

func itoa(n int) string { return strconv.Itoa(n) }

// Verdict is what becomes of a new connection of a pod.
type Verdict int

// Verdicts.
const (
	// Free: egressd has nothing to do with it.
	Free Verdict = iota
	// Translated: it leaves with the Service's VIP.
	Translated
	// Held: it is dropped, since it would leave with a wrong source.
	Held
)

// Judge says what becomes of a connection, and with which source. It is what
// the rules of the table egress do, rule by rule.
func (w *Wanted) Judge(f plan.Flow) (Verdict, netip.Addr) {
	pod := f.Source.Addr()
	s := w.pods[pod]
	if s == nil || pod.Is4() != f.Destination.Addr().Is4() || pod.Is4() && s.IPv6Only {
		return Free, netip.Addr{}
	}
	to := f.ReplyFrom // where it goes, whatever the pod asked for
	switch {
	case !s.Internal && (contains(w.internal, to.Addr()) || f.ReplyFrom != f.Destination),
		contains(s.Denied, to.Addr()),
		len(s.Allowed) > 0 && !contains(s.Allowed, to.Addr()),
		len(s.Ports) > 0 && !slices.Contains(s.Ports, schema.Port{Protocol: f.Protocol, Port: to.Port()}):
		return Free, netip.Addr{}
	}
	if source := s.source(pod); source.IsValid() {
		return Translated, source
	}
	return Held, netip.Addr{}
}

func contains(list []netip.Prefix, ip netip.Addr) bool {
	return slices.ContainsFunc(list, func(p netip.Prefix) bool { return p.Contains(ip) })
}

// Stray says whether a connection that exists has a source that a new one
// would not get, so that the kernel shall forget it. before is the VIP that
// the pod had before the change, invalid for none.
func (w *Wanted) Stray(f plan.Flow, before netip.Addr) bool {
	verdict, vip := w.Judge(f)
	source := f.ReplyTo.Addr()
	switch verdict {
	case Translated:
		return source != vip
	case Held:
		return !slices.Contains(w.pods[f.Source.Addr()].leaving, source)
	}
	return before.IsValid() && before != f.Source.Addr() && source == before
}

// Forwarded says whether connections of the Service's pods leave through
// another node, and which.
func (s *Service) Forwarded() (list []netip.Addr) {
	for _, g := range s.Gateways {
		if _, ok := s.ways[g]; ok {
			list = append(list, g)
		}
	}
	return list
}

// Pod returns the Service that a pod belongs to, nil for none.
func (w *Wanted) Pod(ip netip.Addr) *Service { return w.pods[ip] }

// Sources are the addresses that connections of the Service's pods leave with.
func (s *Service) Sources() (list []netip.Addr) {
	for _, vip := range []netip.Addr{s.VIP4, s.VIP6} {
		if vip.IsValid() {
			list = append(list, vip)
		}
	}
	return list
}

// Leaving are the VIPs with which connections that exist may go on.
func (w *Wanted) Leaving() map[netip.Addr]bool {
	all := map[netip.Addr]bool{}
	for _, s := range w.Services {
		for _, vip := range s.leaving {
			all[vip] = true
		}
	}
	return all
}
