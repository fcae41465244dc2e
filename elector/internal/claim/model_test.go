package claim_test

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/vipod/vipod/elector/internal/claim"
	"github.com/vipod/vipod/elector/internal/plan"
	"github.com/vipod/vipod/shared/schema"
)

// The model is a whole cluster under a virtual clock: an API server that
// commits updates one after another, nodes whose elector and vipd are frozen,
// cut off, restarted and late, whose vipd fails half-way, and whose clocks run
// at different rates. The machines under test are the real ones, and so is
// what decides about documents and answers.

const ms = time.Millisecond

type event struct {
	at  time.Duration
	seq int
	run func()
}

type queue []event

func (q queue) Len() int { return len(q) }
func (q queue) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].seq < q[j].seq
}
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)   { *q = append(*q, x.(event)) }
func (q *queue) Pop() any {
	old := *q
	e := old[len(old)-1]
	*q = old[:len(old)-1]
	return e
}

// model is one run.
type model struct {
	rnd   *rand.Rand
	now   time.Duration
	queue queue
	seq   int
	nodes []*modelNode
	addrs []netip.Addr
	weak  weakness

	version uint64
	leases  map[string]claim.Lease
	writers map[uint64]int // who wrote which version
	record  *claim.Record

	// when an elector last started and a Lease was last deleted
	started, deleted time.Duration

	violation string
	takeovers int
	trace     []string
	tracing   bool
}

// weakness takes a rule out of the machines or of what surrounds them.
type weakness struct {
	rule             string // of the machine, see Weaken
	noCompareAndSwap bool   // the API server takes every update
	noVersionedAck   bool   // any report of silence counts
	grantFirst       bool   // elector writes the grant before the documents
	keepForfeited    bool   // documents of before a restart stay until the plan
	dropForfeited    bool   // what was forfeited is removed and not withdrawn
	reportAnyway     bool   // vipd reports after a pass that failed
	twins            bool   // a fourth node has the name of the first; no rule, but a mishap
}

func (m *model) after(d time.Duration, run func()) {
	m.seq++
	heap.Push(&m.queue, event{at: m.now + d, seq: m.seq, run: run})
}

func (m *model) logf(format string, args ...any) {
	if m.tracing {
		m.trace = append(m.trace, fmt.Sprintf("%9.4f ", m.now.Seconds())+fmt.Sprintf(format, args...))
	}
}

// delay is how long something usually takes, and now and then far longer.
func (m *model) delay(usual time.Duration, tail time.Duration, chance float64) time.Duration {
	if m.rnd.Float64() < chance {
		return time.Duration(m.rnd.Int64N(int64(tail)))
	}
	return time.Duration(m.rnd.Int64N(int64(usual))) + 100*time.Microsecond
}

const (
	modelRun    = 90 * time.Second
	modelFaults = 16
	realNodes   = 3
)

var modelTiming = claim.Timing{Duration: 5 * time.Second, Renew: time.Second}

// runModel runs one random schedule and returns the first moment at which two
// nodes claim one address, "" for none.
func runModel(seed uint64, weak weakness, tracing bool) *model {
	m := &model{
		rnd: rand.New(rand.NewPCG(seed, 1)), weak: weak, tracing: tracing,
		leases: map[string]claim.Lease{}, writers: map[uint64]int{},
	}
	for i := range lockIndex + 1 {
		m.addrs = append(m.addrs, netip.AddrFrom4([4]byte{198, 51, 100, byte(200 + i)}))
	}
	nodes := realNodes
	if weak.twins {
		nodes++
	}
	for i := range nodes {
		m.nodes = append(m.nodes, newModelNode(m, i))
	}
	for range modelFaults {
		m.after(time.Duration(m.rnd.Int64N(int64(modelRun-10*time.Second))), m.fault)
	}
	for m.queue.Len() > 0 && m.violation == "" {
		e := heap.Pop(&m.queue).(event)
		if e.at > modelRun {
			break
		}
		m.now = e.at
		e.run()
	}
	return m
}

// fault does something bad to somebody.
func (m *model) fault() {
	n := m.nodes[m.rnd.IntN(len(m.nodes))]
	spans := []time.Duration{20 * ms, 300 * ms, time.Second, 3 * time.Second, 4600 * ms, 5100 * ms, 6 * time.Second, 12 * time.Second}
	d := spans[m.rnd.IntN(len(spans))]
	switch k := m.rnd.IntN(20); {
	case k < 5:
		m.logf("%s cut off for %v", n.name, d)
		n.cutUntil = max(n.cutUntil, m.now+d)
		n.relistAfterCut = m.rnd.IntN(2) == 0
		m.after(n.cutUntil-m.now, n.healed)
	case k < 8:
		m.logf("%s elector frozen for %v", n.name, d)
		n.elector.freeze(m.now + d)
	case k < 10:
		m.logf("%s vipd frozen for %v", n.name, d)
		n.vipd.freeze(m.now + d)
	case k < 13:
		m.logf("%s frozen for %v", n.name, d)
		n.elector.freeze(m.now + d)
		n.vipd.freeze(m.now + d)
	case k < 15:
		if m.now < m.deleted+2*modelTiming.Duration {
			break // see deleteLease
		}
		m.logf("%s elector restarts", n.name)
		m.started = m.now
		n.restart()
	case k < 16:
		m.logf("%s passes of vipd fail for %v", n.name, d)
		n.vipd.failing = max(n.vipd.failing, m.now+d)
	case k < 17:
		m.logf("%s relists", n.name)
		n.relist()
	case k < 18:
		m.logf("Lease of %s deleted", n.name)
		m.deleteLease(n.name)
	default:
		n.eligible = !n.eligible
		m.logf("%s eligible: %v", n.name, n.eligible)
		n.elector.do(func() { n.want() })
		m.after(d, func() { n.eligible = true; n.elector.do(func() { n.want() }) })
	}
	if m.rnd.IntN(3) == 0 { // a Service comes, goes, or joins another
		shape := m.rnd.IntN(len(shapes))
		m.logf("groups: shape %d", shape)
		for _, n := range m.nodes {
			m.after(m.delay(20*ms, 2*time.Second, .1), func() { n.shape = shape; n.elector.do(func() { n.want() }) })
		}
	}
}

