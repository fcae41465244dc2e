package claim_test

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/vipod/vipod/elector/internal/claim"
	"github.com/vipod/vipod/elector/internal/intent"
	"github.com/vipod/vipod/shared/schema"
)

// process runs what it is given in order, not while it is frozen.
type process struct {
	m       *model
	frozen  time.Duration
	backlog []func()
	waiting bool
}

func (p *process) freeze(until time.Duration) { p.frozen = max(p.frozen, until) }

func (p *process) do(f func()) {
	p.backlog = append(p.backlog, f)
	p.drain()
}

func (p *process) drain() {
	for len(p.backlog) > 0 && p.m.now >= p.frozen {
		f := p.backlog[0]
		p.backlog = p.backlog[1:]
		f()
	}
	if len(p.backlog) > 0 && !p.waiting {
		p.waiting = true
		p.m.after(p.frozen-p.m.now, func() { p.waiting = false; p.drain() })
	}
}

type watchEvent struct {
	lease   claim.Lease
	deleted bool
	record  *claim.Record
}

type modelNode struct {
	m    *model
	name string
	// id tells two nodes of one name apart.
	id   int
	rate float64
	base time.Duration

	elector process
	vipd    modelVipd
	life    int // counts elector's restarts

	machine *claim.Machine
	lock    *claim.Lock
	timer   time.Duration

	listed, known  bool // the Leases, and all else that a plan needs
	planned        bool
	eligible       bool
	shape          int
	cutUntil       time.Duration
	relistAfterCut bool
	stream         int  // watch connection
	watching       bool // its list was made: what is committed from now on comes
	lastDelivery   time.Duration

	probing map[netip.Addr]bool // arpd is at it

	ledger *intent.Ledger
	state  stateDir
}

func newModelNode(m *model, i int) *modelNode {
	n := &modelNode{
		m: m, name: fmt.Sprintf("n%d", i%realNodes+1), id: i, eligible: true,
		rate: 1 + (m.rnd.Float64()*2-1)*.01, base: time.Duration(1+m.rnd.IntN(1000)) * time.Second,
		probing: map[netip.Addr]bool{},
	}
	n.elector.m = m
	n.vipd = modelVipd{process: process{m: m}, n: n, kernel: map[netip.Addr]kernelAddress{}}
	n.start()
	return n
}

// clock is the node's CLOCK_BOOTTIME.
func (n *modelNode) clock() time.Duration {
	return n.base + time.Duration(float64(n.m.now)*n.rate)
}

// start starts the elector. The Leases and the rest of the cluster become
// known to it in any order; the documents are as an earlier process left them.
func (n *modelNode) start() {
	n.machine, n.lock = claim.New(n.name, modelTiming), claim.NewLock(n.name, modelTiming)
	n.machine.Weaken(n.m.weak.rule)
	n.ledger = intent.NewLedger()
	n.listed, n.known, n.planned = false, false, false
	n.state.writeNode(false)
	docs := map[string]schema.VIP{}
	for key, doc := range n.state.docs {
		n.ledger.Found(key, doc)
		docs[key] = *doc
	}
	held, lock := intent.Held(docs)
	n.machine.Resume(n.clock(), held, n.state.grants[0])
	n.lock.Resume(n.clock(), lock, n.state.grants[1])
	n.m.after(n.m.delay(500*ms, 3*time.Second, .2), func() { n.relist() })
	life := n.life
	n.m.after(n.m.delay(500*ms, 8*time.Second, .3), func() {
		n.elector.do(func() {
			if life == n.life {
				n.known = true
				n.want()
			}
		})
	})
}

// restart ends the elector and starts it anew; its requests in flight may
// still be committed.
func (n *modelNode) restart() {
	n.life++
	n.elector.backlog = nil
	n.start()
}

// relist closes the watch and makes a new one, which begins with a list.
func (n *modelNode) relist() {
	n.stream++
	n.watching = false
	stream := n.stream
	if n.m.now < n.cutUntil {
		n.m.after(n.cutUntil-n.m.now+10*ms, n.relist)
		return
	}
	n.watching = true
	var leases []claim.Lease
	for _, l := range n.m.leases {
		leases = append(leases, n.seenBy(l))
	}
	record := n.m.record
	life := n.life
	n.lastDelivery = max(n.lastDelivery, n.m.now+n.m.delay(10*ms, time.Second, .1))
	n.m.after(n.lastDelivery-n.m.now, func() {
		n.elector.do(func() {
			if stream != n.stream || life != n.life {
				return
			}
			n.listed = true
			n.machine.Relist(n.clock(), leases)
			if record != nil {
				n.lock.Observe(n.clock(), *record)
			} else {
				n.lock.Forget(n.clock())
			}
			n.want()
		})
	})
}

