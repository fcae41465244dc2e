package config

import (
	"log/slog"
	"net/netip"
	"time"
)

// Config is the validated configuration of one elector.
type Config struct {
	// NodeName is this node's name, in lower case.
	NodeName string
	// InstanceName tells two vipods on one node apart; may be empty.
	InstanceName string
	LogLevel     slog.Level
	// MetricsAddress is where metricsd listens, "" for nowhere.
	MetricsAddress string
	// Components are the daemons that are switched on for this node, in the
	// order of the ownership table.
	Components []string

	// Kubeconfig is the path of a kubeconfig, "" for the pod's own
	// credentials.
	Kubeconfig string
	// APIServer replaces the API server's address of the credentials: a
	// URL, a host, or a host and port; may be empty.
	APIServer string
	// Namespace is where the node Leases are.
	Namespace string

	// Interface is where VIPs go: a name, Auto, or "" for the link of the
	// default route.
	Interface string
	// ServicesInterface is the same for Services; "" means Interface.
	ServicesInterface string
	// AllowInterfaceDown lets VIPs live on a link that has no carrier.
	AllowInterfaceDown bool
	Subnet             Subnet
	// Protocol marks our addresses (IFA_PROTO), 4 to 255.
	Protocol int
	// AnnounceInterval is the time between two refreshing announcements of
	// one VIP.
	AnnounceInterval time.Duration
	// LoopbackGlobalScope gives addresses on lo global instead of host scope.
	LoopbackGlobalScope bool

	// NameMode says which addresses of a host name the control plane gets.
	NameMode NameMode
	// DHCPAttempts is after how many failures no DHCP server is asked any
	// more, 0 for never.
	DHCPAttempts int

	// LeaseDuration is how long a Lease lasts after a renewal: whole seconds.
	LeaseDuration time.Duration
	// RetryPeriod is the time between two renewals.
	RetryPeriod time.Duration

	// Mode is how VIPs are made known; Elect, Table and BGP are about the modes
	// besides ARP and NDP.
	Mode  Mode
	Elect Elect
	Table Table
	BGP   BGP

	ControlPlane ControlPlane
	Services     Services
	Egress       Egress
	// Mirror is the link that gets a copy of what goes over that of Services,
	// "" for none.
	Mirror string

	// Notices are sentences about settings that were given and have no
	// effect here, to be logged once at start.
	Notices []string
}

// Auto as an interface stands for the link whose own subnet holds the VIP.
const Auto = "auto"

// Subnet says which prefix lengths VIPs get.
type Subnet struct {
	// Auto takes the length of the link's own subnet that holds the VIP.
	Auto bool
	// IPv4 and IPv6 are prefix lengths, 1 to 32 and 1 to 128.
	IPv4, IPv6 int
}

// ControlPlane is the configuration of the control plane's VIP.
type ControlPlane struct {
	Enabled bool
	// Addresses are set without Enabled as well, where only other nodes
	// serve the VIP: no Service gets one of them.
	Addresses []netip.Addr
	// Names are host names that stand for more of them, by the families of
	// NameMode.
	Names []string
	// DDNS says that DHCP lends the addresses, to the one host name of Names.
	DDNS bool
	// Port is where the API server listens on this node.
	Port uint16
	// LeaseNamespace and LeaseName name the Lease.
	LeaseNamespace, LeaseName string
	Health                    Health
	Balance                   Balance
}

// Balance says whether connections to the control plane's VIP are spread over
// all API servers.
type Balance struct {
	Enabled bool
	// Port is the VIP's.
	Port uint16
	// Interval is the time between two questions to each API server.
	Interval time.Duration
}

// Health says how the local API server is tested.
type Health struct {
	// Address is the URL to get, "" for /readyz of the API server on this
	// node.
	Address string
	Period  time.Duration
	Timeout time.Duration
	// FailureThreshold is how many failures in a row make it unhealthy.
	FailureThreshold int
	// CAPath is a file of certificates to trust besides the system's; may be
	// empty.
	CAPath string
}

// Services is the configuration of the VIPs for Services.
type Services struct {
	Enabled bool
	// Namespace limits vipod to the Services of one namespace; "" is all.
	Namespace string
	// Class is the loadBalancerClass that is ours.
	Class string
	// ClassOnly and ClassLegacy choose between the rules for Services
	// without a class; see plan.
	ClassOnly, ClassLegacy bool
	// CIDRs are the cluster's ranges of cluster IPs, as far as they are
	// known: no VIP may lie in them.
	CIDRs []netip.Prefix
	// Firewall lets nothing but a Service's ports reach its VIP.
	Firewall bool
	// DisableUpdates keeps elector from writing status and annotations.
	DisableUpdates bool
	// IgnoreExcludeLabel lets nodes serve that have the label
	// node.kubernetes.io/exclude-from-external-load-balancers.
	IgnoreExcludeLabel bool
}

// Egress is the configuration of what leaves with a Service's VIP.
type Egress struct {
	// PodCIDRs are the networks of pods; none means those of the Nodes.
	PodCIDRs []netip.Prefix
	// Unknown says where pods that are not known yet are held back.
	Unknown UnknownPods
}

// UnknownPods says where pods are held back, as far as they would leave the
// cluster, of which it is not known yet whether a Service wants them to leave
// with its VIP.
type UnknownPods string

// Values of UnknownPods.
const (
	// UnknownGuarded: on nodes with a pod of such a Service, one on its way
	// included.
	UnknownGuarded UnknownPods = "guarded"
	// UnknownHeld: on every node while there is such a Service.
	UnknownHeld UnknownPods = "held"
	// UnknownFree: nowhere.
	UnknownFree UnknownPods = "free"
)
