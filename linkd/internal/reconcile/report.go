package reconcile

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/vipod/vipod/linkd/internal/client"
	"github.com/vipod/vipod/linkd/internal/lease"
	"github.com/vipod/vipod/linkd/internal/plan"
	"github.com/vipod/vipod/shared/bootclock"
	"github.com/vipod/vipod/shared/report"
	"github.com/vipod/vipod/shared/schema"
)

// report writes the report about the daemon and, after a pass that acted on
// the documents, about every VIP with links: until then the last ones stay
// true.
func (r *Reconciler) report() {
	r.self.Daemon(schema.Daemon{
		Observed:   r.docs.Seen(),
		Conditions: []schema.Condition{report.Ready(r.docs.Node != nil, r.passErr), r.docs.Problems.Condition()},
	})
	if !r.acted {
		return
	}
	answer := &Report{Links: r.linkReports()}
	for _, key := range slices.Sorted(maps.Keys(r.docs.VIPs)) {
		if vip := r.docs.VIPs[key]; len(vip.Links) > 0 {
			s := r.status(vip)
			answer.VIPs = append(answer.VIPs, reportOf(s))
			r.write(s)
		}
	}
	for _, key := range r.links.Names() {
		if vip := r.docs.VIPs[key]; len(vip.Links) == 0 && r.docs.Complete {
			if err := r.links.Remove(key); err != nil {
				r.unwritten(err)
			}
			delete(r.last, key)
		}
	}
	r.Metrics.count(r)
	r.answer.Store(answer)
}

// write writes one report; equal bytes are not written again.
func (r *Reconciler) write(s schema.LinkStatus) {
	last := r.last[s.Key]
	now := time.Now()
	var conditions []schema.Condition
	for _, c := range s.Conditions {
		if old, ok := schema.FindCondition(last.Conditions, c.Type); ok {
			conditions = append(conditions, old)
		}
		conditions = schema.SetCondition(conditions, c, now)
	}
	s.Conditions = conditions
	if _, err := r.links.Write(s.Key, &s); err != nil {
		r.unwritten(err)
		return
	}
	r.last[s.Key] = s
}

// unwritten has the pass come again.
func (r *Reconciler) unwritten(err error) {
	r.Log.Error("cannot write report", "err", err)
	r.soon(time.Now().Add(r.retry.Failed()))
}

// status is the report about one VIP.
func (r *Reconciler) status(vip schema.VIP) schema.LinkStatus {
	s := schema.LinkStatus{Key: vip.Key, Observed: vip.Seen(), Links: []schema.LinkState{}}
	linked := schema.Condition{Type: schema.ConditionLinked, Status: schema.True, Reason: "Up"}
	unlinked := schema.Condition{Type: schema.ConditionUnlinked, Status: schema.True, Reason: "Down"}
	no := func(c *schema.Condition, reason, message string) {
		if c.Status == schema.True {
			c.Status, c.Reason, c.Message = schema.False, reason, message
		}
	}
	for _, l := range vip.Links {
		v := r.verdicts[l.Name]
		state := schema.LinkState{Name: l.Name}
		if v.There {
			state.Index, state.MAC, state.Up, state.Owned = v.Index, v.MAC, v.Admin, v.Owned
		}
		s.Links = append(s.Links, state)
		switch {
		case vip.State == schema.StateWithdrawn:
			no(&linked, "NotWanted", "the VIP is withdrawn")
		case r.desired.Conflicts[vip.Key] == l.Name:
			no(&linked, "LinkConflict", fmt.Sprintf("another VIP needs link %s to be something else", l.Name))
		case v.Why != "":
			no(&linked, string(v.Why), r.explain(l, v))
		}
		if l.Kind == schema.LinkMacvlan && r.busy(l.Name) {
			no(&unlinked, "Up", fmt.Sprintf("link %s is in use", l.Name))
		}
	}
	s.Conditions = []schema.Condition{linked, unlinked}
	if l := vip.DHCPLink(); l != nil {
		s.Leases = r.leases(l.Name)
		s.Conditions = append(s.Conditions, r.leased(vip, *l, s.Leases))
	}
	return s
}

// busy says whether frames may leave by a macvlan of ours. One that is not ours
// cannot be held down; without a client it is only silent.
func (r *Reconciler) busy(link string) bool {
	for _, l := range r.state.Links {
		if l.Name == link && l.Admin && r.verdicts[link].Owned {
			return true
		}
	}
	return r.clients[clientKey{link, true}] != nil || r.clients[clientKey{link, false}] != nil
}

