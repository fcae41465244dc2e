package session

import (
	"fmt"
	"maps"
	"math"
	"net/netip"
	"slices"
	"time"

	"github.com/vipod/vipod/bgpd/internal/plan"
	"github.com/vipod/vipod/bgpd/internal/wire"
	"github.com/vipod/vipod/shared/netsafe"
	"github.com/vipod/vipod/shared/schema"
)

// first tells a new peer everything, and that this was all (RFC 4724).
func (t *talk) first() error {
	if err := t.sync(); err != nil {
		return err
	}
	for _, f := range slices.Sorted(maps.Keys(t.hops)) {
		if err := t.write(t.writer.EndOfRIB(f)); err != nil {
			return err
		}
	}
	return nil
}

// again tells everything of some families once more.
func (t *talk) again(families map[wire.Family]bool) error {
	t.sent = slices.DeleteFunc(slices.Clone(t.sent), func(p plan.Path) bool { return families[familyOf(p.Prefix)] })
	return t.sync()
}

// refreshRest is the least time between two answers to ROUTE-REFRESH: a peer
// must not keep this node busy by asking.
const refreshRest = time.Second

// refreshes are the families that the peer asked for, and when it is due.
type refreshes struct {
	families map[wire.Family]bool
	due      <-chan time.Time
	last     time.Time
}

func (r *refreshes) add(f wire.Family) {
	if r.families == nil {
		r.families = map[wire.Family]bool{}
	}
	r.families[f] = true
	if r.due == nil {
		r.due = time.After(time.Until(r.last.Add(refreshRest)))
	}
}

func (r *refreshes) take() map[wire.Family]bool {
	f := r.families
	*r = refreshes{last: time.Now()}
	return f
}

// sync makes the peer know what is wanted.
func (t *talk) sync() error {
	mine := t.wanted()
	if len(t.hops) < 2 {
		mine = slices.DeleteFunc(slices.Clone(mine), func(p plan.Path) bool {
			_, ok := t.hops[familyOf(p.Prefix)]
			return !ok
		})
	}
	ops := plan.Difference(mine, t.sent)
	if err := t.do(ops); err != nil || len(ops) == 0 {
		return err
	}
	t.sent = mine
	t.update(func(st *State) { st.Sent = mine })
	return nil
}

// do sends the changes.
func (t *talk) do(ops []plan.Op) error {
	for _, op := range ops {
		for _, f := range []wire.Family{wire.IPv4, wire.IPv6} {
			if err := t.write(t.messages(op, f)...); err != nil {
				return err
			}
		}
		t.log.Debug("told", "op", op)
	}
	return nil
}

// messages encodes the part of a change that is of one family.
func (t *talk) messages(op plan.Op, f wire.Family) [][]byte {
	of := func(list []netip.Prefix) []netip.Prefix {
		return slices.DeleteFunc(slices.Clone(list), func(p netip.Prefix) bool { return familyOf(p) != f })
	}
	switch o := op.(type) {
	case plan.Withdraw:
		return t.writer.Withdraw(f, of(o.Prefixes))
	case plan.Announce:
		if list := of(o.Prefixes); len(list) > 0 {
			return t.writer.Announce(f, list, t.attributes(o.Attributes, t.hops[f]))
		}
	}
	return nil
}

// internalPreference is what a path within an AS has that nobody set.
const internalPreference = 100

// attributes adds what belongs to the session. To a peer of our own AS go
// preferences, to others our AS.
func (t *talk) attributes(a *plan.Attributes, h hop) *wire.Attributes {
	out := &wire.Attributes{NextHop: h.ip, LinkLocal: h.linkLocal, MED: a.MED}
	communities := slices.Concat(t.cfg.Communities, a.Communities)
	if a.Leaving {
		communities = append(communities, schema.GracefulShutdown)
		worst := uint32(math.MaxUint32)
		out.MED = &worst
	}
	slices.Sort(communities)
	for _, c := range slices.Compact(communities) {
		out.Communities = append(out.Communities, uint32(c))
	}
	large := slices.Concat(t.cfg.LargeCommunities, a.LargeCommunities)
	slices.SortFunc(large, func(a, b schema.LargeCommunity) int { return slices.Compare(a[:], b[:]) })
	for _, c := range slices.Compact(large) {
		out.LargeCommunities = append(out.LargeCommunities, c)
	}
	if !t.cfg.internal(t.peer.AS) {
		out.Path = []uint32{t.cfg.LocalAS}
		return out
	}
	preference := uint32(internalPreference)
	switch {
	case a.Leaving:
		preference = 0
	case a.LocalPref != nil:
		preference = *a.LocalPref
	case t.cfg.LocalPref != nil:
		preference = *t.cfg.LocalPref
	}
	out.LocalPref = &preference
	return out
}

func familyOf(p netip.Prefix) wire.Family {
	if p.Addr().Is4() {
		return wire.IPv4
	}
	return wire.IPv6
}

// hop is a next hop of one family, with the link-local one of RFC 2545.
type hop struct{ ip, linkLocal netip.Addr }

// local is the session's own address.
func (t *talk) local() netip.Addr { return addressOf(t.conn.LocalAddr().String()) }

// overIPv6 says whether the session is one of IPv6 link-local addresses, over
// which IPv4 goes with IPv6 next hops.
func (t *talk) overIPv6() bool { ip := t.local(); return ip.Is6() && ip.IsLinkLocalUnicast() }

// nextHop returns the next hop for paths of a family.
func (t *talk) nextHop(f wire.Family) (hop, error) {
	fixed := map[wire.Family]netip.Addr{wire.IPv4: t.cfg.NextHop4, wire.IPv6: t.cfg.NextHop6}[f]
	own := t.local()
	linkLocal := t.overIPv6()
	switch {
	case fixed.IsValid():
		return hop{ip: fixed}, nil
	case !linkLocal && own.Is4() == (f == wire.IPv4):
		return hop{ip: own}, nil
	case linkLocal && f == wire.IPv4 && t.peer.IPv4OverIPv6, linkLocal && f == wire.IPv6:
		h := hop{ip: own.WithZone(""), linkLocal: own.WithZone("")}
		if global, err := t.onLink(wire.IPv6); err == nil {
			h.ip = global
		} else {
			h.linkLocal = netip.Addr{} // the only one
		}
		return h, nil
	}
	ip, err := t.onLink(f)
	return hop{ip: ip}, err
}

// onLink returns an address of the family on the session's link that is the
// node's own: the first, as the kernel lists them.
func (t *talk) onLink(f wire.Family) (netip.Addr, error) {
	all, err := netsafe.Addresses()
	if err != nil {
		return netip.Addr{}, fmt.Errorf("looking for a next hop: %w", err)
	}
	own := t.local().WithZone("")
	link := slices.IndexFunc(all, func(a netsafe.Address) bool { return a.Prefix.Addr() == own })
	for _, a := range all {
		ip := a.Prefix.Addr()
		if link >= 0 && a.LinkIndex == all[link].LinkIndex && ip.Is4() == (f == wire.IPv4) &&
			ip.IsGlobalUnicast() && a.Protocol != t.cfg.Protocol && a.Valid != 0 {
			return ip, nil
		}
	}
	return netip.Addr{}, fmt.Errorf("no %s next hop: the link of %s has no such address", f, own)
}
