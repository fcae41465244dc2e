package claim

import (
	"fmt"
	"net/netip"
	"time"
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
	lease   Lease
	deleted bool
	record  *Record
}

// document is one VIP document; the lock's has index len(addrs).
type document struct {
	state      string
	generation int
}

// modelVipd is vipd and the kernel under it.
type modelVipd struct {
	process
	applied map[int]document
	fence   [2]time.Duration // node, control plane, on the node's own clock
	reading bool
	again   bool
}

type modelNode struct {
	m    *model
	name string
	rate float64
	base time.Duration

	elector process
	vipd    modelVipd
	life    int // counts elector's restarts

	machine *Machine
	lock    *Lock
	timer   time.Duration

	eligible       bool
	shape          int
	cutUntil       time.Duration
	relistAfterCut bool
	stream         int // watch connection
	lastDelivery   time.Duration

	probing map[netip.Addr]bool // arpd is at it

	docs   map[int]document // the state directory
	gen    int
	grants [2]time.Duration
	status map[int]document
}

func newModelNode(m *model, i int) *modelNode {
	n := &modelNode{
		m: m, name: fmt.Sprintf("n%d", i+1), eligible: true,
		rate: 1 + (m.rnd.Float64()*2-1)*.01, base: time.Duration(1+m.rnd.IntN(1000)) * time.Second,
		docs: map[int]document{}, status: map[int]document{}, probing: map[netip.Addr]bool{},
	}
	n.elector.m = m
	n.vipd.m = m
	n.vipd.applied = map[int]document{}
	n.start()
	return n
}

// clock is the node's CLOCK_BOOTTIME.
func (n *modelNode) clock() time.Duration {
	return n.base + time.Duration(float64(n.m.now)*n.rate)
}

