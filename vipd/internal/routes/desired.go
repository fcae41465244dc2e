package routes

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/vipod/vipod/shared/schema"
)

// Of returns what the documents want. A VIP under a grant has its routes while
// the grant is held.
func Of(s schema.Settings, vips map[string]schema.VIP, held map[schema.GrantName]bool, complete bool) Desired {
	d := Desired{Table: s.RoutingTable, Protocol: uint8(s.Protocol), Sweep: complete}
	routes, gone := map[netip.Addr]Route{}, map[netip.Addr]bool{}
	for _, key := range slices.Sorted(maps.Keys(vips)) {
		v := vips[key]
		wanted := v.Route != nil && v.Announces(schema.AnnounceRoute) &&
			(v.State == schema.StateActive || v.State == schema.StateDraining) &&
			(v.Grant == schema.GrantNone || held[v.Grant])
		for _, a := range v.Addresses {
			if _, have := routes[a.IP]; !wanted || have {
				gone[a.IP] = true
				continue
			}
			routes[a.IP] = Route{Prefix: netip.PrefixFrom(a.IP, a.IP.BitLen()), Link: v.Route.Interface, Type: v.Route.Type}
		}
	}
	for _, ip := range slices.SortedFunc(maps.Keys(routes), netip.Addr.Compare) {
		d.Routes = append(d.Routes, routes[ip])
		delete(gone, ip)
	}
	d.Gone = slices.SortedFunc(maps.Keys(gone), netip.Addr.Compare)
	return d
}
