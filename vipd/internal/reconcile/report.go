package reconcile

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/vipod/vipod/shared/ownership"
	"github.com/vipod/vipod/shared/schema"
	"github.com/vipod/vipod/shared/statefile"
	"github.com/vipod/vipod/vipd/internal/plan"
)

// reporter writes status documents. It remembers what it wrote, so that
// conditions keep their times, and which documents there are.
type reporter struct {
	log    *slog.Logger
	self   *statefile.Writer
	vips   *statefile.Writer
	daemon schema.Daemon
	files  map[string]file
	failed string // last error, to log each once
}

// file is one status document that is on disk.
type file struct {
	conditions []schema.Condition
	// addresses are those that the file lists.
	addresses []netip.Addr
	// facts are what the file says, as far as a pass can change it.
	facts facts
}

// facts are equal when two passes would write the same.
type facts struct {
	observed   schema.Observed
	conditions string
	present    string
}

func newReporter(log *slog.Logger, dir, instance string) (*reporter, error) {
	self, err := statefile.NewWriter(dir, instance)
	if err != nil {
		return nil, err
	}
	vips, err := statefile.NewWriter(filepath.Join(dir, "vips"), instance)
	if err != nil {
		return nil, err
	}
	p := &reporter{log: log, self: self, vips: vips, files: map[string]file{}}
	p.daemon.Name = ownership.Vipd
	return p, p.adopt(filepath.Join(dir, "vips"))
}

// adopt takes over the reports of an earlier process, which say whose the
// addresses are that it left in the kernel. One that cannot be read is
// written anew or removed like any other.
func (p *reporter) adopt(dir string) error {
	docs, _, err := statefile.NewSet[schema.Status](dir, os.Geteuid()).Load()
	if err != nil {
		return err
	}
	for _, name := range p.vips.Names() {
		f := file{conditions: docs[name].Conditions}
		for _, a := range docs[name].Addresses {
			f.addresses = append(f.addresses, a.IP)
		}
		p.files[name] = f
	}
	return nil
}

// links reports the links when they differ from those reported last.
func (p *reporter) links(list []schema.Link) {
	if len(p.daemon.Conditions) == 0 {
		return // the first report is made at the end of the first pass
	}
	p.daemon.Links = list
	_ = p.writeDaemon() // again at the end of the pass
}

func (p *reporter) writeDaemon() error {
	doc := p.daemon
	doc.Conditions = slices.Clone(doc.Conditions)
	_, err := p.self.Write("daemon", &doc)
	return err
}

// note logs a failure to write once; what the kernel does is not held up by
// a full disk.
func (p *reporter) note(err error) {
	switch {
	case err != nil && p.failed != err.Error():
		p.log.Error("cannot write status", "err", err)
		p.failed = err.Error()
	case err == nil && p.failed != "":
		p.failed = ""
	}
}

// reportAll writes the status of the daemon and, after a pass that acted on
// the documents, of every VIP: until then the last reports stay true.
func (r *Reconciler) reportAll(now time.Time) error {
	errs := []error{r.reportDaemon(now)}
	if r.acted {
		verdicts := plan.Judge(r.desired, r.actual)
		left := plan.Leftovers(r.desired, r.actual)
		snap := &Snapshot{Fence: r.fence}
		for _, key := range sortedKeys(r.docs.VIPs) {
			vip := r.docs.VIPs[key]
			errs = append(errs, r.reportVIP(vip, verdicts, left, now))
			snap.VIPs = append(snap.VIPs, r.row(vip, verdicts))
		}
		errs = append(errs, r.removeReports(left))
		r.Metrics.count(verdicts)
		r.snapshot.Store(snap)
	}
	err := errors.Join(errs...)
	r.report.note(err)
	return err
}

func (r *Reconciler) reportVIP(vip schema.VIP, verdicts map[netip.Addr]plan.Verdict, left map[netip.Addr]string, now time.Time) error {
	f := r.report.files[vip.Key]
	status := schema.Status{Key: vip.Key, Observed: vip.Seen()}
	conditions := r.conditions(vip, verdicts)
	for _, a := range vip.Addresses {
		v := verdicts[a.IP]
		link := a.Interface
		if v.Link != "" {
			link = v.Link
		}
		status.Addresses = append(status.Addresses, schema.AddressStatus{IP: a.IP, Interface: link, Present: v.Present})
	}
	// What the document does not name any more is listed until it is gone.
	for _, ip := range f.addresses {
		link, still := left[ip]
		if still && !slices.ContainsFunc(vip.Addresses, func(a schema.Address) bool { return a.IP == ip }) {
			status.Addresses = append(status.Addresses, schema.AddressStatus{IP: ip, Interface: link, Present: true})
		}
	}
	current := factsOf(status, conditions)
	if f.facts == current {
		return nil // most of thousands, on most passes
	}
	f.addresses = nil
	for _, a := range status.Addresses {
		f.addresses = append(f.addresses, a.IP)
	}
	for _, c := range conditions {
		f.conditions = schema.SetCondition(f.conditions, c, now)
	}
	status.Conditions = slices.Clone(f.conditions)
	_, err := r.report.vips.Write(vip.Key, &status)
	if f.facts = current; err != nil {
		f.facts = facts{} // to be written by the next pass
	}
	r.report.files[vip.Key] = f
	return err
}

