package statetest

import (
	"net/netip"
	"time"

	"github.com/vipod/vipod/shared/bootclock"
	"github.com/vipod/vipod/shared/ownership"
	"github.com/vipod/vipod/shared/schema"
)

// Protocol marks the addresses of a pod's VIPs.
const Protocol = 248

// Node returns elector's document of a running, synced node with all daemons,
// changed as asked for.
func (p *Pod) Node(changes ...func(*schema.Node)) *schema.Node {
	n := &schema.Node{
		Name: "node-a", Boot: p.Boot, Synced: true, Phase: schema.PhaseRunning,
		Settings: schema.Settings{Protocol: Protocol, LeaseDurationMillis: 5000, AnnounceIntervalMillis: 60000},
	}
	for _, d := range ownership.Table() {
		n.Components = append(n.Components, d.Name)
	}
	for _, change := range changes {
		change(n)
	}
	return n
}

// WriteNode writes the document as elector.
func (p *Pod) WriteNode(n *schema.Node) { p.t.Helper(); p.Write(ownership.Elector, "node", n) }

// Grant holds the node's grant for d from now.
func (p *Pod) Grant(d time.Duration) {
	p.t.Helper()
	p.Write(ownership.Elector, "grant", &schema.Grant{Boot: p.Boot, ValidUntil: map[schema.GrantName]int64{
		schema.GrantNode: int64(bootclock.Now() + d),
	}})
}

// VIP returns a Service's VIP on a link, or the control plane's.
func VIP(key string, state schema.State, link string, addresses ...string) *schema.VIP {
	v := &schema.VIP{
		Key: key, Kind: schema.KindService, State: state, Grant: schema.GrantNode, Epoch: "7",
		Announce: []schema.Announce{schema.AnnounceARP, schema.AnnounceNDP},
	}
	if key == schema.ControlPlaneKey {
		v.Kind, v.Grant = schema.KindControlPlane, schema.GrantControlPlane
	}
	for _, a := range addresses {
		ip := netip.MustParseAddr(a)
		v.Addresses = append(v.Addresses, schema.Address{
			IP: ip, PrefixLength: ip.BitLen(), Interface: link, Source: schema.SourceStatic,
		})
	}
	return v
}

// WriteVIP writes the document as elector.
func (p *Pod) WriteVIP(v *schema.VIP) { p.t.Helper(); p.Write(ownership.Elector, "vips/"+v.Key, v) }

// DropVIP removes the document as elector.
func (p *Pod) DropVIP(key string) { p.t.Helper(); p.Remove(ownership.Elector, "vips/"+key) }

// Status returns a daemon's report about a VIP on eth0 with one condition; the
// addresses are present.
func Status(of *schema.VIP, condition string, status schema.ConditionStatus, present ...string) *schema.Status {
	s := &schema.Status{
		Key: of.Key, Observed: of.Seen(),
		Conditions: []schema.Condition{{Type: condition, Status: status, Since: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}},
	}
	for _, a := range present {
		s.Addresses = append(s.Addresses, schema.AddressStatus{IP: netip.MustParseAddr(a), Interface: "eth0", Present: true})
	}
	return s
}