func (r *Reconciler) explain(l schema.LinkSpec, v plan.Verdict) string {
	switch v.Why {
	case plan.ParentMissing:
		return fmt.Sprintf("link %s, on which %s is to be, is not there", l.Parent, l.Name)
	case plan.WrongLink:
		return fmt.Sprintf("there is a link %s that vipod did not make and that is not a %s", l.Name, describe(l))
	case plan.LinkDown:
		return fmt.Sprintf("link %s, which vipod did not make, is down", l.Name)
	case plan.HeldDown:
		return fmt.Sprintf("link %s is held down: this node does not own the VIP", l.Name)
	}
	if err := r.failed[l.Name]; err != nil {
		return err.Error()
	}
	return fmt.Sprintf("link %s is not there yet", l.Name)
}

func describe(l schema.LinkSpec) string {
	if l.Kind == schema.LinkVLAN {
		return fmt.Sprintf("VLAN %d on %s", l.VLAN, l.Parent)
	}
	return fmt.Sprintf("macvlan in bridge mode on %s", l.Parent)
}

// leases are those of the link that count now.
func (r *Reconciler) leases(link string) []schema.Lease {
	var list []schema.Lease
	for _, is4 := range []bool{true, false} {
		key := clientKey{link, is4}
		if c := r.clients[key]; c != nil {
			if s := c.Status(); s.Held {
				list = append(list, r.toReport(link, s.Lease))
			}
		} else if kept, ok := r.kept[key]; ok && kept.index != 0 && kept.index == r.verdicts[link].Index && bootclock.Now() < kept.Expire {
			list = append(list, r.toReport(link, kept.Lease))
		}
	}
	return list
}

// leased says whether every address that is asked for was lent, and if not, what
// is being done about it.
func (r *Reconciler) leased(vip schema.VIP, l schema.LinkSpec, leases []schema.Lease) schema.Condition {
	c := schema.Condition{Type: schema.ConditionLeased, Status: schema.True, Reason: "Lent"}
	for _, is4 := range []bool{true, false} {
		has := slices.ContainsFunc(leases, func(l schema.Lease) bool { return l.IP.Is4() == is4 })
		if !l.DHCP.Wants(is4) || has {
			continue
		}
		c.Status = schema.False
		c.Reason, c.Message = r.whyNoLease(vip, l, is4)
		return c
	}
	return c
}

func (r *Reconciler) whyNoLease(vip schema.VIP, l schema.LinkSpec, is4 bool) (reason, message string) {
	protocol := "DHCPv6"
	if is4 {
		protocol = "DHCP"
	}
	client := r.clients[clientKey{l.Name, is4}]
	switch {
	case vip.State != schema.StateActive:
		return "NotWanted", "this node does not own the VIP"
	case client == nil && r.verdicts[l.Name].Why != "":
		return "NoLink", r.explain(l, r.verdicts[l.Name])
	case client == nil:
		return "LinkSettling", fmt.Sprintf("link %s has no address of its own for %s yet", l.Name, protocol)
	}
	s := client.Status()
	switch s.State {
	case lease.GivenUp:
		return "GivenUp", fmt.Sprintf("no %s server on link %s gave an address in %d attempts", protocol, l.Parent, s.Counts.Failed)
	case lease.Init:
		if s.Counts.Failed > 0 {
			return "NoServer", fmt.Sprintf("no %s server on link %s gives an address; asking again", protocol, l.Parent)
		}
	}
	return "Asking", fmt.Sprintf("asking %s servers on link %s", protocol, l.Parent)
}

// linkReports is every link with its clients, for people.
func (r *Reconciler) linkReports() []LinkReport {
	var list []LinkReport
	for _, w := range r.desired.Wants {
		v := r.verdicts[w.Name]
		lr := LinkReport{
			Name: w.Name, Kind: w.Kind, Parent: w.Parent, Index: v.Index, MAC: v.MAC, Up: v.Admin, Owned: v.Owned,
			Why: string(v.Why), Users: w.Users,
		}
		for _, is4 := range []bool{true, false} {
			if c := r.clients[clientKey{w.Name, is4}]; c != nil {
				lr.Clients = append(lr.Clients, clientReport(c.Status()))
			}
		}
		list = append(list, lr)
	}
	slices.SortFunc(list, func(a, b LinkReport) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

func clientReport(s client.Status) ClientReport {
	c := ClientReport{State: string(s.State), Counts: s.Counts}
	if s.Held {
		now := bootclock.Now()
		c.Address, c.Server = s.Lease.IP.String(), s.Lease.Server
		c.RenewIn, c.ExpiresIn = (s.Lease.Renew - now).Seconds(), (s.Lease.Expire - now).Seconds()
	}
	return c
}
