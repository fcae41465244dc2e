// Package report writes what a daemon has to say: daemon.json about itself and
// vips/<key>.json about each VIP. A Reporter remembers what it wrote, so that a
// condition keeps its time while its status does, an unchanged report costs
// nothing, and the reports of the process before it are taken over.
package report

import (
	"errors"
	"log/slog"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/vipod/vipod/shared/ownership"
	"github.com/vipod/vipod/shared/schema"
	"github.com/vipod/vipod/shared/statefile"
	"github.com/vipod/vipod/shared/trigger"
)

const daemonFile = "daemon"

// Reporter is the writer of one daemon's directory. It is not safe for
// concurrent use. What cannot be written is remembered until Finish.
type Reporter struct {
	log     *slog.Logger
	self    *statefile.Writer
	vips    *statefile.Writer // nil for a daemon that has nothing to say about VIPs
	daemon  schema.Daemon
	known   map[string]report
	errs    []error // since the last Finish
	failing bool
	backoff trigger.Backoff
}

// report is one that is on disk, or was to be.
type report struct {
	schema.Status
	written bool // by this process
}

// New returns the reporter of the named daemon; boot is this boot's id.
func New(log *slog.Logger, stateDir, daemon, boot string) (*Reporter, error) {
	instance := statefile.Instance(boot)
	self, err := statefile.NewWriter(ownership.Dir(stateDir, daemon), instance)
	if err != nil {
		return nil, err
	}
	r := &Reporter{
		log: log, self: self, daemon: schema.Daemon{Name: daemon}, known: map[string]report{},
		backoff: trigger.Backoff{Min: 100 * time.Millisecond, Max: 10 * time.Second},
	}
	if row, _ := ownership.Lookup(daemon); !row.ReportsVIPs() {
		return r, nil
	}
	return r, r.adopt(ownership.VIPs(stateDir, daemon), instance)
}

// adopt takes over the reports about VIPs of the process before. One that
// cannot be read is written anew, or removed, like any other.
func (r *Reporter) adopt(dir, instance string) (err error) {
	if r.vips, err = statefile.NewWriter(dir, instance); err != nil {
		return err
	}
	docs, _, err := statefile.NewSet[schema.Status](dir, os.Geteuid()).Load()
	if err != nil {
		return err
	}
	for _, key := range r.vips.Names() {
		r.known[key] = report{Status: docs[key]}
	}
	return nil
}

// Last returns the last report about a VIP, by this process or the one before
// it.
func (r *Reporter) Last(key string) (schema.Status, bool) {
	last, ok := r.known[key]
	return last.Status, ok
}

// Keys returns the VIPs that there are reports about, in order.
func (r *Reporter) Keys() []string { return slices.Sorted(maps.Keys(r.known)) }

// VIP brings the report about a VIP up to date. Times of conditions are filled
// in.
func (r *Reporter) VIP(s schema.Status) {
	last := r.known[s.Key]
	s.Conditions = since(last.Conditions, s.Conditions)
	if last.written && equal(last.Status, s) {
		return // most of thousands, on most passes
	}
	_, err := r.vips.Write(s.Key, &s)
	r.known[s.Key] = report{Status: s, written: err == nil}
	r.failed(err)
}

// since fills in the times of conditions from those of the last report.
func since(last, conditions []schema.Condition) []schema.Condition {
	now, list := time.Now(), make([]schema.Condition, 0, len(conditions))
	for _, c := range conditions {
		if old, ok := schema.FindCondition(last, c.Type); ok {
			list = append(list, old)
		}
		list = schema.SetCondition(list, c, now)
	}
	return list
}

func equal(a, b schema.Status) bool {
	return a.Observed == b.Observed && slices.Equal(a.Addresses, b.Addresses) && slices.Equal(a.Conditions, b.Conditions)
}

// Remove removes the report about a VIP.
func (r *Reporter) Remove(key string) {
	err := r.vips.Remove(key)
	if err == nil {
		delete(r.known, key)
	}
	r.failed(err)
}

// Self returns the daemon's last report about itself.
func (r *Reporter) Self() schema.Daemon { return r.daemon }

// Daemon brings the daemon's report about itself up to date. Its name and the
// times of conditions are filled in.
func (r *Reporter) Daemon(d schema.Daemon) {
	d.Name, d.Conditions = r.daemon.Name, since(r.daemon.Conditions, d.Conditions)
	_, err := r.self.Write(daemonFile, &d)
	r.daemon = d
	r.failed(err)
}

// CleanUp removes everything, when the pod goes for good.
func (r *Reporter) CleanUp() error {
	for _, key := range r.Keys() {
		r.Remove(key)
	}
	err := errors.Join(append(r.errs, r.self.Remove(daemonFile))...)
	r.errs = nil
	return err
}

func (r *Reporter) failed(err error) {
	if err != nil {
		r.errs = append(r.errs, err)
	}
}

// Finish ends a round of reports. When some could not be written, it returns
// how long to wait before the next round; others act on reports, so that no
// hand-over shall wait for a resync. A series of failures is logged once.
func (r *Reporter) Finish() (retry time.Duration, ok bool) {
	failing := len(r.errs) > 0
	switch {
	case failing && !r.failing:
		r.log.Error("cannot write reports", "err", r.errs[0], "errors", len(r.errs))
	case !failing && r.failing:
		r.log.Info("reports are written again")
	}
	r.failing, r.errs = failing, nil
	if failing {
		return r.backoff.Failed(), false
	}
	r.backoff.Reset()
	return 0, true
}

// Ready is the condition of a daemon whose last pass ended with err; heard says
// that elector has spoken.
func Ready(heard bool, err error) schema.Condition {
	c := schema.Condition{Type: schema.ConditionReady, Status: schema.True, Reason: "Working"}
	switch {
	case err != nil:
		c.Status, c.Reason, c.Message = schema.False, "PassFailed", err.Error()
	case !heard:
		c.Status, c.Reason, c.Message = schema.Unknown, "NoIntent", "there is no node document of elector yet"
	}
	return c
}
