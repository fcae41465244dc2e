// Package plan says what must change in the kernel so that this node holds
// the VIPs it should: pure, deterministic, without clock or I/O.
//
// Ownership: an address is ours when its IFA_PROTO is the configured number;
// the fence is one nftables table of ours. Everything else is foreign and no
// Op ever names it. An address that is wanted but held by somebody else stays
// theirs; but the kernel claims it all the same, so it is fenced and muted
// like ours, and the VIP can leave the node.
//
// Order: what closes comes first (fence and mutes), then removals, then
// additions, and last what opens. So an address is behind the fence before it
// exists and until it is gone, and any prefix of the operations leaves a node
// that claims less than it may, never more.
//
// Absent is not empty: without Desired.Sweep nothing is removed that no
// document names.
package plan
