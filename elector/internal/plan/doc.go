// Package plan decides what the cluster's Services ask of this node: which
// VIPs there are, which addresses each of them has and on which link, which
// must live together on one node, which this node can serve now, and which
// addresses are refused and why. It is pure: no clock, no I/O, the same
// answer for the same input in any order.
//
// Refusals and groups follow from the API's objects alone, so that all nodes
// come to the same ones; eligibility and interfaces are this node's own.
//
// What a caller should know:
//
//   - A VIP whose Group is NoGroup is served by nobody now (no endpoints, or
//     it cannot live together with the older VIPs that share its addresses):
//     it has no document, even if all its addresses are owned for others.
//   - Eligible is the answer for the VIP's whole group, and Why may be about
//     a sibling. It equals the group's Eligible.
//   - A VIP that is not eligible may have addresses without an interface (the
//     link is gone). A draining document keeps the addresses and interfaces
//     that it was active with.
//   - VIPs are sorted by Key, Refusals by Service, Groups by first address.
package plan
