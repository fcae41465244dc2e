package pod_test

import (
	"net/netip"

	"github.com/vipod/vipod/metricsd/internal/pod"
)

func mustIP(s string) netip.Addr { return netip.MustParseAddr(s) }

func sameIP(a, b netip.Addr) bool { return a == b }

func addresses(ip string, present bool) []pod.AddressReport {
	return []pod.AddressReport{{IP: mustIP(ip), Present: present}}
}
