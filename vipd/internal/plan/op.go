package plan

import (
	"fmt"
	"net/netip"

	"github.com/vipod/vipod/shared/schema"
)

// Stage is when an operation is made. What fails in one stage keeps later
// ones from being made as Stage's values say.
type Stage int

// Stages in their order.
const (
	// Close puts addresses behind the fence. A failure ends the pass.
	Close Stage = iota
	// Remove removes addresses. A failure keeps Open from being made.
	Remove
	// Add adds addresses and prolongs their lives. A failure concerns only
	// its own address.
	Add
	// Open takes from the fence what is not needed any more.
	Open
)

// Op is one change of one object of ours. It prints as the command by which
// an operator would make it, on a system whose tools know all of it.
type Op interface {
	fmt.Stringer
	Stage() Stage
}

// The operations.
type (
	// AddTable makes the fence with its sets, empty and closed.
	AddTable struct{}
	// DelTable removes the fence.
	DelTable struct{}
	// AddChain puts a link behind the fence.
	AddChain struct{ Link string }
	// DelChain frees a link of the fence.
	DelChain struct{ Link string }
	// Mute drops every claim of an address.
	Mute struct{ IP netip.Addr }
	// Unmute ends Mute.
	Unmute struct{ IP netip.Addr }
	// Cover drops claims of an address while the grant is not held.
	Cover struct {
		Grant Grant
		IP    netip.Addr
	}
	// Uncover ends Cover.
	Uncover struct {
		Grant Grant
		IP    netip.Addr
	}
	// AddAddress adds an address with our protocol.
	AddAddress struct {
		Address
	}
	// Refresh gives an address of ours new lifetimes.
	Refresh struct {
		Address
	}
	// DelAddress removes an address of ours.
	DelAddress struct {
		Address
	}
)

// Stage implements Op.
func (AddTable) Stage() Stage { return Close }

// Stage implements Op.
func (AddChain) Stage() Stage { return Close }

// Stage implements Op.
func (Mute) Stage() Stage { return Close }

// Stage implements Op.
func (Cover) Stage() Stage { return Close }

// Stage implements Op.
func (DelAddress) Stage() Stage { return Remove }

// Stage implements Op.
func (AddAddress) Stage() Stage { return Add }

// Stage implements Op.
func (Refresh) Stage() Stage { return Add }

// Stage implements Op.
func (Unmute) Stage() Stage { return Open }

// Stage implements Op.
func (Uncover) Stage() Stage { return Open }

// Stage implements Op.
func (DelChain) Stage() Stage { return Open }

// Stage implements Op.
func (DelTable) Stage() Stage { return Open }

func (AddTable) String() string { return "nft add table netdev vipod_fence" }
func (DelTable) String() string { return "nft delete table netdev vipod_fence" }

func (o AddChain) String() string {
	return fmt.Sprintf("nft add chain netdev vipod_fence egress_%s { type filter hook egress device %q priority 0; }", o.Link, o.Link)
}

func (o DelChain) String() string {
	return fmt.Sprintf("nft delete chain netdev vipod_fence egress_%s", o.Link)
}

func (o Mute) String() string    { return element("add", "muted", "", o.IP) }
func (o Unmute) String() string  { return element("delete", "muted", "", o.IP) }
func (o Cover) String() string   { return element("add", "vips", o.Grant, o.IP) }
func (o Uncover) String() string { return element("delete", "vips", o.Grant, o.IP) }

func element(verb, set string, g Grant, ip netip.Addr) string {
	return fmt.Sprintf("nft %s element netdev vipod_fence %s { %s }", verb, SetName(set, g, ip.Is4()), ip)
}

// SetName returns the name of one of the fence's sets: "muted", "vips" or,
// for links and not for a family, "granted".
func SetName(set string, g Grant, is4 bool) string {
	name := set
	if set != "granted" {
		family := "6"
		if is4 {
			family = "4"
		}
		name += family
	}
	switch g {
	case schema.GrantNode:
		name += "_node"
	case schema.GrantControlPlane:
		name += "_control_plane"
	}
	return name
}

func (o AddAddress) String() string { return "ip address add " + o.words() }
func (o Refresh) String() string    { return "ip address change " + o.words() }
func (o DelAddress) String() string {
	return fmt.Sprintf("ip address delete %s dev %s", o.Prefix, o.Link)
}

func (a Address) words() string {
	nodad := ""
	if a.Prefix.Addr().Is6() {
		nodad = " nodad"
	}
	scope := "global"
	if a.Scope != 0 {
		scope = fmt.Sprint(a.Scope)
	}
	return fmt.Sprintf("%s dev %s proto %d scope %s valid_lft %d preferred_lft %d%s noprefixroute",
		a.Prefix, a.Link, a.Protocol, scope, a.Valid, a.Preferred, nodad)
}
