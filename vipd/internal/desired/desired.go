// Package desired turns elector's documents into what the plan works on. It is
// pure; whether a document is to be believed was decided when it was read.
package desired

import (
	"maps"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vipod/vipod/shared/ownership"
	"github.com/vipod/vipod/shared/schema"
	"github.com/vipod/vipod/vipd/internal/plan"
)

// lifetime is given to an address while its grant lasts, in seconds: when
// vipod dies, the node is clean after at most this.
const lifetime = 120

// Input is everything that is known from documents.
type Input struct {
	Settings schema.Settings
	// Components are the daemons that run on this node.
	Components []string
	VIPs       map[string]schema.VIP
	Grants     schema.Grants
	// Complete says that what no document wants may go.
	Complete bool
	// Now is the boot clock.
	Now time.Duration
	// Fence says that the kernel can do it.
	Fence bool
	// Links are linkd's reports by key, and Boot is the boot id that their
	// leases must be of.
	Links map[string]schema.LinkStatus
	Boot  string
}

// Of returns what the documents want.
func Of(in Input) plan.Desired {
	d := plan.Desired{
		Protocol: uint8(in.Settings.Protocol),
		Sweep:    in.Complete,
		Fence:    in.Fence,
		Standing: slices.Contains(in.Components, ownership.Arpd),
	}
	wants := map[netip.Addr]*want{}
	gone := map[netip.Addr]bool{}
	for _, key := range slices.Sorted(maps.Keys(in.VIPs)) {
		vip := in.VIPs[key]
		for _, a := range vip.Addresses {
			if left, ok := in.lent(key, a); Wanted(vip.State) && ok && a.Placed() {
				w := in.merge(wants, a, vip)
				w.limit(left)
			} else {
				gone[a.IP] = true
			}
		}
	}
	for _, ip := range slices.SortedFunc(maps.Keys(wants), netip.Addr.Compare) {
		w := wants[ip]
		in.live(w)
		d.Wants = append(d.Wants, w.Want)
		delete(gone, ip)
	}
	d.Gone = slices.SortedFunc(maps.Keys(gone), netip.Addr.Compare)
	return d
}

// Wanted says whether the addresses of a VIP in this state shall be in the
// kernel.
func Wanted(s schema.State) bool { return s == schema.StateActive || s == schema.StateDraining }

// Routed says whether routers send a VIP here, so that no frame claims it.
func Routed(vip schema.VIP) bool {
	return vip.Announces(schema.AnnounceBGP) || vip.Announces(schema.AnnounceRoute)
}

// merge adds a document's address. Where several documents share it, the
// first says where it is, and it may be claimed only when all agree: mute for
// one is mute, and every grant is needed.
//
// A VIP that routers send here is on a link only so that it is received. Other
// nodes have it, too, so that no frame may claim it; where the kernel cannot
// mute, that is left to the administrator's choice of lo.
func (in Input) merge(wants map[netip.Addr]*want, a schema.Address, vip schema.VIP) *want {
	w, ok := wants[a.IP]
	if !ok {
		w = &want{Want: plan.Want{Prefix: a.Prefix(), Link: a.Interface}}
		if a.Interface == "lo" && !in.Settings.LoopbackGlobalScope {
			w.Scope = unix.RT_SCOPE_HOST
		}
		wants[a.IP] = w
	}
	w.Bare = w.Bare || vip.WireGuard != nil || slices.ContainsFunc(vip.Links, func(l schema.LinkSpec) bool { return l.Name == w.Link })
	w.Muted = w.Muted || vip.State == schema.StateDraining && !Routed(vip) || in.Fence && Routed(vip)
	if vip.Grant != schema.GrantNone && !slices.Contains(w.Grants, vip.Grant) {
		w.Grants = append(w.Grants, vip.Grant)
		slices.Sort(w.Grants)
	}
	return w
}

// want is a want in the making; lease is what is left of its lease, 0 for an
// address that is nobody's to lend.
type want struct {
	plan.Want
	lease time.Duration
}

// limit takes what is left of a lease; of several the longest counts, since
// they are of one server.
func (w *want) limit(lease time.Duration) { w.lease = max(w.lease, lease) }

// lent says whether a document's address may be used as far as DHCP is
// concerned, and what is left of its lease: linkd must have reported one that
// has not ended.
func (in Input) lent(key string, a schema.Address) (left time.Duration, ok bool) {
	if !a.Source.Leased() {
		return 0, true
	}
	status := in.Links[key]
	l, ok := status.Lease(a.IP, in.Boot)
	left = time.Duration(l.ValidUntil) - in.Now
	return left, ok && left > 0
}

// LeaseEnd returns when the first lease of a wanted address ends, 0 for never.
func (in Input) LeaseEnd() (end time.Duration) {
	for key, vip := range in.VIPs {
		for _, a := range vip.Addresses {
			left, ok := in.lent(key, a)
			if at := in.Now + left; ok && left > 0 && (end == 0 || at < end) {
				end = at
			}
		}
	}
	return end
}

// live says how long the address may live. Where the kernel has no fence its
// lifetime is one: it ends with the grant, to the second below.
func (in Input) live(w *want) {
	left := time.Duration(lifetime) * time.Second
	for _, g := range w.Grants {
		left = min(left, in.Grants.Left(g, in.Now))
	}
	w.Granted = left > 0
	w.Valid, w.RefreshBelow = lifetime, lifetime/2
	if !in.Fence && len(w.Grants) > 0 {
		seconds := uint32(left / time.Second)
		w.Granted = seconds > 0
		w.Valid = max(seconds, 1)
		w.RefreshBelow = w.Valid
	}
	if seconds := uint32(min(w.lease/time.Second, lifetime)); w.lease > 0 && seconds < w.Valid {
		w.Lent = true
		w.Valid = max(seconds, 1)
		w.RefreshBelow = max(w.Valid, 2) - 1
	}
}
