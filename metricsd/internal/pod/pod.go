// Package pod looks at the whole pod through the state directory: what
// elector wants, what vipd, arpd and bgpd report, and how long the grants last. It
// writes nothing there and asks nobody; what only a socket tells is added by
// its callers.
package pod

import (
	"log/slog"
	"maps"
	"net/netip"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/vipod/vipod/shared/intent"
	"github.com/vipod/vipod/shared/ownership"
	"github.com/vipod/vipod/shared/schema"
	"github.com/vipod/vipod/shared/statefile"
)

// maxAddresses bounds what one VIP adds to the metrics. A Service has two
// addresses at most in the usual case; more than this is a mistake.
const maxAddresses = 64

// Snapshot is what the files say at one moment.
type Snapshot struct {
	// Node is nil until it has been read once.
	Node *schema.Node
	// Granted is how long each grant lasts, 0 if it is not held; it has
	// every grant that elector or a VIP names.
	Granted map[schema.GrantName]time.Duration
	// Daemons are the daemons' reports about themselves, by name.
	Daemons map[string]schema.Daemon
	// VIPs are ordered by key.
	VIPs []VIP
	// Problems say by path which files could not be read.
	Problems intent.Problems
}

// VIP is one VIP in the eyes of the daemons.
type VIP struct {
	Key string
	// Intent is elector's document, nil where a report has none any more.
	Intent *schema.VIP
	// Vipd, Arpd and Bgpd are the daemons' reports, nil where there is none.
	Vipd, Arpd, Bgpd *schema.Status
}

// Active says whether this node is to hold the VIP.
func (v VIP) Active() bool { return v.Intent != nil && v.Intent.State == schema.StateActive }

// Announced says whether arpd reports the first announcements as sent, or bgpd
// that peers were told; of a VIP with a tunnel, whether it is there.
func (v VIP) Announced() bool {
	report, condition := v.announcer(), schema.ConditionAnnounced
	if v.tunnelled() {
		report, condition = v.Vipd, schema.ConditionPresent
	}
	return v.Active() && report != nil && schema.IsTrue(report.Conditions, condition)
}

// tunnelled says whether the VIP is known by its tunnel, on whose link vipd
// puts it.
func (v VIP) tunnelled() bool { return v.Intent != nil && v.Intent.Announces(schema.AnnounceWireGuard) }

// announcer is the report of the daemon that announces the VIP.
func (v VIP) announcer() *schema.Status {
	if v.Intent != nil && v.Intent.Announces(schema.AnnounceBGP) {
		return v.Bgpd
	}
	return v.Arpd
}

// Present says for each address, wanted or reported, whether vipd sees it in
// the kernel.
func (v VIP) Present() map[netip.Addr]bool {
	present := map[netip.Addr]bool{}
	if v.Intent != nil {
		for _, a := range v.Intent.Addresses[:min(len(v.Intent.Addresses), maxAddresses)] {
			present[a.IP] = false
		}
	}
	if v.Vipd == nil {
		return present
	}
	for _, a := range v.Vipd.Addresses {
		if _, known := present[a.IP]; a.IP.IsValid() && (known || len(present) < maxAddresses) {
			present[a.IP] = present[a.IP] || a.Present
		}
	}
	return present
}

// Wanted says whether the address is one of the active VIP's.
func (v VIP) Wanted(ip netip.Addr) bool {
	return v.Active() && slices.ContainsFunc(v.Intent.Addresses, func(a schema.Address) bool { return a.IP == ip })
}

// Reader reads the state directory. It keeps the last good version of each
// document, and is safe for concurrent use.
type Reader struct {
	stateDir string
	now      func() time.Duration

	mu        sync.Mutex
	elector   *intent.Reader
	docs      intent.Documents
	vipd      *statefile.Set[schema.Status, *schema.Status]
	arpd      *statefile.Set[schema.Status, *schema.Status]
	bgpd      *statefile.Set[schema.Status, *schema.Status]
	failovers failovers
}

