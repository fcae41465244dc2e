// Package desired turns elector's documents into links and DHCP clients. It is
// pure; whether a document is to be believed was decided when it was read.
package desired

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/vipod/vipod/linkd/internal/plan"
	"github.com/vipod/vipod/shared/schema"
)

// Input is everything that is known from documents.
type Input struct {
	Instance string
	VIPs     map[string]schema.VIP
	Grants   schema.Grants
	// Complete says that what no document wants may go.
	Complete bool
	// Now is the boot clock.
	Now time.Duration
}

// Desired is what the documents want.
type Desired struct {
	plan.Desired
	// DHCP are the clients that links shall have, by the link's name.
	DHCP map[string]schema.DHCPSpec
	// Release are links whose leases are given back when nobody needs them.
	Release map[string]bool
	// Conflicts are documents that want a link otherwise than the first of its
	// users does, and which.
	Conflicts map[string]string
}

// Of returns what the documents want. A link that several of them need is made
// as the first by key says.
func Of(in Input) Desired {
	d := Desired{
		Desired: plan.Desired{Instance: in.Instance, Sweep: in.Complete},
		DHCP:    map[string]schema.DHCPSpec{}, Release: map[string]bool{}, Conflicts: map[string]string{},
	}
	wants := map[string]*plan.Want{}
	for _, key := range slices.Sorted(maps.Keys(in.VIPs)) {
		vip := in.VIPs[key]
		for _, l := range vip.Links {
			if vip.State == schema.StateWithdrawn {
				d.Gone = append(d.Gone, l.Name)
				d.Release[l.Name] = d.Release[l.Name] || l.DHCP != nil && l.DHCP.Release
				continue
			}
			d.merge(wants, key, l, in.carries(vip, l))
		}
	}
	for _, w := range wants {
		d.Wants = append(d.Wants, *w)
	}
	slices.SortFunc(d.Wants, func(a, b plan.Want) int { return cmp.Compare(a.Name, b.Name) })
	d.Gone = slices.DeleteFunc(d.Gone, func(name string) bool { return wants[name] != nil })
	return d
}

// carries says whether the link of a document may carry frames. A macvlan's
// hardware address must be on one node only: it does while the VIP is active
// and the grant is held. A VLAN hurts nobody.
func (in Input) carries(vip schema.VIP, l schema.LinkSpec) bool {
	if l.Kind != schema.LinkMacvlan {
		return true
	}
	return vip.State == schema.StateActive && (vip.Grant == schema.GrantNone || in.Grants.Left(vip.Grant, in.Now) > 0)
}

func (d *Desired) merge(wants map[string]*plan.Want, key string, l schema.LinkSpec, carries bool) {
	w := plan.Want{
		Name: l.Name, Kind: string(l.Kind), Parent: l.Parent, VLAN: l.VLAN, MAC: strings.ToLower(l.MAC),
		RPFilter: l.RPFilter, Down: !carries, Users: []string{key},
	}
	first, shared := wants[l.Name]
	switch {
	case !shared:
		wants[l.Name] = &w
	case first.Kind != w.Kind || first.Parent != w.Parent || first.VLAN != w.VLAN || first.MAC != w.MAC:
		d.Conflicts[key] = l.Name
		return
	default:
		first.Users = append(first.Users, key)
		first.Down = first.Down && w.Down
	}
	if l.DHCP != nil && carries {
		d.DHCP[l.Name] = both(d.DHCP[l.Name], *l.DHCP)
	}
}

// both merges what two documents ask of the same client: the families of both,
// and the first one's wishes.
func both(a, b schema.DHCPSpec) schema.DHCPSpec {
	if !a.IPv4 && !a.IPv6 {
		return b
	}
	a.IPv4, a.IPv6 = a.IPv4 || b.IPv4, a.IPv6 || b.IPv6
	a.Hostname = cmp.Or(a.Hostname, b.Hostname)
	a.Broadcast = a.Broadcast || b.Broadcast
	a.Requested = union(a.Requested, b.Requested)
	a.Declined = union(a.Declined, b.Declined)
	return a
}

func union(a, b []netip.Addr) []netip.Addr {
	list := slices.Clone(a)
	for _, ip := range b {
		if !slices.Contains(list, ip) {
			list = append(list, ip)
		}
	}
	return list
}

// GrantEnd returns when the first held grant of an active document ends, 0 for
// never.
func (in Input) GrantEnd() time.Duration {
	var end time.Duration
	for _, vip := range in.VIPs {
		if len(vip.Links) == 0 || in.Grants.Left(vip.Grant, in.Now) == 0 {
			continue
		}
		if at := in.Grants[vip.Grant]; end == 0 || at < end {
			end = at
		}
	}
	return end
}