func (n *modelNode) start() {
	n.machine, n.lock = New(n.name, modelTiming), NewLock(n.name, modelTiming)
	n.machine.flaws = n.m.weak.flaws
	held := map[netip.Addr]Ownership{}
	for i, d := range n.docs {
		o := Ownership{Phase: Draining, Epoch: 1}
		if d.state == "active" {
			o.Phase = Owned
		}
		if i == len(n.m.addrs) {
			n.lock.Resume(n.clock(), o, n.grants[1])
		} else {
			held[n.m.addrs[i]] = o
		}
	}
	n.machine.Resume(n.clock(), held, n.grants[0])
	n.m.after(n.m.delay(500*ms, 3*time.Second, .2), func() { n.relist() })
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
	stream := n.stream
	if n.m.now < n.cutUntil {
		n.m.after(n.cutUntil-n.m.now+10*ms, n.relist)
		return
	}
	var leases []Lease
	for _, l := range n.m.leases {
		leases = append(leases, l)
	}
	record := n.m.record
	life := n.life
	n.lastDelivery = max(n.lastDelivery, n.m.now+n.m.delay(10*ms, time.Second, .1))
	n.m.after(n.lastDelivery-n.m.now, func() {
		n.elector.do(func() {
			if stream != n.stream || life != n.life {
				return
			}
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
	if n.stream == 0 {
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
		n.machine.Observe(n.clock(), e.lease)
	}
}

func (n *modelNode) want() {
	n.machine.Want(n.clock(), n.m.groups(n.shape, n.eligible), true)
	n.lock.Want(n.clock(), n.eligible)
	n.settle()
}

// settle is the end of every step of reconcile: documents, grant, updates,
// probes, timer.
func (n *modelNode) settle() {
	now := n.clock()
	for _, ip := range n.m.addrs {
		if n.machine.State(ip).Phase == Probing && !n.probing[ip] {
			n.probing[ip] = true
			n.m.after(n.m.delay(200*ms, time.Second, .1), func() {
				n.elector.do(func() {
					n.probing[ip] = false
					n.machine.Probed(n.clock(), ip, true)
					n.settle()
				})
			})
		}
	}
	n.writeDocuments()
	n.writeGrants()
	n.readStatus()
	n.sendUpdates()
	next := min(n.machine.Deadline(now), n.lock.Deadline(now))
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

func (n *modelNode) writeDocuments() {
	wanted := map[netip.Addr]bool{}
	for _, g := range n.machine.groups {
		for _, ip := range g.Addresses {
			wanted[ip] = true
		}
	}
	changed := false
	for i := range len(n.m.addrs) + 1 {
		phase, unwanted := n.lock.Phase(), false
		if i < len(n.m.addrs) {
			phase, unwanted = n.machine.State(n.m.addrs[i]).Phase, !wanted[n.m.addrs[i]]
		}
		state := ""
		switch {
		case phase == Owned:
			state = "active"
		case phase == Draining && unwanted:
			state = "withdrawn"
		case phase == Draining || phase == Released:
			state = "draining"
		}
		if n.docs[i].state == state {
			continue
		}
		changed = true
		n.m.logf("%s writes address %d %q", n.name, i, state)
		if state == "active" {
			n.m.takeovers++
			if n.m.rnd.IntN(20) == 0 { // and away again, while vipd is at it
				n.flicker()
			}
		}
		n.gen++
		if state == "" {
			delete(n.docs, i)
		} else {
			n.docs[i] = document{state: state, generation: n.gen}
		}
	}
	if changed {
		n.wakeVipd(false)
	}
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
	if grants != n.grants {
		n.grants = grants
		n.wakeVipd(true)
	}
}

// readStatus is elector reading vipd's reports.
func (n *modelNode) readStatus() {
	now := n.clock()
	for i, d := range n.docs {
		s, ok := n.status[i]
		silent := ok && s.generation == d.generation && s.state != "active"
		if n.m.weak.noVersionedAck {
			silent = !ok || s.state != "active"
		}
		if d.state == "active" || !silent {
			continue
		}
		if i == len(n.m.addrs) {
			n.lock.Silent(now)
		} else {
			n.machine.Silent(now, n.m.addrs[i])
		}
	}
}

func (n *modelNode) sendUpdates() {
	if u, ok := n.machine.Next(n.clock()); ok {
		n.request(func() (uint64, bool) { return n.m.commit(n.name, u) },
			n.machine.Committed, n.machine.Failed, func() {
				n.machine.Rebase(n.clock(), n.m.leases[n.name].Version)
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

// fenceNow returns the fence as the kernel has it.
func (n *modelNode) fenceNow() [2]time.Duration { return n.vipd.fence }

// wakeVipd is a directory event. A grant alone extends an open fence without
// a look at the documents.
func (n *modelNode) wakeVipd(grantOnly bool) {
	v := &n.vipd
	n.m.after(n.m.delay(3*ms, 50*ms, .05), func() {
		v.do(func() {
			if open := n.clock() < v.fence[0] && n.clock() < v.fence[1]; grantOnly && open {
				v.fence = n.grants
				n.m.check()
				return
			}
			if v.reading {
				v.again = true
				return
			}
			n.pass()
		})
	})
}

// pass is one pass of vipd: grant, documents, mutes and removals, additions,
// fence; it may be frozen between any two.
func (n *modelNode) pass() {
	v := &n.vipd
	v.reading, v.again = true, false
	grants := n.grants
	then := func(f func()) { n.m.after(n.m.delay(ms, 20*ms, .05), func() { v.do(f) }) }
	then(func() {
		docs := make(map[int]document, len(n.docs))
		for i, d := range n.docs {
			docs[i] = d
		}
		then(func() {
			if n.m.weak.grantLast {
				grants = n.grants
			}
			v.applied = docs
			if n.clock() < grants[0] {
				v.fence[0] = grants[0]
			}
			if n.clock() < grants[1] {
				v.fence[1] = grants[1]
			}
			n.m.check()
			then(func() {
				n.status = docs
				n.m.after(n.m.delay(2*ms, 20*ms, .05), func() { n.elector.do(func() { n.settle() }) })
				v.reading = false
				if v.again {
					n.pass()
				}
			})
		})
	})
}

// claimsOnWire says whether the node's kernel lets frames out that claim the
// address: present, not muted, fence open.
func (n *modelNode) claimsOnWire(i int) bool {
	fence := n.vipd.fence[0]
	if i == len(n.m.addrs) {
		fence = n.vipd.fence[1]
	}
	return n.vipd.applied[i].state == "active" && n.clock() < fence
}
