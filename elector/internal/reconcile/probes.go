package reconcile

import (
	"maps"
	"slices"
	"time"

	"github.com/vipod/vipod/elector/internal/claim"
	"github.com/vipod/vipod/shared/schema"
)

// probed is an answer of arpd that was taken.
type probed struct {
	answer schema.Observed // the report itself
	at     time.Duration
}

// takeProbes tells the machine for which addresses arpd found nobody. An
// answer counts once: when it is too old to claim by, the document is written
// anew, for which arpd probes anew.
func (r *Reconciler) takeProbes(now time.Duration) {
	taken := map[string]probed{}
	for _, key := range slices.Sorted(maps.Keys(r.book.VIPs())) {
		doc := r.book.VIP(key)
		if doc.State != schema.StateStandby {
			continue
		}
		if r.Config.Mode.Routes() { // no frame claims the addresses: there is nobody to ask
			for _, a := range doc.Addresses {
				r.machine.Probed(now, a.IP, true)
			}
			continue
		}
		report, ok := r.reports.arpd[key]
		if !ok || report.Observed != doc.Seen() {
			continue
		}
		c, ok := schema.FindCondition(report.Conditions, schema.ConditionUnclaimed)
		if !ok || c.Status == schema.Unknown {
			continue
		}
		p := r.probes[key]
		if p.answer != report.Seen() {
			p = probed{report.Seen(), now}
			for _, a := range doc.Addresses {
				r.machine.Probed(now, a.IP, c.Status == schema.True || free(report, a.IP))
			}
		}
		taken[key] = p
		r.probeAgain[key] = c.Status == schema.True && now-p.at >= claim.Proven
	}
	r.probes = taken
	maps.DeleteFunc(r.probeAgain, func(key string, again bool) bool { _, ok := taken[key]; return !ok || !again })
}

// free says whether a report about a VIP of which some address is taken shows
// that this one is not.
func free(report schema.Status, ip addr) bool {
	named, taken := false, false
	for _, a := range report.Addresses {
		named = named || a.ConflictMAC != ""
		taken = taken || a.IP == ip && a.ConflictMAC != ""
	}
	return named && !taken
}
