// Package tunnel decides which WireGuard tunnels there are and how the
// kernel's links, devices, routes and rules come to be what the tunnels need.
// It also reads the file that describes tunnels, and makes the ids by which
// Services are known in the tunnels' nftables table. It is pure: no clock, no
// I/O, the same operations for the same input.
//
//   - A tunnel that nobody may use now has no link at all: no packet of it, not
//     even a keepalive, leaves the node. So the far end never sees two nodes.
//   - A link is ours by its alias. Another link of the tunnel's name is never
//     touched; the tunnel is not there then, and it is said why.
//   - A link that is about to go is set down first, and goes after its rules:
//     as long as there is a rule of ours there is a link that tells of it.
//
// A tunnel's port is the number of its routing table, and that number plus
// 65536 the mark of what belongs to its connections, as with kube-vip.
package tunnel
