package intent

import (
	"net/netip"
	"slices"

	"github.com/vipod/vipod/elector/internal/claim"
	"github.com/vipod/vipod/elector/internal/plan"
	"github.com/vipod/vipod/shared/schema"
)

// leaves says whether something is being given up.
func leaves(p claim.Phase) bool { return p == claim.Draining || p == claim.Released }

// links returns the links of the document of that key. The macvlan that DHCP
// lends addresses for stands in it while its token is ours or being given up;
// where the plan has no parent for it, it is where it was.
func links(v plan.VIP, key string, token claim.Phase, before *schema.VIP) []schema.LinkSpec {
	list := v.Links
	if len(list) == 0 && v.Token.IsValid() && before != nil {
		list = before.Links
	}
	if key != v.Key {
		return nil // the addresses that are probed are on links of the VIP's own document
	}
	if token == claim.Owned || leaves(token) {
		return list
	}
	return slices.DeleteFunc(slices.Clone(list), func(l schema.LinkSpec) bool { return l.DHCP != nil })
}

func hasDHCP(links []schema.LinkSpec) bool {
	return slices.ContainsFunc(links, func(l schema.LinkSpec) bool { return l.DHCP != nil })
}

// claims are what a document's VIP holds in the node's Lease.
func claims(doc *schema.VIP) []netip.Addr {
	var list []netip.Addr
	if token := plan.Token(doc.DHCPLink()); token.IsValid() {
		list = append(list, token)
	}
	for _, a := range doc.Addresses {
		list = append(list, a.IP)
	}
	return list
}

// exposeAll notes that the other daemons may act on all that a document names.
func (l *Ledger) exposeAll(key string, doc *schema.VIP) {
	l.expose(key, doc.Addresses)
	if token := plan.Token(doc.DHCPLink()); token.IsValid() {
		l.expose(key, []schema.Address{{IP: token}})
	}
}

// AcknowledgeLinks takes linkd's reports and forgets the exposure of every
// macvlan that they say is down. Without linkd nobody can set a link down;
// then it is enough that vipd has muted or removed its addresses, of which no
// frame claims any.
func (l *Ledger) AcknowledgeLinks(reports map[string]schema.LinkStatus, absent bool) {
	for key, set := range l.exposed {
		doc := l.docs[key]
		token := netip.Addr{}
		if doc != nil {
			token = plan.Token(doc.DHCPLink())
		}
		if !token.IsValid() || !set[token] || l.unsure[key] || doc.State == schema.StateActive {
			continue
		}
		report := reports[key]
		down := report.Observed == doc.Seen() && schema.IsTrue(report.Conditions, schema.ConditionUnlinked)
		if other := l.linkSharer(key, token); !down && doc.State == schema.StateWithdrawn && other != "" {
			l.expose(other, []schema.Address{{IP: token}}) // it is up for another document, which is to answer for it
			down = true
		}
		if down || absent && len(set) == 1 {
			delete(set, token)
		}
		if len(set) == 0 {
			delete(l.exposed, key)
		}
	}
}

// linkSharer returns another document that wants the macvlan, "" for none.
func (l *Ledger) linkSharer(key string, token netip.Addr) string {
	for other, doc := range l.docs {
		if other != key && (doc.State == schema.StateActive || doc.State == schema.StateDraining) &&
			plan.Token(doc.DHCPLink()) == token {
			return other
		}
	}
	return ""
}

// Releasing returns a withdrawn document that says that its Service is gone for
// good, so that linkd gives the lease back. It is the same document where no
// lease is meant.
func Releasing(doc *schema.VIP) *schema.VIP {
	if !hasDHCP(doc.Links) {
		return doc
	}
	out := *doc
	out.Links = slices.Clone(doc.Links)
	for i, l := range out.Links {
		if l.DHCP != nil {
			d := *l.DHCP
			d.Release = true
			out.Links[i].DHCP = &d
		}
	}
	return &out
}