// NewReader returns a reader; boot and now are the clock that grants are
// compared with.
func NewReader(log *slog.Logger, stateDir, boot string, now func() time.Duration) *Reader {
	status := func(name string) *statefile.Set[schema.Status, *schema.Status] {
		return statefile.NewSet[schema.Status](ownership.VIPs(stateDir, name), ownership.UID(name))
	}
	return &Reader{
		stateDir: stateDir, now: now,
		elector: intent.NewReader(log, stateDir, boot),
		vipd:    status(ownership.Vipd),
		arpd:    status(ownership.Arpd),
		bgpd:    status(ownership.Bgpd),
	}
}

// Look reads everything that changed and returns the whole. It also returns
// the fail-overs that this look found finished.
func (r *Reader) Look() (Snapshot, []Failover) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.docs = r.elector.Load()
	s := Snapshot{Node: r.docs.Node, Problems: intent.Problems{}}
	for file, err := range r.docs.Problems {
		s.Problems[r.path(ownership.Elector, file)] = err
	}
	s.Daemons = r.daemons(s)
	s.VIPs = join(r.docs.VIPs, r.load(s, ownership.Vipd, r.vipd), r.load(s, ownership.Arpd, r.arpd),
		r.load(s, ownership.Bgpd, r.bgpd))
	now := r.now()
	s.Granted = granted(s.VIPs, r.docs.Grants, now)
	return s, r.failovers.observe(now, s.VIPs)
}

// Node returns elector's document about this node, nil until it could be read
// once. VIPs are read only when it changed.
func (r *Reader) Node() *schema.Node {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, changed := r.elector.LoadGrants(); changed {
		r.docs = r.elector.Load()
	}
	return r.docs.Node
}

func (r *Reader) path(daemon, file string) string {
	return filepath.Join(ownership.Dir(r.stateDir, daemon), file)
}

func (r *Reader) daemons(s Snapshot) map[string]schema.Daemon {
	daemons := map[string]schema.Daemon{}
	for _, d := range ownership.Table() {
		path := r.path(d.Name, "daemon.json")
		doc, err := statefile.Read[schema.Daemon](path, d.UID)
		s.Problems.Add(path, err)
		if err == nil {
			daemons[d.Name] = doc
		}
	}
	return daemons
}

// load returns the reports of one daemon. A directory that is not there is a
// daemon that has not run on this node.
func (r *Reader) load(s Snapshot, daemon string, set *statefile.Set[schema.Status, *schema.Status]) map[string]schema.Status {
	docs, problems, err := set.Load()
	s.Problems.Add(r.path(daemon, "vips"), err)
	for name, err := range problems {
		s.Problems.Add(r.path(daemon, "vips/"+name+".json"), err)
	}
	return docs
}

func join(intents map[string]schema.VIP, vipd, arpd, bgpd map[string]schema.Status) []VIP {
	byKey := map[string]*VIP{}
	get := func(key string) *VIP {
		if byKey[key] == nil {
			byKey[key] = &VIP{Key: key}
		}
		return byKey[key]
	}
	for key, doc := range intents {
		get(key).Intent = &doc
	}
	for key, doc := range vipd {
		get(key).Vipd = &doc
	}
	for key, doc := range arpd {
		get(key).Arpd = &doc
	}
	for key, doc := range bgpd {
		get(key).Bgpd = &doc
	}
	vips := make([]VIP, 0, len(byKey))
	for _, key := range slices.Sorted(maps.Keys(byKey)) {
		vips = append(vips, *byKey[key])
	}
	return vips
}

// granted has every grant that elector or a VIP names.
func granted(vips []VIP, grants schema.Grants, now time.Duration) map[schema.GrantName]time.Duration {
	granted := map[schema.GrantName]time.Duration{}
	for _, v := range vips {
		if v.Intent != nil && v.Intent.Grant != schema.GrantNone {
			granted[v.Intent.Grant] = grants.Left(v.Intent.Grant, now)
		}
	}
	for name := range grants {
		granted[name] = grants.Left(name, now)
	}
	return granted
}