// vipShape is one Service: the name of its document and its addresses.
type vipShape struct {
	key       string
	addresses []int
}

// shapes are ways to lay Services over the addresses, by group. Between two of
// them a document loses an address, an address goes to another document, and
// two Services share one.
var shapes = [][][]vipShape{
	{{{"a", []int{0}}}, {{"b", []int{1}}}, {{"c", []int{2}}}, {{"d", []int{3}}}},
	{{{"a", []int{0, 1}}}, {{"c", []int{2}}}, {{"d", []int{3}}}},
	{{{"b", []int{1}}}, {{"c", []int{2, 3}}}},
	{{{"a", []int{0, 1}}, {"c", []int{2, 3}}}},
	{{{"a", []int{0}}}, {{"d", []int{3, 1}}}},
	{{{"a", []int{0, 1}}, {"b", []int{1}}}, {{"d", []int{3}}}},
	{{{"a", []int{0}}}, {{"c", []int{2}}}, {{"d", []int{3}}}},
}

// lockIndex is the index of the control plane's address.
const lockIndex = 4

// plan returns the VIPs and groups of one of the shapes.
func (m *model) plan(shape int, eligible bool) (vips []plan.VIP, groups []claim.Group) {
	for i, services := range shapes[shape] {
		g := claim.Group{Eligible: eligible}
		for _, s := range services {
			v := plan.VIP{Key: s.key, Kind: schema.KindService, Group: i}
			for _, a := range s.addresses {
				v.Addresses = append(v.Addresses, m.address(a))
				if !slices.Contains(g.Addresses, m.addrs[a]) {
					g.Addresses = append(g.Addresses, m.addrs[a])
				}
			}
			vips = append(vips, v)
		}
		groups = append(groups, g)
	}
	return vips, groups
}

func (m *model) address(i int) schema.Address {
	return schema.Address{IP: m.addrs[i], PrefixLength: 32, Interface: "eth0", Source: schema.SourceStatic}
}

// commit is the API server: one update after another, compare-and-swap.
func (m *model) commit(by *modelNode, u claim.Update) (version uint64, ok bool) {
	node := by.name
	if old, exists := m.leases[node]; !m.weak.noCompareAndSwap && old.Version != u.Base || exists != (u.Base != 0) && !m.weak.noCompareAndSwap {
		return 0, false
	}
	m.version++
	l := claim.Lease{Node: node, Version: m.version, Duration: modelTiming.Duration, Ready: u.Ready, Claims: u.Claims}
	m.leases[node], m.writers[l.Version] = l, by.id
	m.logf("committed %d of %s: %s", m.version, node, short(u.Claims))
	for _, n := range m.nodes {
		n.deliver(watchEvent{lease: l})
	}
	return m.version, true
}

// deleteLease is an operator deleting a Lease. Nodes that saw it wait for the
// grant behind it to end; one that starts just then cannot know of it, and is
// left out: only the object could have told it.
func (m *model) deleteLease(node string) {
	l, ok := m.leases[node]
	if !ok || m.now < m.started+2*modelTiming.Duration {
		return
	}
	m.deleted = m.now
	delete(m.leases, node)
	m.version++
	for _, n := range m.nodes {
		n.deliver(watchEvent{lease: l, deleted: true})
	}
}

func (m *model) commitLock(u claim.LockUpdate) (version uint64, ok bool) {
	var base uint64
	if m.record != nil {
		base = m.record.Version
	}
	if u.Base != base && !m.weak.noCompareAndSwap {
		return 0, false
	}
	m.version++
	m.record = &claim.Record{Version: m.version, Holder: u.Holder, Duration: modelTiming.Duration}
	m.logf("committed %d of the lock: %q", m.version, u.Holder)
	for _, n := range m.nodes {
		n.deliver(watchEvent{record: m.record})
	}
	return m.version, true
}

// check looks at the wire: who would answer for each address right now?
func (m *model) check() {
	for i := range m.addrs {
		var who []string
		for _, n := range m.nodes {
			if n.claimsOnWire(i) {
				who = append(who, n.name)
			}
		}
		if len(who) > 1 && m.violation == "" {
			m.violation = fmt.Sprintf("at %v address %d is claimed by %s", m.now, i, strings.Join(who, " and "))
			m.logf("VIOLATION %s", m.violation)
		}
	}
}

func short(ips []netip.Addr) string {
	var b []string
	for _, ip := range ips {
		s := ip.As4()
		b = append(b, fmt.Sprint(s[3]-200))
	}
	slices.Sort(b)
	return "[" + strings.Join(b, " ") + "]"
}
