package reconcile

import (
	"errors"
	"io/fs"
	"log/slog"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/vipod/vipod/shared/ownership"
	"github.com/vipod/vipod/shared/schema"
	"github.com/vipod/vipod/shared/statefile"
)

// reports are the other daemons' documents as last read.
type reports struct {
	dirty      bool
	dir        string
	uid        func(string) int
	vipdSet    *statefile.Set[schema.Status, *schema.Status]
	arpdSet    *statefile.Set[schema.Status, *schema.Status]
	linkSet    *statefile.Set[schema.LinkStatus, *schema.LinkStatus]
	links      map[string]schema.LinkStatus
	bgpdSet    *statefile.Set[schema.Status, *schema.Status]
	vipd, arpd map[string]schema.Status
	bgpd       map[string]schema.Status
	bgpdDaemon schema.Daemon
	vipdDaemon schema.Daemon
	arpdDaemon schema.Daemon
	// linkdDaemon is linkd's report about itself, links its reports about VIPs.
	linkdDaemon   schema.Daemon
	egressdSet    *statefile.Set[schema.Status, *schema.Status]
	egressd       map[string]schema.Status
	egressdDaemon schema.Daemon
	complained    map[string]string
}

func newReports(stateDir string, uid func(string) int) *reports {
	return &reports{
		dirty: true, dir: stateDir, uid: uid,
		vipdSet:    statefile.NewSet[schema.Status](ownership.VIPs(stateDir, ownership.Vipd), uid(ownership.Vipd)),
		arpdSet:    statefile.NewSet[schema.Status](ownership.VIPs(stateDir, ownership.Arpd), uid(ownership.Arpd)),
		linkSet:    statefile.NewSet[schema.LinkStatus](ownership.Links(stateDir), uid(ownership.Linkd)),
		egressdSet: statefile.NewSet[schema.Status](ownership.VIPs(stateDir, ownership.Egressd), uid(ownership.Egressd)),
		bgpdSet:    statefile.NewSet[schema.Status](ownership.VIPs(stateDir, ownership.Bgpd), uid(ownership.Bgpd)),
		complained: map[string]string{},
	}
}

// read reads what changed and says whether the node's links, leases or
// tunnels did. What
// cannot be read stays as it was.
func (r *reports) read(log *slog.Logger) (links bool) {
	r.dirty = false
	r.vipd = statuses(r, log, r.vipdSet, ownership.Vipd, "vips")
	r.arpd = statuses(r, log, r.arpdSet, ownership.Arpd, "vips")
	leased := r.links
	r.links = statuses(r, log, r.linkSet, ownership.Linkd, "links")
	r.daemon(log, ownership.Linkd, &r.linkdDaemon)
	r.egressd = statuses(r, log, r.egressdSet, ownership.Egressd, "vips")
	tunnels := r.egressdDaemon.Tunnels
	r.daemon(log, ownership.Egressd, &r.egressdDaemon)
	r.bgpd = statuses(r, log, r.bgpdSet, ownership.Bgpd, "vips")
	r.daemon(log, ownership.Bgpd, &r.bgpdDaemon)
	before := r.vipdDaemon.Links
	r.daemon(log, ownership.Vipd, &r.vipdDaemon)
	r.daemon(log, ownership.Arpd, &r.arpdDaemon)
	return !reflect.DeepEqual(before, r.vipdDaemon.Links) || !sameLeases(leased, r.links) ||
		!slices.Equal(tunnels, r.egressdDaemon.Tunnels)
}

func statuses[T any, P schema.Pointer[T]](r *reports, log *slog.Logger, set *statefile.Set[T, P], daemon, dir string) map[string]T {
	docs, problems, err := set.Load()
	if errors.Is(err, fs.ErrNotExist) {
		err = nil // not started yet
	}
	r.complain(log, daemon, err)
	for what := range r.complained {
		if name, ok := strings.CutPrefix(what, daemon+"/"+dir+"/"); ok && problems[name] == nil {
			delete(r.complained, what)
		}
	}
	for name, err := range problems {
		r.complain(log, daemon+"/"+dir+"/"+name, err)
	}
	return docs
}

func (r *reports) daemon(log *slog.Logger, name string, into *schema.Daemon) {
	doc, err := statefile.Read[schema.Daemon](filepath.Join(ownership.Dir(r.dir, name), "daemon.json"), r.uid(name))
	if err == nil {
		*into = doc
	} else if errors.Is(err, fs.ErrNotExist) {
		err = nil // not started yet, or gone for good
	}
	r.complain(log, name+"/daemon", err)
}

// complain logs a problem once.
func (r *reports) complain(log *slog.Logger, what string, err error) {
	if err == nil {
		delete(r.complained, what)
		return
	}
	if text := err.Error(); r.complained[what] != text {
		r.complained[what] = text
		log.Warn("cannot read a report", "of", what, "err", err)
	}
}
