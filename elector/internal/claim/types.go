package claim

import (
	"net/netip"
	"time"
)

// Timing are the times of the protocol.
type Timing struct {
	// Duration is how long a Lease lasts after a renewal.
	Duration time.Duration
	// Renew is the time between two renewals.
	Renew time.Duration
}

// margin is by how much a grant ends before the Lease: two clocks may differ
// by 2 % in rate, and a timer may be late.
func (t Timing) margin() time.Duration { return t.Duration/50 + 20*time.Millisecond }

// grant returns until when a renewal that was sent at the given time lets
// this node claim its addresses.
func (t Timing) grant(sent time.Duration) time.Duration { return sent + t.Duration - t.margin() }

const (
	// linger is how long a released address stays on the node, mute, for
	// clients that still have this node in their neighbour cache.
	linger = 2 * time.Second
	// stagger is by how much each further node in the order of preference
	// waits for those before it.
	stagger = 150 * time.Millisecond
	// probeStagger stands in its place where the address must be probed first:
	// the node before must have had the time to probe and to claim, and two
	// nodes that probe at once take each other for strangers (RFC 5227, 2.1.1).
	probeStagger = time.Second
	// spacing is the least time between two updates that change claims, so
	// that many changes become few updates. The first one does not wait.
	spacing = 50 * time.Millisecond
	// remembered is how long an address that had an owner needs no probe.
	remembered = time.Minute
	// retryMin is the first waiting time after an update that failed; it
	// doubles up to Timing.Renew.
	retryMin = 100 * time.Millisecond
)

// Proven is how long the result of a probe holds.
const Proven = 10 * time.Second

// Lease is a node's Lease as the watch delivers it.
type Lease struct {
	Node string
	// Version is the resourceVersion, which grows within a resource.
	Version uint64
	// Duration is how long the Lease lasts after a renewal.
	Duration time.Duration
	// Ready says that the node can serve VIPs at all.
	Ready bool
	// Claims are the addresses that the node claims.
	Claims []netip.Addr
	// Foreign says that this Lease is this node's by its name, but was written
	// by another machine.
	Foreign bool
}

// Group is a set of addresses that must live on one node.
type Group struct {
	Addresses []netip.Addr
	// Eligible says whether this node can serve every address of the group.
	Eligible bool
	// Candidates are the nodes that may own the group; nil for any. It
	// orders who claims first; Eligible alone decides whether this node may.
	Candidates []string
}

// Update is what this node's Lease shall become.
type Update struct {
	// Base is the resourceVersion that the update is based on, 0 to create
	// the Lease.
	Base uint64
	// Ready and Claims are the new content; Claims are sorted.
	Ready  bool
	Claims []netip.Addr
}

// Phase is where one address is on its way through this node.
type Phase int

// Phases of an address.
const (
	// Idle: not ours and not asked for.
	Idle Phase = iota
	// Probing: arpd shall find out whether a stranger answers for it.
	Probing
	// Claiming: in our Lease, not yet known to be first.
	Claiming
	// Owned: ours; active while the grant lasts.
	Owned
	// Draining: still in our Lease, until it is silent here.
	Draining
	// Released: no longer in our Lease, while cached clients are still
	// served.
	Released
)

func (p Phase) String() string {
	return [...]string{"idle", "probing", "claiming", "owned", "draining", "released"}[p]
}

// Ownership is the state of one address.
type Ownership struct {
	Phase Phase
	// Epoch is the resourceVersion of the update by which it became ours.
	Epoch uint64
}
