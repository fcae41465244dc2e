package intent

import (
	"net/netip"
	"slices"
	"strconv"

	"github.com/vipod/vipod/elector/internal/claim"
	"github.com/vipod/vipod/elector/internal/plan"
	"github.com/vipod/vipod/shared/schema"
)

// probePrefix begins the key of the document that lets arpd probe addresses
// which were added to a VIP that is active already: a document has one state,
// and the active addresses must not pause for the new ones. No Service has
// such a key, since no namespace begins with an underscore.
const probePrefix = "_probe."

// ProbeKey returns the key of a VIP's document of that kind.
func ProbeKey(key string) string { return probePrefix + key }

// Documents returns a Service's documents for what this node owns of it:
// none, one, or two while addresses are being added. before is the VIP's
// document as it stands, nil for none.
func Documents(v plan.VIP, own func(netip.Addr) claim.Ownership, before *schema.VIP) []*schema.VIP {
	if v.Group == plan.NoGroup {
		return nil // served by nobody, whatever its addresses do for others
	}
	var active, leaving, probing []schema.Address
	var epoch uint64
	link := own(v.Token)
	if link.Phase == claim.Owned || leaves(link.Phase) {
		epoch = link.Epoch
	}
	for _, a := range v.Addresses {
		switch o := own(a.IP); o.Phase {
		case claim.Owned:
			active, epoch = append(active, a), max(epoch, o.Epoch)
		case claim.Draining, claim.Released:
			leaving, epoch = append(leaving, a), max(epoch, o.Epoch)
		case claim.Probing:
			probing = append(probing, a)
		}
	}
	var docs []*schema.VIP
	add := func(key string, state schema.State, epoch uint64, addresses []schema.Address) {
		links := links(v, key, link.Phase, before)
		if v.Announce == nil {
			addresses = placed(addresses, before)
		}
		if len(addresses) > 0 || hasDHCP(links) {
			doc := document(v, key, state, schema.GrantNode, epoch, addresses)
			doc.Links = links
			docs = append(docs, doc)
		}
	}
	switch {
	case len(leaving) > 0 || leaves(link.Phase):
		add(v.Key, schema.StateDraining, epoch, append(leaving, active...))
	case len(active) > 0 || link.Phase == claim.Owned:
		add(v.Key, schema.StateActive, epoch, active)
		add(ProbeKey(v.Key), schema.StateStandby, 0, probing)
	default:
		add(v.Key, schema.StateStandby, 0, probing)
	}
	return docs
}

// ControlPlane returns the control plane's document, nil for none.
func ControlPlane(v plan.VIP, phase claim.Phase, epoch uint64, before *schema.VIP) *schema.VIP {
	state := schema.StateActive
	switch phase {
	case claim.Owned:
	case claim.Draining, claim.Released:
		state = schema.StateDraining
	default:
		return nil
	}
	addresses, links := placed(v.Addresses, before), links(v, v.Key, phase, before)
	if len(addresses) == 0 && !hasDHCP(links) {
		return nil
	}
	doc := document(v, v.Key, state, schema.GrantControlPlane, epoch, addresses)
	doc.Links = links
	return doc
}

// Withdrawn returns the document by which the addresses of another are taken
// out of the kernel.
func Withdrawn(before schema.VIP) *schema.VIP {
	before.State, before.Announce = schema.StateWithdrawn, nil
	return &before
}

// Held returns what this node may still hold in its Leases by what an earlier
// process's documents say. A withdrawn address is held, too: vipd may not have
// answered yet.
func Held(docs map[string]schema.VIP) (node map[netip.Addr]claim.Ownership, lock claim.Ownership) {
	node = map[netip.Addr]claim.Ownership{}
	for _, doc := range docs {
		o := claim.Ownership{Phase: claim.Draining, Epoch: Epoch(doc)}
		switch doc.State {
		case schema.StateActive:
			o.Phase = claim.Owned
		case schema.StateStandby:
			continue
		}
		switch doc.Grant {
		case schema.GrantNone:
			continue
		case schema.GrantControlPlane:
			lock = o
			continue
		}
		if l := doc.DHCPLink(); l != nil && node[plan.Token(l)].Phase != claim.Owned {
			node[plan.Token(l)] = o
		}
		for _, a := range doc.Addresses {
			if node[a.IP].Phase != claim.Owned { // one address may have several documents
				node[a.IP] = o
			}
		}
	}
	return node, lock
}

// Resumed returns what becomes of an earlier process's document as long as
// there is no plan: itself while this node owns all of its addresses, a mute
// one while it owns some, and a withdrawn one when it owns none.
func Resumed(before schema.VIP, phase func(netip.Addr) claim.Phase) *schema.VIP {
	if before.Grant == schema.GrantNone || before.State != schema.StateActive && before.State != schema.StateDraining {
		return &before
	}
	owned, held := true, false
	for _, ip := range claims(&before) {
		p := phase(ip)
		owned = owned && p == claim.Owned
		held = held || p == claim.Owned || p == claim.Draining || p == claim.Released
	}
	switch {
	case !held:
		return Withdrawn(before)
	case !owned:
		before.State, before.Announce = schema.StateDraining, nil
	}
	return &before
}

// placed gives addresses without an interface the one they were active on:
// the plan has none for them when the link is gone. Without any they are left
// out.
func placed(addresses []schema.Address, before *schema.VIP) []schema.Address {
	var out []schema.Address
	for _, a := range addresses {
		if a.Interface == "" && before != nil {
			i := slices.IndexFunc(before.Addresses, func(b schema.Address) bool { return b.IP == a.IP })
			if i >= 0 {
				a = before.Addresses[i]
			}
		}
		if a.Interface != "" {
			out = append(out, a)
		}
	}
	return out
}

func document(v plan.VIP, key string, state schema.State, grant schema.GrantName, epoch uint64, addresses []schema.Address) *schema.VIP {
	addresses = slices.Clone(addresses)
	slices.SortFunc(addresses, func(a, b schema.Address) int { return a.IP.Compare(b.IP) })
	doc := &schema.VIP{
		Key: key, UID: v.UID, Kind: v.Kind, State: state, Grant: grant, Addresses: addresses,
		Firewall: v.Firewall, Balance: v.Balance, WireGuard: v.WireGuard,
	}
	if epoch != 0 {
		doc.Epoch = strconv.FormatUint(epoch, 10)
	}
	switch {
	case v.Announce != nil && state != schema.StateStandby:
		doc.Announce, doc.BGP, doc.Route = slices.Clone(v.Announce), v.BGP, v.Route
	case v.Announce == nil && (state == schema.StateActive || state == schema.StateStandby):
		doc.Announce = announce(addresses)
	}
	return doc
}

// Spread returns the document of a VIP that nobody owns, nil for none. leaving
// says that this node is about to serve nothing any more.
func Spread(v plan.VIP, leaving bool) *schema.VIP {
	if !v.Spread || !v.Eligible {
		return nil
	}
	state := schema.StateActive
	if leaving || v.Leaving {
		state = schema.StateDraining
	}
	return document(v, v.Key, state, schema.GrantNone, 0, v.Addresses)
}

func announce(addresses []schema.Address) []schema.Announce {
	var out []schema.Announce
	if slices.ContainsFunc(addresses, func(a schema.Address) bool { return a.IP.Is4() }) {
		out = append(out, schema.AnnounceARP)
	}
	if slices.ContainsFunc(addresses, func(a schema.Address) bool { return a.IP.Is6() }) {
		out = append(out, schema.AnnounceNDP)
	}
	return out
}
