package podtest

import (
	"net/netip"
	"time"

	"github.com/vipod/vipod/shared/ownership"
	"github.com/vipod/vipod/shared/schema"
)

// Since is the time of every condition.
var Since = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// Node returns elector's document of a running, synced node with all daemons.
func Node(metricsAddress string) *schema.Node {
	return &schema.Node{
		Name: "node-a", Boot: Boot, Synced: true, Phase: schema.PhaseRunning,
		Components: []string{ownership.Elector, ownership.Vipd, ownership.Arpd, ownership.Metricsd},
		Settings: schema.Settings{
			Protocol: 248, LeaseDurationMillis: 5000, AnnounceIntervalMillis: 3000, MetricsAddress: metricsAddress,
		},
	}
}

// VIP returns a Service's VIP.
func VIP(key string, state schema.State, addresses ...string) *schema.VIP {
	v := &schema.VIP{
		Key: key, Kind: schema.KindService, State: state, Grant: schema.GrantNode, Epoch: "7",
		Announce: []schema.Announce{schema.AnnounceARP},
	}
	if key == schema.ControlPlaneKey {
		v.Kind, v.Grant = schema.KindControlPlane, schema.GrantControlPlane
	}
	for _, a := range addresses {
		ip := netip.MustParseAddr(a)
		v.Addresses = append(v.Addresses, schema.Address{
			IP: ip, PrefixLength: ip.BitLen(), Interface: "eth0", Source: schema.SourceStatic,
		})
	}
	return v
}

// Status returns a report about a VIP with one condition.
func Status(of *schema.VIP, condition string, status schema.ConditionStatus, present ...string) *schema.Status {
	s := &schema.Status{
		Key: of.Key, Observed: of.Seen(),
		Conditions: []schema.Condition{{Type: condition, Status: status, Since: Since}},
	}
	for _, a := range present {
		s.Addresses = append(s.Addresses, schema.AddressStatus{IP: netip.MustParseAddr(a), Interface: "eth0", Present: true})
	}
	return s
}
