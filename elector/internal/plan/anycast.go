package plan

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/vipod/vipod/elector/internal/config"
	"github.com/vipod/vipod/shared/ownership"
)

// annotationAnycast of a pod are addresses that it has on its loopback.
const annotationAnycast = "vipod.io/anycast"

// ReasonAnycastRefused of an Event about a pod: an address of its annotation is
// not announced.
const ReasonAnycastRefused = "AnycastRefused"

// AnycastPod is what matters of one of this node's pods.
type AnycastPod struct {
	Namespace, Name, UID string
	// Wants is the annotation.
	Wants     string
	Addresses []netip.Addr
	// Serves: it is ready and not being deleted.
	Serves, HostNetwork bool
}

// WantsOf returns what a pod's annotations ask for, "" for nothing.
func WantsOf(annotations map[string]string) string { return annotations[annotationAnycast] }

// Anycast is an address that pods of this node have themselves.
type Anycast struct {
	IP netip.Addr
	// Via are the pods' own addresses of the family, sorted.
	Via []netip.Addr
}

// Anycasts returns the addresses that serving pods of this node have, in
// order, and which pods ask for what they do not get. vips are those of the
// plan for the same input: their addresses are no pod's.
func Anycasts(in Input, pods []AnycastPod, vips []VIP) (out []Anycast, refused []Refusal) {
	if !runs(in.Config, ownership.Vipd) || !runs(in.Config, ownership.Bgpd) {
		return nil, nil
	}
	whose := newForbidden(in).whose
	for _, v := range vips {
		for _, a := range v.Addresses {
			whose[a.IP] = "is an address of Service " + v.Namespace + "/" + v.Name
		}
	}
	via := map[netip.Addr][]netip.Addr{}
	for _, p := range pods {
		if p.Wants == "" {
			continue
		}
		for text := range strings.SplitSeq(p.Wants, ",") {
			ip, hops, why := p.anycast(strings.TrimSpace(text), in.Config.BGP.Anycast, whose)
			if why != "" {
				refused = append(refused, Refusal{
					Namespace: p.Namespace, Name: p.Name, UID: p.UID, Reason: ReasonAnycastRefused,
					Message: fmt.Sprintf("annotation %s: %s %s; it is not announced", annotationAnycast, config.Quote(text), why),
					Here:    true,
				})
			} else if p.Serves && len(hops) > 0 {
				via[ip] = append(via[ip], hops...)
			}
		}
	}
	for _, ip := range slices.SortedFunc(maps.Keys(via), netip.Addr.Compare) {
		slices.SortFunc(via[ip], netip.Addr.Compare)
		out = append(out, Anycast{ip, slices.Compact(via[ip])})
	}
	return out, refused
}

// anycast returns one address and how the pod is reached, or why it does not
// get it.
func (p *AnycastPod) anycast(text string, allowed []netip.Prefix, whose map[netip.Addr]string) (ip netip.Addr, hops []netip.Addr, why string) {
	ip, err := netip.ParseAddr(text)
	switch {
	case err != nil, ip.Is4In6(), ip.Zone() != "":
		return ip, nil, "is no IP address"
	case p.HostNetwork:
		return ip, nil, "is asked for by a pod on its node's network"
	case !slices.ContainsFunc(allowed, func(n netip.Prefix) bool { return n.Contains(ip) }):
		return ip, nil, "is in none of the networks of vipod_pod_anycast"
	case whose[ip] != "":
		return ip, nil, whose[ip]
	}
	for _, own := range p.Addresses {
		switch {
		case own == ip:
			return ip, nil, "is the pod's own address already"
		case own.Is4() == ip.Is4():
			hops = append(hops, own)
		}
	}
	if len(hops) == 0 && len(p.Addresses) > 0 {
		return ip, nil, "is of a family of which the pod has no address"
	}
	return ip, hops[:min(1, len(hops))], ""
}

// runs says whether a daemon is switched on for this node.
func runs(c *config.Config, daemon string) bool { return slices.Contains(c.Components, daemon) }
