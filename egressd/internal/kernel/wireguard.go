package kernel

import (
	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/vipod/vipod/egressd/internal/plan"
)

// wireguardSets are the sets of the table of that name.
var wireguardSets = concat(
	[]setSpec{
		{name: plan.Tunnels, key: fields(ifname)},
		{name: plan.Marks, key: fields(ifname), value: fields(mark)},
		{name: plan.Marked, key: fields(mark)},
		{name: plan.Fenced, key: fields(port)},
		{name: permitted, key: fields(port), timeout: true},
	},
	perFamily(plan.Reached, fields(ifname, addr4), fields(ifname, addr6), nil, nil),
	commented(perFamily(plan.Doors, fields(addr4, proto, port), fields(addr6, proto, port), nil, nil)),
	perFamily(plan.Targets, fields(addr4, proto, port, mark), fields(addr6, proto, port, mark), fields(addr4, port), fields(addr6, port)),
	perFamily(plan.Kept, fields(addr4, proto, port), fields(addr6, proto, port), nil, nil),
)

// commented gives elements of sets a comment, which is the plan's value.
func commented(list []setSpec) []setSpec {
	for i := range list {
		list[i].comment = true
	}
	return list
}

// Priorities of the chains: behind connection tracking and before kube-proxy.
const (
	guardTunnels  = -150
	toEndpoints   = -105
	returnThrough = -150
	maskClients   = 99
)

// wireguardChains are:
//
//	chain guard {              # prerouting: what may come, and the way back
//	  iifname not in tunnels, ct mark in marked: meta mark set ct mark
//	  iifname not in tunnels return
//	  ct mark set iifname map marks
//	  ct state established,related return
//	  iifname . daddr not in reached drop
//	  ICMP return
//	  daddr . l4proto . dport in doors return
//	  drop
//	}
//	chain in { prerouting      # before kube-proxy
//	  iifname in tunnels: dnat to daddr . l4proto . dport . random map targets
//	}
//	chain out { output         # answers of the node itself
//	  ct mark in marked: meta mark set ct mark
//	}
//	chain fence { output       # of tunnels themselves
//	  udp sport in fenced, udp sport not in permitted drop
//	}
//	chain back { postrouting   # so that answers come back this way
//	  ct mark in marked, daddr . l4proto . dport not in kept: masquerade
//	}
//
// Marked packets go by the rule and the table of their tunnel.
func wireguardChains() []chain {
	guard := chain{name: "guard", kind: nftables.ChainTypeFilter, hook: nftables.ChainHookPrerouting, priority: guardTunnels}
	inward := chain{name: "in", kind: nftables.ChainTypeNAT, hook: nftables.ChainHookPrerouting, priority: toEndpoints}
	out := chain{name: "out", kind: nftables.ChainTypeRoute, hook: nftables.ChainHookOutput, priority: returnThrough}
	fence := chain{name: "fence", kind: nftables.ChainTypeFilter, hook: nftables.ChainHookOutput, priority: 0}
	fence.rules = append(fence.rules, join(match{l4proto(reg0), equal(unix.IPPROTO_UDP), sport, in(plan.Fenced), notIn(permitted)}, counted))
	back := chain{name: "back", kind: nftables.ChainTypeNAT, hook: nftables.ChainHookPostrouting, priority: maskClients}
	out.rules = append(out.rules, join(ofTunnel(), restore))
	guard.rules = append(guard.rules,
		join(notFromTunnel(), ofTunnel(), restore),
		join(notFromTunnel(), pass),
		join(match{iifname, mapped(plan.Marks, reg0, reg0), &expr.Ct{Key: expr.CtKeyMARK, Register: reg0, SourceRegister: true}}),
		join(ctHas(expr.CtKeySTATE, stateEstablished|stateRelated), pass))
	for _, f := range families {
		guard.rules = append(guard.rules,
			join(f.is(), match{iifname, f.destinationIn(reg0 + nameRegisters), notIn(plan.Reached + f.suffix)}, counted),
			join(f.is(), match{l4proto(reg0), equal(f.icmp)}, pass),
			join(f.is(), f.door(), match{in(plan.Doors + f.suffix)}, pass))
		inward.rules = append(inward.rules, join(f.is(), match{iifname, in(plan.Tunnels)}, f.door(), match{
			&expr.Numgen{Register: f.behind + 2, Modulus: plan.TargetCount, Type: unix.NFT_NG_RANDOM},
			mapped(plan.Targets+f.suffix, reg0, reg0),
			&expr.NAT{Type: expr.NATTypeDestNAT, Family: uint32(f.nfproto), RegAddrMin: reg0, RegProtoMin: f.behind},
		}))
		back.rules = append(back.rules, join(f.is(), ofTunnel(), notLoopback(), f.door(), match{notIn(plan.Kept + f.suffix), &expr.Masq{}}))
	}
	guard.rules = append(guard.rules, join(counted))
	return []chain{guard, inward, out, fence, back}
}

// nameRegisters is how many registers the name of a link takes.
const nameRegisters = unix.IFNAMSIZ / register

// iifname loads the name of the link that a packet came by.
var iifname = &expr.Meta{Key: expr.MetaKeyIIFNAME, Register: reg0}

// sport loads the source port.
var sport = &expr.Payload{DestRegister: reg0, Base: expr.PayloadBaseTransportHeader, Offset: 0, Len: 2}

func notFromTunnel() match { return match{iifname, notIn(plan.Tunnels)} }

// ofTunnel matches packets of connections that came through a tunnel.
func ofTunnel() match {
	return match{&expr.Ct{Key: expr.CtKeyMARK, Register: reg0}, in(plan.Marked)}
}

// restore sends a packet the way that its connection came; the mark is in
// reg0.
var restore = match{
	&expr.Ct{Key: expr.CtKeyMARK, Register: reg0},
	&expr.Meta{Key: expr.MetaKeyMARK, Register: reg0, SourceRegister: true},
}

// door loads destination address, protocol and port.
func (f family) door() match {
	return match{f.destination(), l4proto(f.behind), dport(f.behind + 1)}
}
