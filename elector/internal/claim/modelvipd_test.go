package claim_test

import (
	"maps"
	"net/netip"
	"time"

	"github.com/vipod/vipod/shared/schema"
)

// modelVipd is vipd and the kernel under it.
type modelVipd struct {
	process
	n      *modelNode
	kernel map[netip.Addr]kernelAddress
	fence  [2]time.Duration // node, control plane, on the node's own clock
	seen   int64            // node.json as of the last pass
	failed bool             // the last pass

	failing time.Duration // passes fail until then
	reading bool
	again   bool
}

// kernelAddress is an address in the kernel. The fence covers every one.
type kernelAddress struct{ muted bool }

// wake is a directory event. A grant alone extends an open fence without a
// look at the documents, also amidst a pass.
func (v *modelVipd) wake(grantOnly bool) {
	n := v.n
	n.m.after(n.m.delay(3*ms, 50*ms, .05), func() {
		v.do(func() {
			held := func(g [2]time.Duration) bool { return n.clock() < g[0] && n.clock() < g[1] }
			if grantOnly && held(v.fence) && held(n.state.grants) && !v.failed && v.seen == n.state.node {
				v.fence = n.state.grants
				n.m.check()
				return
			}
			if v.reading {
				v.again = true
				return
			}
			v.pass()
		})
	})
}

// pass is one pass: grant, node.json, documents, mutes, removals, additions,
// fence, report. It may be frozen between any two, and fail amidst.
func (v *modelVipd) pass() {
	n := v.n
	v.reading, v.again = true, false
	then := func(f func()) { n.m.after(n.m.delay(ms, 20*ms, .05), func() { v.do(f) }) }
	grants := n.state.grants
	then(func() {
		node, synced := n.state.node, n.state.synced
		then(func() {
			docs := maps.Clone(n.state.docs)
			then(func() {
				v.seen = node
				v.failed = n.m.now < v.failing
				v.apply(docs, synced)
				v.open(grants)
				n.m.check()
				then(func() {
					if !v.failed || n.m.weak.reportAnyway {
						v.report(docs, node)
						n.m.after(n.m.delay(2*ms, 20*ms, .05), func() { n.elector.do(func() { n.settle() }) })
					}
					v.reading = false
					switch {
					case v.again:
						v.pass()
					case v.failed:
						n.m.after(50*ms+n.m.delay(ms, 500*ms, .5), func() { v.wake(false) })
					}
				})
			})
		})
	})
}

// apply makes the kernel match. In a pass that fails each change may be left
// out. Without complete documents what none of them names stays.
func (v *modelVipd) apply(docs map[string]*schema.VIP, synced bool) {
	wanted, gone := map[netip.Addr]kernelAddress{}, map[netip.Addr]bool{}
	for _, doc := range docs {
		for _, a := range doc.Addresses {
			if doc.State == schema.StateActive || doc.State == schema.StateDraining {
				w := wanted[a.IP]
				w.muted = w.muted || doc.State == schema.StateDraining
				wanted[a.IP] = w
			} else {
				gone[a.IP] = true
			}
		}
	}
	works := func() bool { return !v.failed || v.m.rnd.IntN(2) == 0 }
	for _, ip := range v.m.addrs {
		_, there := v.kernel[ip]
		w, ok := wanted[ip]
		switch {
		case ok && (w.muted || !v.kernel[ip].muted || !v.failed) && works():
			v.kernel[ip] = w // an address is unmuted at the end of a pass that works
		case !ok && there && (gone[ip] || synced) && works():
			delete(v.kernel, ip)
		}
	}
}

// open gives the grants to the fence. After a failure none is opened that has
// lapsed.
func (v *modelVipd) open(grants [2]time.Duration) {
	now := v.n.clock()
	for i, until := range grants {
		if !v.failed || now < v.fence[i] {
			v.fence[i] = until
		}
	}
}

// report answers for every document.
func (v *modelVipd) report(docs map[string]*schema.VIP, node int64) {
	statuses := map[string]schema.Status{}
	for key, doc := range docs {
		s := schema.Status{Key: key, Observed: doc.Seen()}
		muted := schema.True
		for _, a := range doc.Addresses {
			k, present := v.kernel[a.IP]
			if v.failed { // what vipd meant to do
				present = doc.State == schema.StateActive || doc.State == schema.StateDraining
				k.muted = doc.State == schema.StateDraining
			}
			s.Addresses = append(s.Addresses, schema.AddressStatus{IP: a.IP, Present: present})
			if !k.muted {
				muted = schema.False
			}
		}
		s.Conditions = []schema.Condition{{Type: schema.ConditionMuted, Status: muted}}
		statuses[key] = s
	}
	v.n.state.statuses, v.n.state.observed = statuses, node
}

// claimsOnWire says whether the node's kernel lets frames out that claim the
// address: present, not muted, fence open.
func (n *modelNode) claimsOnWire(i int) bool {
	fence := n.vipd.fence[0]
	if i == lockIndex {
		fence = n.vipd.fence[1]
	}
	k, there := n.vipd.kernel[n.m.addrs[i]]
	return there && !k.muted && n.clock() < fence
}
