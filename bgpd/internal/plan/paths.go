package plan

import (
	"encoding/binary"
	"maps"
	"net/netip"
	"slices"

	"github.com/vipod/vipod/shared/schema"
)

// Path is one prefix to announce.
type Path struct {
	Prefix netip.Prefix
	Attributes
}

// Attributes are what the path carries besides what a session adds.
type Attributes struct {
	schema.PathAttributes
	// Leaving asks peers to prefer any other path (RFC 8326): this one will
	// be withdrawn.
	Leaving bool
}

// ID is equal for equal attributes, and only for these.
func (a Attributes) ID() string {
	out := []byte{0}
	if a.Leaving {
		out[0] = 1
	}
	for _, n := range []*uint32{a.LocalPref, a.MED} {
		if n == nil {
			out = append(out, 0)
		} else {
			out = binary.BigEndian.AppendUint32(append(out, 1), *n)
		}
	}
	out = binary.BigEndian.AppendUint16(out, uint16(len(a.Communities)))
	for _, c := range a.Communities {
		out = binary.BigEndian.AppendUint32(out, uint32(c))
	}
	for _, c := range a.LargeCommunities {
		for _, n := range c {
			out = binary.BigEndian.AppendUint32(out, n)
		}
	}
	return string(out)
}

// Input is what the paths follow from.
type Input struct {
	VIPs map[string]schema.VIP
	// Held are the grants that this node holds.
	Held map[schema.GrantName]bool
}

// Reason is why an address is not announced, as a condition's reason.
type Reason string

// Reasons.
const (
	NotAsked  Reason = "NotAnnouncedByBGP"
	NotActive Reason = "NotActive"
	NoGrant   Reason = "NotGranted"
)

// Why returns why a VIP is not announced, "" if it is.
func (in Input) Why(v schema.VIP) Reason {
	switch {
	case !v.Announces(schema.AnnounceBGP):
		return NotAsked
	case v.State != schema.StateActive && v.State != schema.StateDraining:
		return NotActive
	case v.Grant != schema.GrantNone && !in.Held[v.Grant]:
		return NoGrant
	}
	return ""
}

// Of returns the paths that the documents want, by prefix in order. Of two
// documents that differ in attributes the first by key counts, an active one
// before a draining one.
func Of(in Input) []Path {
	paths := map[netip.Prefix]Path{}
	for _, key := range slices.Sorted(maps.Keys(in.VIPs)) {
		v := in.VIPs[key]
		if in.Why(v) != "" {
			continue
		}
		for _, a := range v.Addresses {
			p := Path{Prefix: Host(a.IP), Attributes: Attributes{Leaving: v.State == schema.StateDraining}}
			if v.BGP != nil {
				p.PathAttributes = *v.BGP
			}
			if old, ok := paths[p.Prefix]; !ok || old.Leaving && !p.Leaving {
				paths[p.Prefix] = p
			}
		}
	}
	out := make([]Path, 0, len(paths))
	for _, prefix := range slices.SortedFunc(maps.Keys(paths), netip.Prefix.Compare) {
		out = append(out, paths[prefix])
	}
	return out
}

// Host returns the prefix of one address, as it is announced.
func Host(ip netip.Addr) netip.Prefix { return netip.PrefixFrom(ip, ip.BitLen()) }
