package plan

import "github.com/vipod/vipod/shared/schema"

// Wireguard is what comes through tunnels and goes back through them.
const Wireguard Kind = "wireguard"

// Sets of the table wireguard. Those of addresses have a 4 or 6 behind their
// name for the family.
const (
	// Tunnels has the links: an older kernel does not look for keys of a map.
	Tunnels = "tunnels"
	// Marks maps a tunnel's link to the mark of its connections.
	Marks = "marks"
	// Marked has those marks.
	Marked = "marked"
	// Reached has links and the VIP that is reached through each.
	Reached = "reached"
	// Doors has the VIPs' ports that are reached, with the id of each as its
	// comment.
	Doors = "doors"
	// Targets maps a VIP's port and 0 to TargetCount-1 to endpoints.
	Targets = "targets"
	// Kept has endpoints that see the client's address.
	Kept = "kept"
	// Fenced has the ports from which tunnels send.
	Fenced = "fenced"
)

// TargetCount is how many elements of Targets the endpoints of a port share.
const TargetCount = schema.MaxBackends
