// Package plan decides what the cluster's Services ask of this node: which
// VIPs there are, which addresses each of them has and on which link, which
// must live together on one node, which this node can serve now, and which
// addresses are refused and why. It is pure: no clock, no I/O, the same
// answer for the same input in any order.
//
// Refusals and groups follow from the API's objects alone, so that all nodes
// come to the same ones; eligibility and interfaces are this node's own. One
// exception: a node also refuses what its own links have, which no object of
// the API may know; on the others a probe finds the address taken.
//
// What it decides where kube-vip or the API leave room:
//
//   - A Service with a bad address keeps its good ones; each bad one is a
//     Refusal. Only a list that is too long, or an annotation that says where
//     the VIP is to live and cannot be honoured, leaves it without any.
//   - Of two Services that want the same port of an address, or that cannot
//     live together, the older has its way, then the first by name.
//   - With policy Local the nodes with a ready endpoint serve; those whose
//     endpoints only serve while they terminate do if there are none. So a
//     node is left while its last endpoint still serves.
//   - The status of a Service is no source of addresses: vipod writes it.
//   - Forbidden are all cluster IPs in use, and the Service CIDR where it is
//     configured.
//   - The control plane's VIP is not held against addresses of nodes, since
//     kubelets and cloud providers report a VIP that their node has.
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
