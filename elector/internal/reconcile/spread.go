package reconcile

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/vipod/vipod/elector/internal/config"
	"github.com/vipod/vipod/elector/internal/intent"
	"github.com/vipod/vipod/elector/internal/kube"
	"github.com/vipod/vipod/elector/internal/plan"
	"github.com/vipod/vipod/shared/daemon"
	"github.com/vipod/vipod/shared/ownership"
	"github.com/vipod/vipod/shared/schema"
	"github.com/vipod/vipod/shared/statefile"
)

// announcer names the daemon, besides vipd, that an owner must rely on in a
// mode; "" for none.
func announcer(m config.Mode) string {
	switch m {
	case config.ModeBGP:
		return ownership.Bgpd
	case config.ModeWireGuard:
		return ownership.Egressd
	case config.ModeTable:
		return ""
	}
	return ownership.Arpd
}

// announcerOpen is gate.open of that daemon.
func (r *Reconciler) announcerOpen(now time.Duration) (ok bool, why string, until time.Duration) {
	name := r.arpd.daemon
	if name == "" {
		return true, "", never
	}
	report := r.reports.arpdDaemon
	switch name {
	case ownership.Bgpd:
		report = r.reports.bgpdDaemon
	case ownership.Egressd:
		report = r.reports.egressdDaemon
	}
	return r.arpd.open(now, slices.Contains(r.Config.Components, name), report, r.book.Node())
}

// spread is the document of a VIP that nobody owns. What this node serves it
// goes on to serve while it stops, as the worse choice, until others are asked
// by everybody.
func (r *Reconciler) spread(v *plan.VIP) *schema.VIP {
	return intent.Spread(*v, r.stopping.since != 0)
}

func appendDocument(docs []*schema.VIP, doc *schema.VIP) []*schema.VIP {
	if doc == nil {
		return docs
	}
	return append(docs, doc)
}

// spreading says whether this node announces anything that nobody owns.
func (r *Reconciler) spreading() bool {
	for _, doc := range r.book.VIPs() {
		if doc.Grant == schema.GrantNone && (doc.State == schema.StateActive || doc.State == schema.StateDraining) {
			return true
		}
	}
	return false
}

// announces says whether the daemon that makes the document's VIP known has
// done so.
func (r *Reconciler) announces(doc *schema.VIP) bool {
	if doc.Announces(schema.AnnounceWireGuard) {
		return r.tunnelled(doc) == schema.True
	}
	if !doc.Announces(schema.AnnounceBGP) {
		return true
	}
	report, ok := r.reports.bgpd[doc.Key]
	return ok && report.Observed == doc.Seen() && schema.IsTrue(report.Conditions, schema.ConditionAnnounced)
}

// lookAtSpread tells when this node should announce a VIP and does not.
func (r *Reconciler) lookAtSpread(now time.Duration, v *plan.VIP, doc *schema.VIP, state map[kube.Event]bool, unserved map[string]time.Duration) {
	if !v.Spread || !v.Eligible || r.serves(doc) {
		return
	}
	since, ok := r.unserved[v.Key]
	if !ok {
		since = now
	}
	unserved[v.Key] = since
	if at := since + r.Config.LeaseDuration + time.Second; now < at {
		r.observe.next = min(r.observe.next, at)
		return
	}
	message := "node " + r.Config.NodeName + " does not announce " + list(v.Addresses)
	if why := r.whyNotAnnounced(v.Key); why != "" {
		message += ": " + why
	}
	state[r.about(v, true, "NotAnnounced", "Announcing", message)] = true
}

func (r *Reconciler) whyNotAnnounced(key string) string {
	for _, of := range []struct {
		reports map[string]schema.Status
		kind    string
	}{{r.reports.bgpd, schema.ConditionAnnounced}, {r.reports.vipd, schema.ConditionPresent}} {
		if c, ok := schema.FindCondition(of.reports[key].Conditions, of.kind); ok && c.Status != schema.True {
			return c.Message
		}
	}
	return ""
}

// bgpSide is this node's side of BGP.
type bgpSide struct {
	current *schema.BGP // the last good one
	problem string
	file    []config.Peer // of the YAML file, the last good ones
	fileErr error
}

// followPeers has the YAML file of peers read again when it may have changed.
func (r *Reconciler) followPeers(ctx context.Context) {
	file := r.Config.BGP.File
	if file == "" || r.Config.Mode != config.ModeBGP {
		return
	}
	task := daemon.Follow("watch of peers", r.Changed.Fire, func(ctx context.Context, fire func()) error {
		return statefile.Watch(ctx, r.Log, fire, filepath.Dir(file))
	})
	go func() {
		if err := daemon.RunTasks(ctx, r.Log, task); err != nil {
			r.Log.Warn("watching peers; they are still read from time to time", "file", file, "err", err)
		}
	}()
}

// planBGP brings this node's side of BGP up to date; what is wrong leaves it
// as it was.
func (r *Reconciler) planBGP(nodes []plan.Node) {
	if r.Config.Mode != config.ModeBGP {
		return
	}
	in := plan.Speaker{Config: r.Config, Links: r.reports.vipdDaemon.Links, FilePeers: r.filePeers()}
	if i := slices.IndexFunc(nodes, func(n plan.Node) bool { return n.Name == r.Config.NodeName }); i >= 0 {
		in.Node = &nodes[i]
	}
	side, err := plan.BGP(in)
	if err == nil {
		r.bgp.current = side
		err = r.bgp.fileErr
	}
	problem := ""
	if err != nil {
		problem = err.Error()
	}
	if problem != "" && problem != r.bgp.problem {
		r.Log.Error("BGP settings", "err", problem)
		r.teller.tell(kube.Event{About: aboutNode(r.Config.NodeName), Warning: true, Reason: "BGPConfigRefused", Action: "Configuring",
			Message: problem + "; the last good settings stay"})
	}
	r.bgp.problem = problem
}

// filePeers reads the YAML file.
func (r *Reconciler) filePeers() []config.Peer {
	file := r.Config.BGP.File
	if file == "" {
		return nil
	}
	data, err := os.ReadFile(file)
	var peers []config.Peer
	if err == nil {
		peers, err = r.Config.BGP.ParsePeers(data)
	}
	if err != nil {
		r.bgp.fileErr = fmt.Errorf("vipod_bgp_config %s: %w", file, err)
		return r.bgp.file
	}
	r.bgp.file, r.bgp.fileErr = peers, nil
	return peers
}
