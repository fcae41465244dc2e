package plan

import (
	"net/netip"

	"github.com/vipod/vipod/shared/schema"
)

// Grant names a permission that the fence knows.
type Grant = schema.GrantName

// Grants are those for which the fence has sets, in their order.
var Grants = []Grant{schema.GrantNode, schema.GrantControlPlane}

// Desired is what the documents want of the kernel.
type Desired struct {
	// Protocol is the IFA_PROTO of our addresses.
	Protocol uint8
	// Sweep says that the documents are complete: what they do not want goes.
	Sweep bool
	// Fence says that the kernel can do it.
	Fence bool
	// Standing says that VIPs may come at any time: the fence is there before
	// the first of them, because making it takes the kernel longer than all
	// the rest of a take-over.
	Standing bool
	// Wants holds one entry per address.
	Wants []Want
	// Gone are addresses that a document wants absent. They go even before
	// the documents are complete.
	Gone []netip.Addr
}

// Want is one address of one or more VIPs.
type Want struct {
	Prefix netip.Prefix
	Link   string
	Scope  uint8 // RT_SCOPE_*
	// Grants are those without which the address may not be claimed.
	Grants []Grant
	// Granted says that all of them are valid now. Without that the address
	// is neither added nor kept alive.
	Granted bool
	// Muted: present, but not to be claimed.
	Muted bool
	// Valid is the lifetime to give, RefreshBelow the remainder from which on
	// it is given anew; in seconds.
	Valid, RefreshBelow uint32
	// Bare: the link was made for VIPs, so that no addresses of the node's own
	// are waited for.
	Bare bool
	// Lent: a DHCP server's lease ends the lifetime. What is left of both runs
	// down together, so that a second of difference is rounding.
	Lent bool
}

// Actual is what is in the kernel.
type Actual struct {
	Links     []Link
	Addresses []Address
	Fence     Fence
}

// Link is one network link.
type Link struct {
	Name     string
	Index    int
	MAC      string
	Loopback bool
	// Admin: set up by an administrator. Up: and able to carry frames.
	Admin, Up bool
	// Resolves: a link on which the kernel would answer ARP or NDP.
	Resolves bool
	// Virtual links of a pod or tunnel get no fence before they have an
	// address of their own or a VIP.
	Virtual bool
	// Settled4 and Settled6: the node's own addresses of the family are
	// there, or were waited for.
	Settled4, Settled6       bool
	DefaultIPv4, DefaultIPv6 bool
}

// Address is one address in the kernel.
type Address struct {
	Link     string
	Prefix   netip.Prefix
	Protocol uint8
	Scope    uint8 // RT_SCOPE_*
	// Valid and Preferred are what is left of the lifetimes, in seconds.
	Valid, Preferred uint32
}

// Fence is our nftables table. Open is for information: the grant is not kept
// by the plan, since only a clock can say how.
type Fence struct {
	Exists bool
	Chains []string // by link
	Muted  []netip.Addr
	Vips   map[Grant][]netip.Addr
	Open   map[Grant][]string // links on which the grant's VIPs may be claimed
}

// Refusal is why a wanted address is not present, as a condition's reason.
type Refusal string

// Reasons for an address that is not present.
const (
	ForeignAddress Refusal = "ForeignAddress"
	LinkMissing    Refusal = "LinkMissing"
	LinkDown       Refusal = "LinkDown"
	LinkSettling   Refusal = "LinkSettling"
	NotGranted     Refusal = "NotGranted"
	NotMutable     Refusal = "NotMutable"
	KernelError    Refusal = "KernelError"
)
