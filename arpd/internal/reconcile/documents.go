package reconcile

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/vipod/vipod/shared/ownership"
	"github.com/vipod/vipod/shared/schema"
	"github.com/vipod/vipod/shared/statefile"
)

// documents are elector's documents as far as they could be read; the last
// good one of each stays in force.
type documents struct {
	dir  string
	vips *statefile.Set[schema.VIP, *schema.VIP]
	boot string

	Node  schema.Node
	Grant schema.Grant
	VIPs  map[string]schema.VIP
	// Complete: the listing of VIPs worked and elector says for this boot
	// that it is complete, so that what is not in it is not wanted.
	Complete bool
	// Problem is everything that could not be read.
	Problem error
}

func newDocuments(stateDir, boot string) *documents {
	uid := ownership.UID(ownership.Elector)
	return &documents{
		dir:  ownership.Dir(stateDir, ownership.Elector),
		vips: statefile.NewSet[schema.VIP](ownership.VIPs(stateDir, ownership.Elector), uid),
		boot: boot,
	}
}

// load reads everything.
func (d *documents) load() {
	problem := d.loadGrant()
	vips, bad, err := d.vips.Load()
	d.VIPs = vips
	d.Complete = err == nil && d.Node.Synced && d.Node.Boot == d.boot
	problem = errors.Join(problem, err)
	for _, name := range slices.Sorted(maps.Keys(bad)) {
		problem = errors.Join(problem, fmt.Errorf("document %s: %w", name, bad[name]))
	}
	d.Problem = problem
}

// loadGrant reads node.json and grant.json only.
func (d *documents) loadGrant() error {
	uid := ownership.UID(ownership.Elector)
	node, nodeErr := statefile.Read[schema.Node](filepath.Join(d.dir, "node.json"), uid)
	if nodeErr == nil {
		d.Node = node
	}
	grant, grantErr := statefile.Read[schema.Grant](filepath.Join(d.dir, "grant.json"), uid)
	switch {
	case grantErr == nil:
		d.Grant = grant
	case errors.Is(grantErr, fs.ErrNotExist): // none was given yet, or it was taken back
		d.Grant, grantErr = schema.Grant{}, nil
	}
	return errors.Join(nodeErr, grantErr)
}

// grants returns until when each grant is valid on this boot's clock.
func (d *documents) grants() map[schema.GrantName]time.Duration {
	out := map[schema.GrantName]time.Duration{}
	if d.Grant.Boot != d.boot {
		return out
	}
	for name, until := range d.Grant.ValidUntil {
		out[name] = time.Duration(until)
	}
	return out
}

// valid returns the grants that are valid at the time, and the earliest end
// of one, 0 for none.
func valid(grants map[schema.GrantName]time.Duration, now time.Duration) (held map[schema.GrantName]bool, end time.Duration) {
	held = map[schema.GrantName]bool{}
	for name, until := range grants {
		if now >= until {
			continue
		}
		held[name] = true
		if end == 0 || until < end {
			end = until
		}
	}
	return held, end
}
