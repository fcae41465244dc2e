// Package intent reads elector's documents: what this node is, until when it
// may claim VIPs, and which. Every other daemon reads them through a Reader,
// so that all agree on what a missing, bad or foreign file means:
//
//   - The last good version of each document stays in force. A grant ends by
//     itself; one whose file is gone is not held any more.
//   - A file that is not there is no problem, since elector may not have
//     written it yet. One that cannot be read is, and so is a directory that
//     cannot be listed.
//   - Absent is not empty: see Documents.Complete.
package intent

import (
	"errors"
	"io/fs"
	"log/slog"
	"path/filepath"

	"github.com/vipod/vipod/shared/ownership"
	"github.com/vipod/vipod/shared/schema"
	"github.com/vipod/vipod/shared/statefile"
)

// Documents are elector's, as last readable.
type Documents struct {
	// Node is nil until it could be read once.
	Node *schema.Node
	// Grants were read before the VIPs: elector removes documents before it
	// writes a grant anew after a lapse, so that no grant is ever applied to a
	// VIP that this node has lost.
	Grants schema.Grants
	VIPs   map[string]schema.VIP
	// Complete says that what no document wants may be removed: elector said
	// for this boot that it has written all, the directory could be listed,
	// and of every file in it there is a good document.
	Complete bool
	Problems Problems
}

// Seen is the node document that a reader's report is about.
func (d Documents) Seen() schema.Observed {
	if d.Node == nil {
		return schema.Observed{}
	}
	return d.Node.Seen()
}

// Settings are those of the node document, zero until there is one.
func (d Documents) Settings() schema.Settings {
	if d.Node == nil {
		return schema.Settings{}
	}
	return d.Node.Settings
}

// Reader is not safe for concurrent use.
type Reader struct {
	// Refused, if set, is called once for each new problem with a file.
	Refused func()

	log      *slog.Logger
	stateDir string
	boot     string
	vips     *statefile.Set[schema.VIP, *schema.VIP]
	last     Documents
}

// NewReader returns a reader of the state directory; boot is this boot's id.
func NewReader(log *slog.Logger, stateDir, boot string) *Reader {
	return &Reader{
		Refused: func() {}, log: log, stateDir: stateDir, boot: boot,
		vips: statefile.NewSet[schema.VIP](ownership.VIPs(stateDir, ownership.Elector), ownership.UID(ownership.Elector)),
		last: Documents{Grants: schema.Grants{}},
	}
}

// Load reads everything that changed and returns the whole.
func (r *Reader) Load() Documents {
	found := Problems{}
	d := Documents{Problems: found, Node: r.last.Node}
	d.Grants = r.grants(found)
	if node, err := ReadNode(r.stateDir); err == nil {
		d.Node = &node
	} else {
		found.Add(nodeFile, err)
	}
	vips, problems, err := r.vips.Load()
	found.Add("vips", err)
	d.VIPs = vips
	d.Complete = err == nil && d.Node != nil && d.Node.Synced && d.Node.Boot == r.boot
	for name, err := range problems {
		found.Add("vips/"+name+".json", err)
		_, kept := vips[name]
		d.Complete = d.Complete && kept
	}
	r.report(found)
	r.last = d
	return d
}

// LoadGrants reads grant.json, and of node.json only whether it changed, which
// is all that happens with most renewals. When it reports a change, everything
// is to be loaded.
func (r *Reader) LoadGrants() (grants schema.Grants, changed bool) {
	found := Problems{}
	grants = r.grants(found)
	r.last.Grants = grants
	node, err := ReadNode(r.stateDir)
	found.Add(nodeFile, err)
	changed = err == nil && node.Seen() != r.last.Seen()
	for _, file := range []string{nodeFile, grantFile} {
		changed = changed || text(found[file]) != text(r.last.Problems[file])
	}
	return grants, changed
}

func (r *Reader) grants(found Problems) schema.Grants {
	grants, err := ReadGrants(r.stateDir, r.boot)
	if found.Add(grantFile, err); err != nil {
		return r.last.Grants
	}
	return grants
}

// report logs each problem once.
func (r *Reader) report(found Problems) {
	for file, err := range found {
		if text(r.last.Problems[file]) != err.Error() {
			r.log.Warn("document refused", "file", file, "err", err)
			r.Refused()
		}
	}
}

const (
	nodeFile  = "node.json"
	grantFile = "grant.json"
)

// ReadNode reads elector's document about this node.
func ReadNode(stateDir string) (schema.Node, error) {
	return read[schema.Node](stateDir, nodeFile)
}

// ReadGrants reads what elector holds; no file means nothing.
func ReadGrants(stateDir, boot string) (schema.Grants, error) {
	doc, err := read[schema.Grant](stateDir, grantFile)
	if errors.Is(err, fs.ErrNotExist) {
		return schema.Grants{}, nil
	}
	return doc.Until(boot), err
}

func read[T any, P schema.Pointer[T]](stateDir, file string) (T, error) {
	return statefile.Read[T, P](filepath.Join(ownership.Dir(stateDir, ownership.Elector), file), ownership.UID(ownership.Elector))
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
