package intent

import (
	"net/netip"
	"slices"

	"github.com/vipod/vipod/elector/internal/claim"
	"github.com/vipod/vipod/shared/schema"
)

// Ledger is which documents stand and which addresses the other daemons may be
// acting on because of them. It does no I/O: the model of the claim protocol
// works with it, too.
type Ledger struct {
	docs map[string]*schema.VIP
	// exposed are, by document, the addresses that were active and of which
	// vipd has not said since that they are mute or gone.
	exposed map[string]map[netip.Addr]bool
	// unsure are the documents of which the last write failed: the file has
	// the content before or after.
	unsure map[string]bool
}

// NewLedger returns a Ledger without documents.
func NewLedger() *Ledger {
	return &Ledger{
		docs: map[string]*schema.VIP{}, exposed: map[string]map[netip.Addr]bool{}, unsure: map[string]bool{},
	}
}

// VIP returns the document of that key, nil for none.
func (l *Ledger) VIP(key string) *schema.VIP { return l.docs[key] }

// VIPs returns all documents by key; the map is the Ledger's own.
func (l *Ledger) VIPs() map[string]*schema.VIP { return l.docs }

// Found takes in a document of an earlier process. Whatever its state, what it
// names is exposed: vipd may not have got as far as acting on it.
func (l *Ledger) Found(key string, doc *schema.VIP) {
	l.docs[key] = doc
	if owned(doc) {
		l.exposeAll(key, doc)
	}
}

// owned says whether a document's addresses are one node's at a time. Of
// others nobody waits for silence.
func owned(doc *schema.VIP) bool { return doc.Grant != schema.GrantNone }

// Wrote takes in a document that was written. One whose write failed may stand
// all the same: it exposes what it would, and no answer to the one before
// counts any more.
func (l *Ledger) Wrote(doc *schema.VIP, well bool) {
	if doc.State == schema.StateActive && owned(doc) {
		l.exposeAll(doc.Key, doc)
	}
	l.docs[doc.Key] = doc
	if delete(l.unsure, doc.Key); !well {
		l.unsure[doc.Key] = true
	}
}

// Removed takes in the removal of a document.
func (l *Ledger) Removed(key string) {
	delete(l.docs, key)
	delete(l.unsure, key)
}

// Carry returns what is to be written while there is no plan, given what this
// node owns by grant: absent is not empty, so that what is still owned stays.
// What was forfeited is withdrawn, since the next grant would open the fence
// over it. Without a document vipd would leave its addresses where they are
// until the documents are complete.
func (l *Ledger) Carry(phase func(schema.GrantName, netip.Addr) claim.Phase) (put []*schema.VIP) {
	for _, doc := range l.docs {
		next := Resumed(*doc, func(ip netip.Addr) claim.Phase { return phase(doc.Grant, ip) })
		if next.State != doc.State || l.unsure[doc.Key] {
			put = append(put, next)
		}
	}
	return put
}

// Changes returns which documents are to be removed and which are to be put,
// in that order, so that the wanted ones stand and no others. What may still
// be active is not removed but withdrawn: only a document can have vipd answer
// that its addresses are gone. Until that answer no other document takes its
// place that does not name them.
func (l *Ledger) Changes(wanted []*schema.VIP) (remove []string, put []*schema.VIP) {
	var active []*schema.VIP
	keys := map[string]bool{}
	for _, doc := range wanted {
		keys[doc.Key] = true
		switch {
		case l.awaits(doc):
		case doc.State == schema.StateActive && l.docs[doc.Key] != nil:
			active = append(active, doc)
		default:
			put = append(put, doc)
		}
	}
	for key, doc := range l.docs {
		switch {
		case keys[key]:
		case l.Exposed(key):
			put = append(put, Withdrawn(*doc))
		default:
			remove = append(remove, key)
		}
	}
	return remove, append(put, active...)
}

func (l *Ledger) expose(key string, addresses []schema.Address) {
	set := l.exposed[key]
	if set == nil {
		set = map[netip.Addr]bool{}
		l.exposed[key] = set
	}
	for _, a := range addresses {
		set[a.IP] = true
	}
}

// Acknowledge takes vipd's status documents and forgets the exposure of every
// address that they say is mute or gone. swept says that vipd acts on complete
// documents: only then is an address gone that a document no longer names.
func (l *Ledger) Acknowledge(statuses map[string]schema.Status, swept bool) {
	for key, set := range l.exposed {
		doc, status := l.docs[key], statuses[key]
		if doc == nil || l.unsure[key] || status.Observed != doc.Seen() {
			continue // nothing was said about this very document
		}
		for ip := range set {
			if claim.IsToken(ip) {
				continue // see AcknowledgeLinks
			}
			if !silent(doc, status, ip, swept) {
				if doc.State != schema.StateWithdrawn {
					continue
				}
				other := l.sharer(key, ip)
				if other == "" {
					continue
				}
				// It is there for another document, which is to answer for it.
				l.expose(other, []schema.Address{{IP: ip}})
			}
			delete(set, ip)
		}
		if len(set) == 0 {
			delete(l.exposed, key)
		}
	}
}

// sharer returns another document that wants the address in the kernel, ""
// for none.
func (l *Ledger) sharer(key string, ip netip.Addr) string {
	for other, doc := range l.docs {
		if other == key || doc.State != schema.StateActive && doc.State != schema.StateDraining {
			continue
		}
		if slices.ContainsFunc(doc.Addresses, func(a schema.Address) bool { return a.IP == ip }) {
			return other
		}
	}
	return ""
}

// silent says whether vipd's report about the document proves that this node
// does not claim the address.
func silent(doc *schema.VIP, status schema.Status, ip netip.Addr, swept bool) bool {
	listed, present := false, false
	for _, a := range status.Addresses {
		listed = listed || a.IP == ip
		present = present || a.IP == ip && a.Present
	}
	named := slices.ContainsFunc(doc.Addresses, func(a schema.Address) bool { return a.IP == ip })
	switch {
	case !named:
		return !listed && swept
	case doc.State == schema.StateDraining:
		return schema.IsTrue(status.Conditions, schema.ConditionMuted)
	}
	return doc.State != schema.StateActive && !present
}

// Exposures returns the addresses that some document exposes.
func (l *Ledger) Exposures() map[netip.Addr]bool {
	all := map[netip.Addr]bool{}
	for _, set := range l.exposed {
		for ip := range set {
			all[ip] = true
		}
	}
	return all
}

// awaits says whether vipd has yet to answer the document that withdraws the
// addresses of that key, so that a document that does not name them must wait.
func (l *Ledger) awaits(next *schema.VIP) bool {
	was := l.docs[next.Key]
	if was == nil || was.State != schema.StateWithdrawn {
		return false
	}
	for ip := range l.exposed[next.Key] {
		if !slices.ContainsFunc(next.Addresses, func(a schema.Address) bool { return a.IP == ip }) {
			return true
		}
	}
	return false
}

// Exposed says whether the document exposes any address.
func (l *Ledger) Exposed(key string) bool { return len(l.exposed[key]) > 0 }
