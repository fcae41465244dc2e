package intent

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/vipod/vipod/shared/ownership"
	"github.com/vipod/vipod/shared/schema"
	"github.com/vipod/vipod/shared/statefile"
)

const (
	nodeName  = "node"
	grantName = "grant"
)

// Book is elector's own documents as they stand in the state directory.
// It is not safe for concurrent use.
type Book struct {
	dir, vipsDir string
	root, vips   *statefile.Writer
	*Ledger
	boot string
	node schema.Observed
	egress
	grant map[schema.GrantName]int64
}

// Previous is what an earlier process of elector left.
type Previous struct {
	// Grant is how long it may act, by grant; empty if there is none of this
	// boot.
	Grant map[schema.GrantName]time.Duration
	// VIPs are its documents by key.
	VIPs map[string]schema.VIP
	// Networks are the cluster's own as last known.
	Networks []netip.Prefix
	// BGP is this node's side of BGP as it stood; nil for none.
	BGP *schema.BGP
	// Problems are the documents that could not be read. What they were about
	// and for how long it may be claimed is not known then; those about VIPs
	// were removed.
	Problems []error
}

// Open prepares the directories and returns what an earlier process of the
// same uid left there.
func Open(stateDir, bootID string, uid int) (*Book, Previous, error) {
	instance := statefile.Instance(bootID)
	b := &Book{
		dir: ownership.Dir(stateDir, ownership.Elector), vipsDir: ownership.VIPs(stateDir, ownership.Elector),
		Ledger: NewLedger(), boot: bootID,
	}
	var err error
	if b.root, err = statefile.NewWriter(b.dir, instance); err != nil {
		return nil, Previous{}, err
	}
	if b.vips, err = statefile.NewWriter(b.vipsDir, instance); err != nil {
		return nil, Previous{}, err
	}
	if err := b.openEgress(stateDir, instance); err != nil {
		return nil, Previous{}, err
	}
	previous, err := b.read(uid)
	if err != nil {
		return nil, Previous{}, err
	}
	for key, doc := range previous.VIPs {
		b.Found(key, &doc)
	}
	return b, previous, nil
}

// read reads what an earlier process left, and removes what cannot be read:
// nobody would ever rewrite it.
func (b *Book) read(uid int) (Previous, error) {
	p := Previous{Grant: map[schema.GrantName]time.Duration{}, VIPs: map[string]schema.VIP{}}
	docs, problems, err := statefile.NewSet[schema.VIP](b.vipsDir, uid).Load()
	if err != nil {
		return p, err
	}
	for _, name := range b.vips.Names() {
		doc, ok := docs[name]
		if ok && doc.Key == name {
			p.VIPs[name] = doc
			continue
		}
		err := problems[name]
		if err == nil {
			err = fmt.Errorf("its key is %q", doc.Key)
		}
		p.Problems = append(p.Problems, fmt.Errorf("document %s: %w", name, err))
		if err := b.vips.Remove(name); err != nil {
			return p, err
		}
	}
	if node, err := statefile.Read[schema.Node](filepath.Join(b.dir, nodeName+".json"), uid); err == nil {
		p.Networks = node.Settings.InternalNetworks // else they are learnt from the API
		p.BGP = node.Settings.BGP                   // one that cannot be read is written anew
	}
	grant, err := statefile.Read[schema.Grant](filepath.Join(b.dir, grantName+".json"), uid)
	switch {
	case errors.Is(err, fs.ErrNotExist) && len(p.VIPs) == 0: // the first process
	case err != nil:
		p.Problems = append(p.Problems, err)
	case grant.Boot == b.boot:
		for name, until := range grant.ValidUntil {
			p.Grant[name] = time.Duration(until)
		}
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
	b.grant = nil // not known if the write fails
	if _, err := b.root.Write(grantName, &schema.Grant{Boot: b.boot, ValidUntil: valid}); err != nil {
		return err
	}
	b.grant = valid
	return nil
}

// Put writes a VIP's document and says whether it changed. One whose write
// fails may stand in the file all the same: it exposes what it would, and no
// answer to the one before counts any more.
func (b *Book) Put(doc *schema.VIP) (changed bool, err error) {
	old := b.docs[doc.Key]
	if old != nil && old.Instance == b.vips.Instance() && !b.unsure[doc.Key] && equal(old, doc) {
		return false, nil
	}
	if err := doc.Validate(); err != nil {
		return false, fmt.Errorf("writing document %s: %w", doc.Key, err)
	}
	changed, err = b.vips.Write(doc.Key, doc)
	b.Wrote(doc, err == nil)
	return changed, err
}

// equal says whether two documents of one key say the same. Most passes change
// nothing, and encoding thousands of documents to find out takes long.
func equal(a, b *schema.VIP) bool {
	return a.UID == b.UID && a.Kind == b.Kind && a.State == b.State && a.Grant == b.Grant && a.Epoch == b.Epoch &&
		slices.Equal(a.Addresses, b.Addresses) && slices.Equal(a.Announce, b.Announce) && slices.Equal(a.Via, b.Via) &&
		(len(a.Links) == 0 && len(b.Links) == 0 || reflect.DeepEqual(a.Links, b.Links)) &&
		reflect.DeepEqual(a.Firewall, b.Firewall) && reflect.DeepEqual(a.Balance, b.Balance) &&
		reflect.DeepEqual(a.BGP, b.BGP) && reflect.DeepEqual(a.Route, b.Route) && reflect.DeepEqual(a.WireGuard, b.WireGuard)
}

// Drop removes a VIP's document.
func (b *Book) Drop(key string) error {
	if err := b.vips.Remove(key); err != nil {
		return err
	}
	b.Removed(key)
	return nil
}
