// Package plan decides which addresses this node announces and which it
// probes, from elector's documents and the kernel's addresses. It is pure: no
// clock, no I/O; the same input in any order gives the same plan.
//
// An address is announced when every sentence holds: a document that is
// active wants it announced by the protocol of its family; the grants of all
// active documents that share the address are held; no document that shares it
// is draining; the link is there and up; the kernel has the address on it,
// marked as ours.
package plan

import (
	"net/netip"

	"github.com/vipod/vipod/arpd/internal/frame"
	"github.com/vipod/vipod/shared/schema"
)

// Link is a link of this node.
type Link struct {
	Name     string
	Index    int
	Up       bool
	Hardware frame.Hardware
}

// Present is an address that the kernel has.
type Present struct {
	Link     int // index
	IP       netip.Addr
	Protocol uint8 // IFA_PROTO
}

// Input is everything that the plan depends on.
type Input struct {
	VIPs map[string]schema.VIP
	// Grants are those that are valid now.
	Grants map[schema.GrantName]bool
	// Protocol marks our addresses; 0 while it is not known, which matches none.
	Protocol uint8
	Links    []Link
	Present  []Present
}

// Key names an address on a link.
type Key struct {
	Link int // index
	IP   netip.Addr
}

// Target is an address to announce. Two documents may share it.
type Target struct {
	Key
	Interface string
	Hardware  frame.Hardware
	// Epochs are those of the documents, joined. When they change the address
	// has been elsewhere in between and must be announced anew.
	Epochs string
	// Grants are those without any of which the address may not be announced.
	Grants Grants
}

// Grants is a set of grants.
type Grants struct{ Node, ControlPlane bool }

// Held says whether all grants of the set are held.
func (g Grants) Held(held func(schema.GrantName) bool) bool {
	return (!g.Node || held(schema.GrantNode)) && (!g.ControlPlane || held(schema.GrantControlPlane))
}

// Probe is an address of a standby document that may be in use by a stranger.
type Probe struct {
	Key
	// Document and Seen say whose probe it is: a document has one per
	// generation.
	Document  string
	Seen      schema.Observed
	Interface string
	Hardware  frame.Hardware
}

// Reason says why an address is not announced or probed; "" if it is.
type Reason string

// Reasons.
const (
	NotAsked   Reason = "NotAsked"   // no protocol of its family in the document
	NotActive  Reason = "NotActive"  // draining, standby or withdrawn
	Shared     Reason = "Draining"   // another document of the address is draining
	NoGrant    Reason = "NoGrant"    // the grant has ended or was never there
	NoLink     Reason = "NoLink"     // the interface does not exist
	LinkDown   Reason = "LinkDown"   // it is down or has no carrier
	NoHardware Reason = "NoHardware" // it has no link-layer addresses, such as lo
	NotPresent Reason = "NotPresent" // vipd has not put it into the kernel
)

// Address is the plan for one address of one document.
type Address struct {
	Key       // Link is 0 when there is none of the name
	Interface string
	Reason    Reason
}

// VIP is the plan for one document.
type VIP struct {
	Key       string
	Seen      schema.Observed
	State     schema.State
	Addresses []Address
}

// Port is a protocol (EtherType) on a link.
type Port struct {
	Link     int // index
	Protocol uint16
}

// Output is what to announce and to probe, in a fixed order, and for every
// document why or why not.
type Output struct {
	Announce []Target
	Probe    []Probe
	VIPs     []VIP
	// Ports are where to send and listen: those of every address that is or
	// may soon be announced or probed, so that they are open by then.
	Ports map[Port]frame.Hardware
}