func (n *modelNode) healed() {
	if n.relistAfterCut && n.m.now >= n.cutUntil {
		n.relist()
	}
}

// deliver sends one event down the watch, in order, late, not during a cut.
func (n *modelNode) deliver(e watchEvent) {
	if !n.watching {
		return
	}
	stream, life := n.stream, n.life
	at := max(n.lastDelivery, n.cutUntil, n.m.now+n.m.delay(8*ms, 1500*ms, .05))
	n.lastDelivery = at
	n.m.after(at-n.m.now, func() {
		n.elector.do(func() {
			if stream != n.stream || life != n.life {
				return
			}
			n.observe(e)
			n.settle()
		})
	})
}

func (n *modelNode) observe(e watchEvent) {
	switch {
	case e.record != nil:
		n.lock.Observe(n.clock(), *e.record)
	case e.deleted:
		n.machine.Forget(n.clock(), e.lease.Node)
	default:
		n.machine.Observe(n.clock(), n.seenBy(e.lease))
	}
}

// seenBy is a Lease as this node reads it.
func (n *modelNode) seenBy(l claim.Lease) claim.Lease {
	l.Foreign = l.Node == n.name && n.m.writers[l.Version] != n.id
	return l
}

// want makes a plan, if everything for it is known.
func (n *modelNode) want() {
	if n.planned = n.planned || n.listed && n.known; n.planned {
		_, groups := n.m.plan(n.shape, n.eligible)
		n.machine.Want(n.clock(), groups, true)
		n.lock.Want(n.clock(), n.eligible)
	}
	n.settle()
}

// settle is the end of every step of reconcile: answers, documents, grant,
// updates, probes, timer.
func (n *modelNode) settle() {
	for _, ip := range n.m.addrs {
		if n.machine.State(ip).Phase == claim.Probing && !n.probing[ip] {
			n.probe(ip)
		}
	}
	n.readStatus()
	n.writeFiles()
	n.sendUpdates()
	n.setTimer()
}

func (n *modelNode) probe(ip netip.Addr) {
	n.probing[ip] = true
	n.m.after(n.m.delay(200*ms, time.Second, .1), func() {
		n.elector.do(func() {
			n.probing[ip] = false
			n.machine.Probed(n.clock(), ip, true)
			n.settle()
		})
	})
}

func (n *modelNode) setTimer() {
	now := n.clock()
	next := min(n.machine.Deadline(now), n.lock.Deadline(now), now+time.Minute)
	n.timer = n.m.now + max(time.Duration(float64(next-now)/n.rate), 0) + ms
	due, life := n.timer, n.life
	n.m.after(n.timer-n.m.now, func() {
		n.elector.do(func() {
			if life != n.life || due != n.timer {
				return
			}
			n.machine.Tick(n.clock())
			n.lock.Tick(n.clock())
			n.settle()
		})
	})
}

func (n *modelNode) sendUpdates() {
	n.lock.Beside(n.clock(), n.machine)
	if u, ok := n.machine.Next(n.clock()); ok {
		n.request(func() (uint64, bool) { return n.m.commit(n, u) },
			n.machine.Committed, n.machine.Failed, func() {
				if l := n.seenBy(n.m.leases[n.name]); !l.Foreign {
					n.machine.Rebase(n.clock(), l.Version)
				}
			})
	}
	if u, ok := n.lock.Next(n.clock()); ok {
		n.request(func() (uint64, bool) { return n.m.commitLock(u) },
			n.lock.Committed, n.lock.Failed, func() {
				if n.m.record != nil {
					n.lock.Rebase(n.clock(), *n.m.record)
				}
			})
	}
}

// request sends an update that may be lost, answered late, or committed long
// after its sender gave up.
func (n *modelNode) request(commit func() (uint64, bool), committed func(time.Duration, uint64),
	failed func(time.Duration), rebase func(),
) {
	life := n.life
	answer := func(d time.Duration, f func()) {
		n.m.after(d, func() {
			n.elector.do(func() {
				if life == n.life {
					f()
					n.settle()
				}
			})
		})
	}
	fate := n.m.rnd.Float64()
	if n.m.now < n.cutUntil || fate < .04 { // no answer
		if fate < .03 { // but committed, late
			n.m.after(n.m.delay(500*ms, 8*time.Second, .5), func() { commit() })
		}
		answer(time.Second, func() { failed(n.clock()) })
		return
	}
	n.m.after(n.m.delay(5*ms, 800*ms, .05), func() {
		version, ok := commit()
		d := n.m.delay(3*ms, 900*ms, .05)
		if ok {
			answer(d, func() { committed(n.clock(), version) })
			return
		}
		answer(d, func() { failed(n.clock()); rebase() })
	})
}
