package claim_test

import (
	"net/netip"
	"time"

	"github.com/vipod/vipod/elector/internal/claim"
	"github.com/vipod/vipod/elector/internal/intent"
	"github.com/vipod/vipod/elector/internal/plan"
	"github.com/vipod/vipod/shared/schema"
)

// stateDir is what elector and vipd tell each other. It outlives both.
type stateDir struct {
	docs       map[string]*schema.VIP
	generation int64 // of the last document of elector's
	node       int64 // generation of node.json
	synced     bool  // node.json says so
	grants     [2]time.Duration

	statuses map[string]schema.Status
	observed int64 // node.json as vipd acts on it
}

func (s *stateDir) writeNode(synced bool) {
	s.generation++
	s.node, s.synced = s.generation, synced
}

// put writes a document.
func (s *stateDir) put(doc *schema.VIP) {
	if s.docs == nil {
		s.docs = map[string]*schema.VIP{}
	}
	s.generation++
	doc.Generation = s.generation
	s.docs[doc.Key] = doc
}

// writeFiles writes documents, grant and node.json, in this order. To write
// many documents takes its time.
func (n *modelNode) writeFiles() {
	if !n.m.weak.grantFirst {
		n.writeDocuments()
		n.writeGrants()
	} else {
		n.writeGrants()
		life := n.life
		n.m.after(n.m.delay(20*ms, 100*ms, .3), func() {
			n.elector.do(func() {
				if life == n.life {
					n.writeDocuments()
				}
			})
		})
	}
	if !n.planned || n.state.synced {
		return
	}
	life := n.life
	n.m.after(n.m.delay(10*ms, 300*ms, .3), func() {
		n.elector.do(func() {
			if life == n.life && !n.state.synced {
				n.state.writeNode(true)
				n.vipd.wake(false)
			}
		})
	})
}

func (n *modelNode) writeDocuments() {
	var remove []string
	var put []*schema.VIP
	switch {
	case n.planned:
		remove, put = n.ledger.Changes(n.documents())
	case !n.m.weak.keepForfeited:
		put = n.ledger.Carry(func(_ schema.GrantName, ip netip.Addr) claim.Phase { return n.phase(ip) })
	}
	changed := len(remove) > 0
	for _, key := range remove {
		delete(n.state.docs, key)
		n.ledger.Removed(key)
	}
	for _, doc := range put {
		changed = n.put(doc) || changed
	}
	if changed {
		n.vipd.wake(false)
	}
}

func (n *modelNode) put(doc *schema.VIP) (changed bool) {
	was := n.state.docs[doc.Key]
	if was != nil && same(was, doc) {
		return false
	}
	n.m.logf("%s writes %s %s %s", n.name, doc.Key, doc.State, addresses(doc))
	if n.m.weak.dropForfeited && doc.State == schema.StateWithdrawn {
		delete(n.state.docs, doc.Key)
		n.ledger.Removed(doc.Key)
		return true
	}
	if doc.State == schema.StateActive && (was == nil || was.State != schema.StateActive) {
		n.m.takeovers++
		if n.m.rnd.IntN(20) == 0 { // and away again, while vipd is at it
			n.flicker()
		}
	}
	n.state.put(doc)
	n.ledger.Wrote(doc, true)
	return true
}

func same(a, b *schema.VIP) bool {
	return a.State == b.State && addresses(a) == addresses(b)
}

func addresses(doc *schema.VIP) string {
	var ips []netip.Addr
	for _, a := range doc.Addresses {
		ips = append(ips, a.IP)
	}
	return short(ips)
}

// documents are those of the plan as of what this node owns.
func (n *modelNode) documents() (docs []*schema.VIP) {
	vips, _ := n.m.plan(n.shape, n.eligible)
	for _, v := range vips {
		docs = append(docs, intent.Documents(v, n.machine.State, n.ledger.VIP(v.Key))...)
	}
	cp := plan.VIP{
		Key: schema.ControlPlaneKey, Kind: schema.KindControlPlane,
		Addresses: []schema.Address{n.m.address(lockIndex)},
	}
	if doc := intent.ControlPlane(cp, n.lock.Phase(), n.lock.Epoch(), n.ledger.VIP(cp.Key)); doc != nil {
		docs = append(docs, doc)
	}
	return docs
}

func (n *modelNode) phase(ip netip.Addr) claim.Phase {
	if ip == n.m.addrs[lockIndex] {
		return n.lock.Phase()
	}
	return n.machine.State(ip).Phase
}

// flicker makes the node ineligible for a short while.
func (n *modelNode) flicker() {
	set := func(d time.Duration, eligible bool) {
		n.m.after(d, func() {
			n.eligible = eligible
			n.elector.do(n.want)
		})
	}
	set(n.m.delay(2*ms, 20*ms, .1), false)
	set(300*ms, true)
}

func (n *modelNode) writeGrants() {
	grants := [2]time.Duration{n.machine.Grant(), n.lock.Grant()}
	if grants != n.state.grants {
		n.state.grants = grants
		n.vipd.wake(true)
	}
}

// readStatus is elector reading vipd's reports.
func (n *modelNode) readStatus() {
	statuses := n.state.statuses
	if n.m.weak.noVersionedAck {
		statuses = map[string]schema.Status{}
		for key, doc := range n.ledger.VIPs() {
			s, ok := n.state.statuses[key]
			if !ok {
				s.Conditions = []schema.Condition{{Type: schema.ConditionMuted, Status: schema.True}}
			}
			s.Observed = doc.Seen()
			statuses[key] = s
		}
	}
	swept := n.state.synced && n.state.observed == n.state.node
	n.ledger.Acknowledge(statuses, swept)
	exposed, now := n.ledger.Exposures(), n.clock()
	for _, ip := range n.m.addrs {
		if n.phase(ip) == claim.Draining && !exposed[ip] {
			if ip == n.m.addrs[lockIndex] {
				n.lock.Silent(now)
			} else {
				n.machine.Silent(now, ip)
			}
		}
	}
}
