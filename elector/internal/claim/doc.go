// Package claim decides which addresses this node owns. It holds the two
// protocols of ownership as pure state machines, without I/O and without a
// clock: time comes in as readings of CLOCK_BOOTTIME, Leases come in as watch
// events, and what is to be written comes out.
//
// # Node Leases
//
// Every node has one Lease, whose kube-vip.io/lease-vips annotation lists the
// addresses that the node claims. Renewing the Lease and changing the claims
// are the same update. No node writes another node's Lease.
//
// A node adds a free address to its own Lease. When that very update comes
// back on its watch, the watch has delivered every claim that was committed
// before it, since a watch delivers the changes of a resource in the order of
// their resourceVersions. If by then another Lease claims the address that was
// not dead when the node decided to claim it, the node withdraws; otherwise it
// owns it. So the first in the order of the
// watch wins, and every observer sees the same order.
//
// A Lease is dead once it was seen unchanged for its whole duration on the
// observer's own clock. The holder's grant, by which the kernel lets it claim
// the address on the wire, ends earlier: it is counted from before the renewal
// was sent and is shorter by a margin for clocks that run at different rates.
//
// A node whose grant lapsed, for however short a time, has forfeited all it
// owned: others may own it by now. It drops everything before it claims
// again.
//
// # What the caller must keep
//
//   - Leases go in in the order of one watch of all of them. A list is Relist.
//   - An address is active on the wire only while Owned and under the grant.
//     The document of an address that is no longer Owned is changed or removed
//     before a newer grant is written, and vipd reads the grant before the
//     documents: so a grant never opens the fence over an address that was
//     forfeited.
//   - Silent is said for a Draining address once vipd has reported the very
//     document (instance and generation) that mutes or withdraws it. A missing
//     report is no such answer: vipd may be about to act on the document
//     before. An address that no group wants is therefore withdrawn by a
//     document in state withdrawn, which is removed only after the answer.
//     That a document no longer names an address is an answer only once vipd
//     has acted on complete documents: until then it removes what a document
//     names, and leaves what none does.
//   - After a restart all of that holds before there is anything to Want: what
//     was resumed and lapses, or could not be resumed, is withdrawn and not
//     merely dropped. Where it is not known what was active, Wait.
//   - A Draining address may become Owned again. An answer to an earlier
//     document does not count then.
//
// # The control plane's Lease
//
// One Lease that all nodes compete for with compare-and-swap, by kube-vip's
// name and client-go's rules, so that vipod and kube-vip exclude each other.
package claim
