package reconcile

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/vipod/vipod/bgpd/internal/plan"
	"github.com/vipod/vipod/bgpd/internal/session"
	"github.com/vipod/vipod/shared/report"
	"github.com/vipod/vipod/shared/schema"
)

// reportAll writes the reports and returns when to do so again at the latest.
func (r *reporter) reportAll() time.Duration {
	r.view = r.seen.Load()
	states := r.speaker.States()
	r.reports.Daemon(schema.Daemon{
		Observed: r.docs.Seen(), Conditions: r.conditions(states),
	})
	if r.set {
		for _, key := range slices.Sorted(maps.Keys(r.docs.VIPs)) {
			r.reportVIP(r.docs.VIPs[key], states)
		}
	}
	for _, key := range r.reports.Keys() {
		if _, ok := r.docs.VIPs[key]; !ok && r.docs.Complete {
			r.reports.Remove(key)
		}
	}
	r.metrics.show(states, len(r.wanted.Paths))
	r.answer.Store(r.snapshot(states))
	if wait, ok := r.reports.Finish(); !ok {
		return wait
	}
	return never
}

// reportVIP reports about a VIP whether peers know it.
func (r *reporter) reportVIP(v schema.VIP, states map[string]session.State) {
	if !v.Announces(schema.AnnounceBGP) {
		if _, ok := r.reports.Last(v.Key); ok {
			r.reports.Remove(v.Key)
		}
		return
	}
	s := schema.Status{Key: v.Key, Observed: v.Seen(), Conditions: []schema.Condition{r.announced(v, states)}}
	for _, a := range v.Addresses {
		s.Addresses = append(s.Addresses, schema.AddressStatus{IP: a.IP, Interface: a.Interface})
	}
	r.reports.VIP(s)
}

// announced is True when each address was told to a peer at least.
func (r *reporter) announced(v schema.VIP, states map[string]session.State) schema.Condition {
	c := schema.Condition{Type: schema.ConditionAnnounced, Status: schema.True, Reason: "Announced"}
	if why := r.why[v.Key]; why != "" {
		c.Status, c.Reason, c.Message = schema.False, string(why), explain(why, v)
		return c
	}
	var peers []string
	names := slices.Sorted(maps.Keys(states))
	for _, a := range v.Addresses {
		told := toldTo(plan.Host(a.IP), names, states)
		if len(told) == 0 {
			c.Status, c.Reason = schema.False, "NoPeer"
			c.Message = fmt.Sprintf("%s was told to no peer: %s", a.IP, r.complaint(states))
			return c
		}
		peers = append(peers, told...)
	}
	slices.Sort(peers)
	c.Message = "told to " + strings.Join(slices.Compact(peers), ", ")
	if v.State == schema.StateDraining {
		c.Reason = "Leaving"
	}
	return c
}

// toldTo returns the peers that know a path.
func toldTo(p netip.Prefix, names []string, states map[string]session.State) (peers []string) {
	for _, name := range names {
		if states[name].Sent.Has(p) {
			peers = append(peers, name)
		}
	}
	return peers
}

func explain(why plan.Reason, v schema.VIP) string {
	switch why {
	case plan.NotActive:
		return fmt.Sprintf("the document's state is %s", v.State)
	case plan.NoGrant:
		return "this node holds no valid grant"
	}
	return ""
}

// complaint says in one line what is wrong with the peers.
func (r *reporter) complaint(states map[string]session.State) string {
	names := r.names()
	if len(names) == 0 {
		return "no peer is configured for this node"
	}
	const most = 5
	var parts []string
	for i, name := range names {
		if i == most {
			parts = append(parts, fmt.Sprintf("and %d more", len(names)-most))
			break
		}
		if text := r.problem(name, states[name]); text != "" {
			parts = append(parts, name+": "+text)
		}
	}
	return strings.Join(parts, "; ")
}

// problem says what is wrong with a peer, "" for nothing.
func (r *reporter) problem(name string, st session.State) string {
	var parts []string
	if text := r.problems[name]; text != "" {
		parts = append(parts, text)
	}
	if st.Phase != session.Established && st.Problem != "" {
		parts = append(parts, st.Problem)
	} else if st.Phase != session.Established && len(parts) == 0 {
		parts = append(parts, "no session yet")
	}
	for _, f := range slices.Sorted(maps.Keys(st.Missing)) {
		parts = append(parts, st.Missing[f])
	}
	if st.BFDProblem != "" {
		parts = append(parts, st.BFDProblem)
	}
	return strings.Join(parts, ", ")
}

// conditionPeers, of bgpd about itself: there is a session with every peer.
// Where BGP is off there is no such condition.
const conditionPeers = "PeersEstablished"

// conditionListening, of bgpd about itself: peers can open sessions. Where that
// is not asked for there is no such condition.
const conditionListening = "Listening"

func (r *reporter) conditions(states map[string]session.State) []schema.Condition {
	out := []schema.Condition{report.Ready(r.docs.Node != nil, nil), r.docs.Problems.Condition()}
	if r.docs.Settings().BGP != nil {
		out = append(out, r.peersCondition(states))
	}
	if r.wanted.Listen {
		c := schema.Condition{Type: conditionListening, Status: schema.True, Reason: "Listening"}
		if problem := r.speaker.Problem(); problem != "" {
			c.Status, c.Reason, c.Message = schema.False, "NotListening", problem
		}
		out = append(out, c)
	}
	return out
}

func (r *reporter) peersCondition(states map[string]session.State) schema.Condition {
	c := schema.Condition{Type: conditionPeers, Status: schema.True, Reason: "Established"}
	names, up := r.names(), 0
	for _, name := range names {
		if states[name].Phase == session.Established {
			up++
		}
	}
	switch {
	case len(names) == 0:
		c.Status, c.Reason, c.Message = schema.Unknown, "NoPeers", r.complaint(states)
	case !r.set:
		c.Status, c.Reason, c.Message = schema.Unknown, "NotComplete", "elector has not written all documents yet"
	case up < len(names):
		c.Status, c.Reason = schema.False, "NotEstablished"
		c.Message = fmt.Sprintf("%d of %d sessions are up; %s", up, len(names), r.complaint(states))
	}
	return c
}
