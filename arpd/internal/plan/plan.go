package plan

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"

	"github.com/vipod/vipod/arpd/internal/frame"
	"github.com/vipod/vipod/shared/schema"
)

// Plan returns what to do for the input.
func Plan(in Input) Output {
	m := maker{
		in:       in,
		links:    map[string]Link{},
		present:  map[Key]bool{},
		draining: map[Key]bool{},
		needed:   map[Key]Grants{},
		targets:  map[Key]*Target{},
		ports:    map[Port]frame.Hardware{},
	}
	for _, l := range in.Links {
		m.links[l.Name] = l
	}
	for _, p := range in.Present {
		if in.Protocol != 0 && p.Protocol == in.Protocol {
			m.present[Key{Link: p.Link, IP: p.IP}] = true
		}
	}
	names := slices.Sorted(maps.Keys(in.VIPs))
	for _, name := range names {
		m.noteShared(in.VIPs[name])
	}
	var p Output
	for _, name := range names {
		p.VIPs = append(p.VIPs, m.vip(in.VIPs[name]))
	}
	for _, t := range m.targets {
		p.Announce = append(p.Announce, *t)
	}
	slices.SortFunc(p.Announce, func(a, b Target) int { return compareKeys(a.Key, b.Key) })
	p.Probe, p.Ports = m.probes, m.ports
	return p
}

func compareKeys(a, b Key) int {
	return cmp.Or(cmp.Compare(a.Link, b.Link), a.IP.Compare(b.IP))
}

type maker struct {
	in       Input
	links    map[string]Link
	present  map[Key]bool
	draining map[Key]bool
	needed   map[Key]Grants // by all documents of an address
	targets  map[Key]*Target
	probes   []Probe
	ports    map[Port]frame.Hardware
}

// noteShared notes what a document says about addresses that others have too:
// one that is mute for one is mute for all, and every grant is needed.
func (m *maker) noteShared(v schema.VIP) {
	for _, a := range v.Addresses {
		key := Key{Link: m.links[a.Interface].Index, IP: a.IP}
		switch v.State {
		case schema.StateDraining:
			m.draining[key] = true
		case schema.StateActive:
			g := m.needed[key]
			g.Node = g.Node || v.Grant == schema.GrantNode
			g.ControlPlane = g.ControlPlane || v.Grant == schema.GrantControlPlane
			m.needed[key] = g
		}
	}
}

func (m *maker) vip(v schema.VIP) VIP {
	out := VIP{Key: v.Key, Seen: v.Seen(), State: v.State}
	for _, a := range v.Addresses {
		link, found := m.links[a.Interface]
		planned := Address{Key: Key{Link: link.Index, IP: a.IP}, Interface: a.Interface}
		switch v.State {
		case schema.StateActive:
			m.listen(v, link, found, a.IP)
			if planned.Reason = m.whyNotAnnounced(v, link, found, planned.Key); planned.Reason == "" {
				m.announce(v, link, planned.Key)
			}
		case schema.StateStandby:
			m.listen(v, link, found, a.IP)
			if planned.Reason = whyNotSent(v, link, found, a.IP); planned.Reason == "" {
				m.probes = append(m.probes, Probe{
					Key: planned.Key, Document: v.Key, Seen: v.Seen(), Interface: link.Name, Hardware: link.Hardware,
				})
			}
		default:
			planned.Reason = NotActive
		}
		out.Addresses = append(out.Addresses, planned)
	}
	return out
}

func (m *maker) whyNotAnnounced(v schema.VIP, link Link, found bool, key Key) Reason {
	if why := whyNotSent(v, link, found, key.IP); why != "" {
		return why
	}
	switch {
	case m.draining[key]:
		return Shared
	case !m.needed[key].Held(func(g schema.GrantName) bool { return m.in.Grants[g] }):
		return NoGrant
	case !m.present[key]:
		return NotPresent
	}
	return ""
}

// whyNotSent is what stands against any frame about the address.
func whyNotSent(v schema.VIP, link Link, found bool, ip netip.Addr) Reason {
	protocol := schema.AnnounceARP
	if !ip.Is4() {
		protocol = schema.AnnounceNDP
	}
	switch {
	case !slices.Contains(v.Announce, protocol):
		return NotAsked
	case !found:
		return NoLink
	case !link.Hardware.Usable():
		return NoHardware
	case !link.Up:
		return LinkDown
	}
	return ""
}

func (m *maker) announce(v schema.VIP, link Link, key Key) {
	t := m.targets[key]
	if t == nil {
		t = &Target{Key: key, Interface: link.Name, Hardware: link.Hardware, Grants: m.needed[key]}
		m.targets[key] = t
	}
	t.Epochs += v.Key + "=" + v.Epoch + " "
}

// listen opens the port for an address before its first frame is due.
func (m *maker) listen(v schema.VIP, link Link, found bool, ip netip.Addr) {
	if why := whyNotSent(v, link, found, ip); why == "" || why == LinkDown {
		m.ports[Port{Link: link.Index, Protocol: frame.Protocol(ip)}] = link.Hardware
	}
}
