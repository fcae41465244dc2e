package intent

import (
	"fmt"
	"maps"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/vipod/vipod/shared/ownership"
	"github.com/vipod/vipod/shared/schema"
	"github.com/vipod/vipod/shared/statefile"
)

const (
	nodeName   = "node"
	grantName  = "grant"
	daemonName = "daemon"
)

// Book is elector's own documents as they stand in the state directory, and
// which addresses the other daemons may still be acting on because of them.
// It is not safe for concurrent use.
type Book struct {
	dir, vipsDir string
	root, vips   *statefile.Writer
	docs         map[string]*schema.VIP
	// exposed are, by document, the addresses that were active and of which
	// vipd has not said since that they are mute or gone.
	exposed map[string]map[netip.Addr]bool
	boot    string
	node    schema.Observed
	grant   map[schema.GrantName]int64
}

// Previous is what an earlier process of elector left.
type Previous struct {
	// Grant is how long it may act, by grant; empty if there is none of this
	// boot.
	Grant map[schema.GrantName]time.Duration
	// VIPs are its documents by key.
	VIPs map[string]schema.VIP
}

// Open prepares the directories and returns what an earlier process of the
// same uid left there.
func Open(stateDir, bootID string, uid int) (*Book, Previous, error) {
	instance := statefile.Instance(bootID)
	b := &Book{
		dir: ownership.Dir(stateDir, ownership.Elector), vipsDir: ownership.VIPs(stateDir, ownership.Elector),
		docs: map[string]*schema.VIP{}, exposed: map[string]map[netip.Addr]bool{}, boot: bootID,
	}
	var err error
	if b.root, err = statefile.NewWriter(b.dir, instance); err != nil {
		return nil, Previous{}, err
	}
	if b.vips, err = statefile.NewWriter(b.vipsDir, instance); err != nil {
		return nil, Previous{}, err
	}
	previous, err := b.read(uid)
	if err != nil {
		return nil, Previous{}, err
	}
	for key, doc := range previous.VIPs {
		b.docs[key] = &doc
		if doc.State == schema.StateActive || doc.State == schema.StateDraining {
			b.expose(key, doc.Addresses)
		}
	}
	return b, previous, nil
}

// read reads what an earlier process left. A grant that is missing or
// unreadable is as good as one that has ended: what it covered is forfeited.
func (b *Book) read(uid int) (Previous, error) {
	p := Previous{Grant: map[schema.GrantName]time.Duration{}, VIPs: map[string]schema.VIP{}}
	docs, _, err := statefile.NewSet[schema.VIP](b.vipsDir, uid).Load()
	if err != nil {
		return p, err
	}
	maps.Copy(p.VIPs, docs)
	grant, err := statefile.Read[schema.Grant](filepath.Join(b.dir, grantName+".json"), uid)
	if err != nil || grant.Boot != b.boot {
		return p, nil
	}
	for name, until := range grant.ValidUntil {
		p.Grant[name] = time.Duration(until)
	}
	return p, nil
}

// Epoch returns a document's epoch as a number, 0 for none.
func Epoch(doc schema.VIP) uint64 {
	n, err := strconv.ParseUint(doc.Epoch, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// VIP returns the document of that key, nil for none.
func (b *Book) VIP(key string) *schema.VIP { return b.docs[key] }

// VIPs returns all documents by key; the map is the book's own.
func (b *Book) VIPs() map[string]*schema.VIP { return b.docs }

// Node is node.json as last written.
func (b *Book) Node() schema.Observed { return b.node }

// WriteNode writes node.json.
func (b *Book) WriteNode(doc *schema.Node) (changed bool, err error) {
	doc.Boot = b.boot
	changed, err = b.root.Write(nodeName, doc)
	if err == nil {
		b.node = doc.Seen()
	}
	return changed, err
}

// WriteDaemon writes elector's report about itself.
func (b *Book) WriteDaemon(doc *schema.Daemon) error {
	_, err := b.root.Write(daemonName, doc)
	return err
}

// WriteGrant writes grant.json; grants of 0 are not held.
func (b *Book) WriteGrant(grants map[schema.GrantName]time.Duration) error {
	valid := map[schema.GrantName]int64{}
	for name, until := range grants {
		if until > 0 {
			valid[name] = int64(until)
		}
	}
	if b.grant != nil && maps.Equal(b.grant, valid) {
		return nil
	}
	if _, err := b.root.Write(grantName, &schema.Grant{Boot: b.boot, ValidUntil: valid}); err != nil {
		return err
	}
	b.grant = valid
	return nil
}

// Put writes a VIP's document and says whether it changed.
func (b *Book) Put(doc *schema.VIP) (changed bool, err error) {
	if old := b.docs[doc.Key]; old != nil && old.Instance == b.vips.Instance() && equal(old, doc) {
		return false, nil
	}
	if err := doc.Validate(); err != nil {
		return false, fmt.Errorf("writing document %s: %w", doc.Key, err)
	}
	changed, err = b.vips.Write(doc.Key, doc)
	if err != nil {
		return false, err
	}
	b.docs[doc.Key] = doc
	if doc.State == schema.StateActive {
		b.expose(doc.Key, doc.Addresses)
	}
	return changed, nil
}

// equal says whether two documents of one key say the same. Most passes change
// nothing, and encoding thousands of documents to find out takes long.
func equal(a, b *schema.VIP) bool {
	return a.UID == b.UID && a.Kind == b.Kind && a.State == b.State && a.Grant == b.Grant && a.Epoch == b.Epoch &&
		slices.Equal(a.Addresses, b.Addresses) && slices.Equal(a.Announce, b.Announce)
}

// Drop removes a VIP's document.
func (b *Book) Drop(key string) error {
	if err := b.vips.Remove(key); err != nil {
		return err
	}
	delete(b.docs, key)
	return nil
}

func (b *Book) expose(key string, addresses []schema.Address) {
	set := b.exposed[key]
	if set == nil {
		set = map[netip.Addr]bool{}
		b.exposed[key] = set
	}
	for _, a := range addresses {
		set[a.IP] = true
	}
}

// Acknowledge takes vipd's status documents and forgets the exposure of every
// address that they say is mute or gone.
func (b *Book) Acknowledge(statuses map[string]schema.Status) {
	for key, set := range b.exposed {
		doc := b.docs[key]
		status, reported := statuses[key]
		for ip := range set {
			if silent(doc, status, reported, ip) {
				delete(set, ip)
			}
		}
		if len(set) == 0 {
			delete(b.exposed, key)
		}
	}
}

// silent says whether vipd's report proves that this node does not claim the
// address for the document. A report that is missing proves nothing while
// there is a document: vipd may be in the midst of acting on it.
func silent(doc *schema.VIP, status schema.Status, reported bool, ip netip.Addr) bool {
	listed := false
	for _, a := range status.Addresses {
		listed = listed || a.IP == ip
	}
	if doc == nil {
		return !reported || !listed
	}
	if !reported || status.Observed != doc.Seen() {
		return false
	}
	for _, a := range doc.Addresses {
		if a.IP == ip {
			return doc.State == schema.StateDraining && schema.IsTrue(status.Conditions, schema.ConditionMuted)
		}
	}
	return !listed
}

// Exposures returns the addresses that some document exposes.
func (b *Book) Exposures() map[netip.Addr]bool {
	all := map[netip.Addr]bool{}
	for _, set := range b.exposed {
		for ip := range set {
			all[ip] = true
		}
	}
	return all
}

// Exposed says whether the document exposes any address.
func (b *Book) Exposed(key string) bool { return len(b.exposed[key]) > 0 }
