package reconcile

import (
	"errors"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/vipod/vipod/egressd/internal/desired"
	"github.com/vipod/vipod/egressd/internal/kernel"
	"github.com/vipod/vipod/egressd/internal/plan"
	"github.com/vipod/vipod/shared/schema"
)

// stale are the connections that a change of the tables has made doubtful. It
// is kept until they have been looked through.
type stale struct {
	// everything: the connections of all pods.
	everything bool
	// pods are those whose connections are in doubt, with the VIP that they
	// had before, invalid for none.
	pods map[netip.Addr]netip.Addr
	// flushed are VIPs that have become active for a Service that wants
	// connections forgotten.
	flushed map[netip.Addr]schema.Flush
	// left are backends that serve no more.
	left map[string]bool
}

// ended notes when a VIP has drained: the connections that were let go on end.
func (s *stale) ended(before, after *desired.Wanted) {
	if before == nil {
		return
	}
	leaving := after.Leaving()
	for vip := range before.Leaving() {
		s.everything = s.everything || !leaving[vip]
	}
}

// add takes in a transaction; before is what the tables held.
func (s *stale) add(ops []plan.Op, before plan.Actual, w *desired.Wanted) {
	if s.pods == nil {
		s.pods, s.flushed, s.left = map[netip.Addr]netip.Addr{}, map[netip.Addr]schema.Flush{}, map[string]bool{}
	}
	for _, op := range ops {
		switch o := op.(type) {
		case plan.AddTable:
			s.everything = s.everything || o.Kind == plan.Egress
		case plan.DelTable:
			for _, set := range []string{"4", "6"} {
				for pod := range before.Tables[o.Kind][plan.Pods+set] {
					s.note(pod, before)
				}
			}
		case plan.AddElement:
			s.element(o.Element, before)
			s.activated(o.Element, w)
		case plan.DelElement:
			s.element(o.Element, before)
			if o.Kind == plan.Balance && strings.HasPrefix(o.Set, plan.Slots) {
				s.left[o.Value] = true
			}
		}
	}
	for _, elements := range w.Tables[plan.Balance] {
		for _, backend := range elements {
			delete(s.left, backend)
		}
	}
}

// element notes whose connections a change of an element concerns.
func (s *stale) element(e plan.Element, before plan.Actual) {
	switch pod := e.Pod(); {
	case pod != "":
		s.note(pod, before)
	case e.Kind == plan.Egress && !e.Spares():
		s.everything = true
	}
}

// note puts a pod into doubt.
func (s *stale) note(pod string, before plan.Actual) {
	ip, err := netip.ParseAddr(pod)
	if err != nil || s.pods[ip].IsValid() {
		return
	}
	set := plan.VIPs + "6"
	if ip.Is4() {
		set = plan.VIPs + "4"
	}
	vip, _ := netip.ParseAddr(before.Tables[plan.Egress][set][pod]) // none, if there was none
	s.pods[ip] = vip
}

// activated notes a VIP whose Service wants connections to and from it
// forgotten.
func (s *stale) activated(e plan.Element, w *desired.Wanted) {
	if e.Kind != plan.Egress || !strings.HasPrefix(e.Set, plan.VIPs) {
		return
	}
	pod, errPod := netip.ParseAddr(e.Key)
	vip, errVIP := netip.ParseAddr(e.Value)
	if service := w.Pod(pod); errPod == nil && errVIP == nil && service != nil && service.Flush != nil {
		s.flushed[vip] = *service.Flush
	}
}

// forget looks through what is in doubt.
func (s *stale) forget(k kernel.Kernel, w *desired.Wanted) (n int, err error) {
	if s.everything && len(s.pods) == 0 && len(w.Services) == 0 {
		s.everything = false // there is no pod whose connections could be wrong
	}
	var errs []error
	look := func(sources []netip.Addr, want func(plan.Flow) bool) {
		some, err := k.Forget(sources, want)
		n += some
		errs = append(errs, err)
	}
	if s.everything || len(s.pods) > 0 {
		var sources []netip.Addr
		if !s.everything {
			sources = slices.SortedFunc(maps.Keys(s.pods), netip.Addr.Compare)
		}
		look(sources, func(f plan.Flow) bool {
			before, doubted := s.pods[f.Source.Addr()]
			return (s.everything || doubted) && w.Stray(f, before)
		})
	}
	if len(s.flushed) > 0 || len(s.left) > 0 {
		look(nil, func(f plan.Flow) bool { return s.asked(f) || s.lost(f, w) })
	}
	if err := errors.Join(errs...); err != nil {
		return n, err
	}
	*s = stale{}
	return n, nil
}

// asked says whether a Service wants the connection forgotten.
func (s *stale) asked(f plan.Flow) bool {
	for _, ip := range []netip.Addr{f.Source.Addr(), f.Destination.Addr()} {
		flush, ok := s.flushed[ip]
		if ok && names(flush.SourcePorts, f.Protocol, f.Source.Port()) && names(flush.DestinationPorts, f.Protocol, f.Destination.Port()) {
			return true
		}
	}
	return false
}

// names says whether a list names the port; an empty one names all.
func names(list []schema.Port, protocol schema.Protocol, port uint16) bool {
	return len(list) == 0 || slices.Contains(list, schema.Port{Protocol: protocol, Port: port})
}

// lost says whether the connection goes to a backend that serves no more.
func (s *stale) lost(f plan.Flow, w *desired.Wanted) bool {
	return f.ReplyFrom != f.Destination && s.left[desired.Socket(f.ReplyFrom)] && w.Frontend(f.Destination)
}
