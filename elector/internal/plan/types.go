package plan

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/vipod/vipod/elector/internal/claim"
	"github.com/vipod/vipod/elector/internal/config"
	"github.com/vipod/vipod/elector/internal/names"
	"github.com/vipod/vipod/shared/schema"
)

// Input is everything that a plan follows from. Plan does not change it.
type Input struct {
	Config *config.Config
	// Services are all that are known, of any type: their cluster IPs are
	// forbidden addresses.
	Services []*corev1.Service
	Slices   []*discoveryv1.EndpointSlice
	Nodes    []Node
	// Links are this node's, from vipd's report.
	Links []schema.Link
	// APIServers are addresses under which the API server is reached.
	APIServers []netip.Addr
	// Healthy says that the API server on this node answers.
	Healthy bool
	// Linkd says why linkd cannot make links on this node now, "" if it can.
	Linkd string
	// Linked are the VIPs, by key, that have their links from linkd already:
	// they stay while it is away.
	Linked map[string]bool
	// Names are what host names stand for, those that were asked for.
	Names map[string]names.Answer
	// Taken are lent addresses that another host was found to have.
	Taken map[netip.Addr]bool
	// Leases are what DHCP servers lent to this node for VIPs, by key.
	Leases map[string][]schema.Lease
	// Up are the API servers that are well.
	Up map[netip.AddrPort]bool
	// Pods are those of this node; nil while they are not known.
	Pods []Pod
	// NoEgressd says why egressd cannot be relied on here, "" if it can.
	NoEgressd string
	// Tunnels are those that egressd has, TunnelProblem says what is wrong with
	// them, "" for nothing.
	Tunnels       []schema.Tunnel
	TunnelProblem string
}

// Node is what matters of a Node object.
type Node struct {
	Name string
	// Excluded: labelled node.kubernetes.io/exclude-from-external-load-balancers.
	Excluded bool
	// ControlPlane: labelled node-role.kubernetes.io/control-plane.
	ControlPlane bool
	// Addresses are the IP addresses of its status.
	Addresses []netip.Addr
	// Ready: its condition of that name is True.
	Ready bool
	// Internal are those of Addresses that are its InternalIPs.
	Internal []netip.Addr
	// PodCIDRs are the networks of its pods.
	PodCIDRs []netip.Prefix
	// Labels and Annotations are those of this node alone.
	Labels, Annotations map[string]string
}

// Output is what the cluster asks of this node.
type Output struct {
	// VIPs are those of Services.
	VIPs []VIP
	// Groups are the units of ownership among them.
	Groups   []claim.Group
	Refusals []Refusal
	// Names are the host names in the place of addresses, sorted.
	Names []string
	// ControlPlane is nil where it is switched off.
	ControlPlane *VIP
	// Backends are the API servers over which connections to the control
	// plane's VIP may be spread, well or not.
	Backends []netip.AddrPort
	// Egress is what leaves this node with a Service's VIP, by key, and last
	// what holds unknown pods back.
	Egress []*schema.Egress
	// Across are the keys of those whose pods leave through the VIP's owner
	// wherever they are.
	Across map[string]bool
	// FollowPods says that Input.Pods is needed.
	FollowPods bool
	// Internal are the cluster's own networks.
	Internal []netip.Prefix
}

// NoGroup is the Group of a VIP that is in none.
const NoGroup = -1

// VIP is one Service's VIP, or the control plane's.
type VIP struct {
	// Key names the VIP's document.
	Key string
	// Namespace, Name and UID are the Service's; empty for the control plane.
	Namespace, Name, UID string
	Kind                 schema.Kind
	// Addresses are sorted, with interface and prefix length for this node.
	// Those that DHCP servers lend are known only where they were lent.
	Addresses []schema.Address
	// Links are those that linkd is to make.
	Links []schema.LinkSpec
	// Token is what is claimed for a link whose addresses DHCP servers lend
	// (claim.Token); invalid for a VIP without such.
	Token netip.Addr
	// Pin is what is claimed besides the addresses of names: nodes that know
	// other addresses for them agree by it on one owner.
	Pin netip.Addr
	// Eligible says whether this node can serve the VIP and all that must
	// live with it; Why says in one sentence why not.
	Eligible bool
	Why      string
	// Candidates are the nodes that could serve the VIP by what the API
	// says; nil for any.
	Candidates []string
	// Group is an index into Output.Groups, or NoGroup.
	Group int
	// Ports are the Service's, for its status.
	Ports []corev1.PortStatus
	// Firewall and Balance are for the document; nil where switched off.
	Firewall *schema.Firewall
	Balance  *schema.Balance
	// Spread: nobody owns the VIP, every node that is Eligible serves it.
	// Leaving: this one does, but others are to be preferred. Without
	// Candidates that are not nil no node serves it.
	Spread, Leaving bool
	// Announce is how the VIP is made known, nil for ARP and NDP; BGP and
	// Route say more about that.
	Announce []schema.Announce
	BGP      *schema.PathAttributes
	Route    *schema.Route
	// WireGuard is for the document; nil in other modes.
	WireGuard *schema.WireGuard
}

// Refusal is something a Service asks for and does not get. The Service keeps
// what is not refused.
type Refusal struct {
	Namespace, Name, UID string
	// Reason is one CamelCase word, Message one sentence for people.
	Reason, Message string
	// Here says that other nodes do not know of it, so that this one must tell.
	Here bool
}
