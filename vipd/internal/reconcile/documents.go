package reconcile

import (
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/vipod/vipod/shared/bootclock"
	"github.com/vipod/vipod/shared/ownership"
	"github.com/vipod/vipod/shared/schema"
	"github.com/vipod/vipod/shared/statefile"
	"github.com/vipod/vipod/vipd/internal/intent"
)

// documents are elector's, as last readable.
type documents struct {
	log  *slog.Logger
	dir  string
	boot string
	set  *statefile.Set[schema.VIP, *schema.VIP]
	node *schema.Node // nil until it was readable once
	vips map[string]schema.VIP
	// complete: the directory was listed, and of every file in it there is a
	// good document.
	complete bool
	grant    schema.Grant
	bad      map[string]string // error by file
	count    func()            // called for each refused document
}

func newDocuments(log *slog.Logger, stateDir, boot string, count func()) documents {
	return documents{
		log: log, boot: boot,
		dir: ownership.Dir(stateDir, ownership.Elector),
		set: statefile.NewSet[schema.VIP](ownership.VIPs(stateDir, ownership.Elector), ownership.UID(ownership.Elector)),
		bad: map[string]string{}, count: count,
	}
}

// readGrants returns what elector holds now. A file that is there but not
// readable leaves the last good one in force, which ends by itself.
func (d *documents) readGrants() intent.Grants {
	doc, err := read[schema.Grant](d, "grant.json")
	switch {
	case err == nil:
		d.grant = doc
	case errors.Is(err, fs.ErrNotExist):
		d.grant = schema.Grant{}
	}
	return intent.GrantsOf(d.grant, d.boot)
}

// readNode says whether the node document changed. One that vanished leaves
// the last one in force.
func (d *documents) readNode() (changed bool) {
	doc, err := read[schema.Node](d, "node.json")
	if err != nil || d.node != nil && d.node.Meta == doc.Meta {
		return false
	}
	d.node = &doc
	return true
}

func read[T any, P schema.Pointer[T]](d *documents, file string) (T, error) {
	doc, err := statefile.Read[T, P](filepath.Join(d.dir, file), ownership.UID(ownership.Elector))
	d.note(file, err)
	return doc, err
}

// readVIPs reads the VIP documents that changed. While the directory cannot
// be listed, the last ones stay in force.
func (d *documents) readVIPs() {
	docs, problems, err := d.set.Load()
	d.note("vips", err)
	d.complete = err == nil
	for file := range d.bad {
		if name, ok := strings.CutPrefix(file, "vips/"); ok && problems[name] == nil {
			d.note(file, nil)
		}
	}
	for name, err := range problems {
		d.note("vips/"+name, err)
		_, kept := docs[name]
		d.complete = d.complete && kept
	}
	for name, doc := range docs {
		if doc.Key != name {
			d.note("vips/"+name, errors.New("the key in the document is "+doc.Key))
			delete(docs, name)
			d.complete = false
		}
	}
	d.vips = docs
}

// note remembers and logs what is wrong with a file, once. A file that is
// not there is not wrong.
func (d *documents) note(file string, err error) {
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		delete(d.bad, file)
		return
	}
	if d.bad[file] != err.Error() {
		d.log.Warn("document refused", "file", file, "err", err)
		d.bad[file] = err.Error()
		d.count()
	}
}

// unreadable returns the files that are wrong and what is, as one sentence.
func (d *documents) unreadable() string {
	var parts []string
	for _, file := range slices.Sorted(maps.Keys(d.bad)) {
		parts = append(parts, file+": "+d.bad[file])
	}
	return strings.Join(parts, "; ")
}

// now is the boot clock, on which grants are.
func now() time.Duration { return bootclock.Now() }