func factsOf(s schema.Status, conditions []schema.Condition) facts {
	var text, present strings.Builder
	for _, c := range conditions {
		text.WriteString(string(c.Status) + " " + c.Reason + " " + c.Message + "\n")
	}
	for _, a := range s.Addresses {
		present.WriteString(a.IP.String() + " " + a.Interface)
		if a.Present {
			present.WriteString("+")
		}
		present.WriteString("\n")
	}
	return facts{observed: s.Observed, conditions: text.String(), present: present.String()}
}

// conditions says how a VIP stands.
func (r *Reconciler) conditions(vip schema.VIP, verdicts map[netip.Addr]plan.Verdict) []schema.Condition {
	present := schema.Condition{Type: schema.ConditionPresent, Status: schema.True, Reason: "InKernel"}
	muted := schema.Condition{Type: schema.ConditionMuted, Status: schema.True, Reason: "Draining"}
	fenced := schema.Condition{Type: schema.ConditionFenced, Status: schema.True, Reason: "Fenced"}
	no := func(c *schema.Condition, reason, message string) {
		if c.Status == schema.True {
			c.Status, c.Reason, c.Message = schema.False, reason, message
		}
	}
	if len(vip.Addresses) == 0 {
		no(&present, "NoAddresses", "the document has no addresses")
		no(&fenced, "NoAddresses", "")
	}
	for _, a := range vip.Addresses {
		v, wanted := verdicts[a.IP]
		switch {
		case !wanted:
			no(&present, "NotWanted", fmt.Sprintf("the VIP is %s", vip.State))
			no(&fenced, "NotWanted", "")
		case !v.Present:
			no(&present, string(v.Why), r.explain(a, v))
		}
		switch {
		case !r.fence:
			no(&fenced, "NoNftables", "the kernel has no nf_tables egress hook: address lifetimes are the only fence")
		case vip.Grant == schema.GrantNone:
			no(&fenced, "NoGrantNeeded", "")
		case !v.Fenced:
			no(&fenced, "NotFenced", fmt.Sprintf("%s is not behind the fence", a.IP))
		}
		if !v.Muted {
			no(&muted, "NotMuted", "")
		}
	}
	return []schema.Condition{present, muted, fenced}
}

func (r *Reconciler) explain(a schema.Address, v plan.Verdict) string {
	switch v.Why {
	case plan.ForeignAddress:
		return fmt.Sprintf("%s is on this node already and not ours", a.IP)
	case plan.LinkMissing:
		return fmt.Sprintf("there is no link %s", v.Link)
	case plan.LinkDown:
		return fmt.Sprintf("link %s is down", v.Link)
	case plan.LinkSettling:
		return fmt.Sprintf("link %s has just come up", v.Link)
	case plan.NotGranted:
		return "the grant is not held"
	case plan.NotMutable:
		return "without nf_tables a VIP is muted by being absent"
	}
	if err := r.failed[a.IP]; err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%s is not in the kernel yet", a.IP)
}

// removeReports removes the status of VIPs that have no document any more
// and of which nothing is left in the kernel.
func (r *Reconciler) removeReports(left map[netip.Addr]string) error {
	var errs []error
	for name, f := range r.report.files {
		if _, ok := r.docs.VIPs[name]; ok {
			continue
		}
		if slices.ContainsFunc(f.addresses, func(ip netip.Addr) bool { return left[ip] != "" }) {
			continue
		}
		if err := r.report.vips.Remove(name); err != nil {
			errs = append(errs, err)
			continue
		}
		delete(r.report.files, name)
	}
	return errors.Join(errs...)
}

func (r *Reconciler) reportDaemon(now time.Time) error {
	d := &r.report.daemon
	ready := schema.Condition{Type: schema.ConditionReady, Status: schema.True, Reason: "Working"}
	switch {
	case r.docs.Node == nil:
		ready.Status, ready.Reason, ready.Message = schema.Unknown, "NoIntent", "there is no node document of elector yet"
	case r.passErr != nil:
		ready.Status, ready.Reason, ready.Message = schema.False, "PassFailed", r.passErr.Error()
	}
	d.Observed = r.docs.Seen()
	d.Conditions = schema.SetCondition(d.Conditions, ready, now)
	d.Conditions = schema.SetCondition(d.Conditions, r.docs.Problems.Condition(), now)
	d.Links = r.linkReport()
	return r.report.writeDaemon()
}
