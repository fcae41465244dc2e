package lab

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// Every address of a lab is from the ranges reserved for documentation
// (RFC 5737, RFC 3849), so that a mistake reaches nobody.
var (
	// LAN4 and LAN6 are the network that nodes, client and API server share.
	LAN4 = netip.MustParsePrefix("198.51.100.0/24")
	LAN6 = netip.MustParsePrefix("2001:db8:0:1::/64")
	// Services4 and Services6 are the ranges of ClusterIPs.
	Services4 = netip.MustParsePrefix("203.0.113.128/25")
	Services6 = netip.MustParsePrefix("2001:db8:0:f::/112")
	// Pods4 and Pods6 are split into one range per node.
	Pods4 = netip.MustParsePrefix("203.0.113.0/25")
	Pods6 = netip.MustParsePrefix("2001:db8:0:2::/64")
)

const (
	// MaxNodes is how many ranges of pod addresses there are.
	MaxNodes = 8
	// MaxPods is how many pods fit on one node.
	MaxPods = 13
	// VIPs is how many addresses VIP hands out.
	VIPs = 50

	// APIPort is the API server's port, on its own address and on each node.
	APIPort = 6443
	// HTTPPort is where a pod tells who answers and whom it sees.
	HTTPPort = 8080
	// UDPPort is where a pod sends datagrams back.
	UDPPort = 9090
)

// Addrs is one address of each family.
type Addrs struct {
	V4 netip.Addr `json:"v4"`
	V6 netip.Addr `json:"v6"`
}

// Slice returns both addresses, IPv4 first.
func (a Addrs) Slice() []netip.Addr { return []netip.Addr{a.V4, a.V6} }

// lanAddrs returns the pair of LAN addresses whose last parts read n.
func lanAddrs(n int) Addrs {
	return Addrs{
		V4: netip.MustParseAddr(fmt.Sprintf("198.51.100.%d", n)),
		V6: netip.MustParseAddr(fmt.Sprintf("2001:db8:0:1::%d", n)),
	}
}

// RouterAddrs returns the addresses of every machine's default route.
func RouterAddrs() Addrs { return lanAddrs(1) }

// APIAddrs returns the addresses of the API server itself.
func APIAddrs() Addrs { return lanAddrs(10) }

// ClientAddrs returns the addresses of the client.
func ClientAddrs() Addrs { return lanAddrs(100) }

// VIP returns the i-th pair of free LAN addresses, 0 <= i < VIPs: .200 and
// ::200, .201 and ::201, and so on.
func VIP(i int) Addrs {
	if i < 0 || i >= VIPs {
		panic(fmt.Sprintf("lab: VIP(%d): there are %d", i, VIPs))
	}
	return lanAddrs(200 + i)
}

// ControlPlaneVIP returns the addresses meant for the control plane.
func ControlPlaneVIP() Addrs { return lanAddrs(250) }

// NodeAddrs returns the LAN addresses of a node such as "n2".
func NodeAddrs(node string) (Addrs, error) {
	i, err := nodeIndex(node)
	if err != nil {
		return Addrs{}, err
	}
	return lanAddrs(10 + i), nil
}

// nodeIndex returns 2 for "n2".
func nodeIndex(node string) (int, error) {
	number, ok := strings.CutPrefix(node, "n")
	i, err := strconv.Atoi(number)
	if !ok || err != nil || i < 1 || i > MaxNodes || number != strconv.Itoa(i) {
		return 0, fmt.Errorf("no node %q: nodes are n1 to n%d", node, MaxNodes)
	}
	return i, nil
}

// podRange is the share of pod addresses of one node.
type podRange struct {
	prefix4, prefix6 netip.Prefix
	gateway          Addrs
}

// podRangeOf returns the pod addresses of the i-th node, counted from 1.
func podRangeOf(i int) podRange {
	base := 16 * (i - 1)
	return podRange{
		prefix4: netip.MustParsePrefix(fmt.Sprintf("203.0.113.%d/28", base)),
		prefix6: netip.MustParsePrefix(fmt.Sprintf("2001:db8:0:2:%x::/80", i)),
		gateway: Addrs{
			V4: netip.MustParseAddr(fmt.Sprintf("203.0.113.%d", base+1)),
			V6: netip.MustParseAddr(fmt.Sprintf("2001:db8:0:2:%x::1", i)),
		},
	}
}

// pod returns the k-th pair of pod addresses of the range, counted from 0.
func (r podRange) pod(k int) Addrs {
	a := r.gateway
	for range k + 1 {
		a = Addrs{V4: a.V4.Next(), V6: a.V6.Next()}
	}
	return a
}
