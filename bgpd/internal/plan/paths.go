package plan

import (
	"encoding/binary"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/vipod/vipod/shared/schema"
)

// Path is one prefix to announce. Paths of one VIP share their attributes.
type Path struct {
	Prefix netip.Prefix
	*Attributes
}

// Attributes are what a path carries besides what a session adds. They are
// made by NewAttributes and never changed.
type Attributes struct {
	schema.PathAttributes
	// Leaving asks peers to prefer any other path (RFC 8326): this one will
	// be withdrawn.
	Leaving bool

	id  string // equal for equal attributes, and only for these
	key string // the VIP's
}

// NewAttributes returns the attributes of a VIP's paths; none of its own is
// nil.
func NewAttributes(of *schema.PathAttributes, leaving bool) *Attributes {
	a := &Attributes{Leaving: leaving}
	if of != nil {
		a.PathAttributes = *of
	}
	a.id = a.encode()
	return a
}

// Equal says whether two paths carry the same.
func (a *Attributes) Equal(b *Attributes) bool { return a == b || a.id == b.id }

func (a *Attributes) encode() string {
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

// Of returns the paths that the documents want, by prefix in order, each once.
// Of two documents that differ in attributes the first by key counts, an active
// one before a draining one.
func Of(in Input) []Path {
	// In the order of first addresses, what follows is mostly sorted already.
	vips := slices.SortedFunc(maps.Keys(in.VIPs), func(a, b string) int {
		return first(in.VIPs[a]).Compare(first(in.VIPs[b]))
	})
	var four, six []Path
	for _, key := range vips {
		v := in.VIPs[key]
		if in.Why(v) != "" {
			continue
		}
		a := NewAttributes(v.BGP, v.State == schema.StateDraining)
		a.key = key
		for _, address := range v.Addresses {
			if p := (Path{Host(address.IP), a}); address.IP.Is4() {
				four = append(four, p)
			} else {
				six = append(six, p)
			}
		}
	}
	return append(sorted(four), sorted(six)...)
}

func first(v schema.VIP) netip.Addr {
	if len(v.Addresses) == 0 {
		return netip.Addr{}
	}
	return v.Addresses[0].IP
}

// sorted brings paths into order and leaves the best of each prefix.
func sorted(paths []Path) []Path {
	slices.SortFunc(paths, func(a, b Path) int {
		switch c := Compare(a.Prefix, b.Prefix); {
		case c != 0:
			return c
		case a.Leaving == b.Leaving:
			return strings.Compare(a.key, b.key)
		case a.Leaving:
			return 1
		}
		return -1
	})
	return slices.CompactFunc(paths, func(a, b Path) bool { return a.Prefix == b.Prefix })
}

// Compare is the order of paths. It is that of netip.Prefix for single
// addresses, which all of them are, and several times as fast.
func Compare(a, b netip.Prefix) int {
	if c := a.Addr().Compare(b.Addr()); c != 0 {
		return c
	}
	return a.Bits() - b.Bits()
}

// Host returns the prefix of one address, as it is announced.
func Host(ip netip.Addr) netip.Prefix { return netip.PrefixFrom(ip, ip.BitLen()) }
