package kernel

import (
	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/vipod/vipod/egressd/internal/plan"
)

// chains returns the chains of a table.
func chains(kind plan.Kind) []chain {
	switch kind {
	case plan.Egress:
		return egressChains()
	case plan.Firewall:
		return firewallChains()
	case plan.Wireguard:
		return wireguardChains()
	}
	return balanceChains()
}

// egressChains are, for each family:
//
//	chain guard {              # forward: what would leave with a wrong source stays
//	  ct state established,related return
//	  saddr in local, not in known, not in pods, daddr not in internal, no ct status dnat: drop
//	  a pod's packets, see judged; of what remains:
//	  ct state invalid drop                    # cannot be translated
//	  saddr not in held return                 # the chain source translates
//	  TCP without SYN: reject with tcp reset   # a connection of before, lost
//	  drop                                     # tried again until there is a VIP
//	}
//	chain route {              # prerouting, after destinations are translated
//	  ct direction reply return
//	  saddr not in via return
//	  a pod's packets, see judged; of what remains:
//	  meta mark set saddr map via              # to the node that has the VIP
//	}
//	chain source {             # postrouting, before everybody else's translation
//	  a pod's packets, see judged; of what remains:
//	  snat to saddr map vips
//	}
//
// The guard is in the forward hook: what a pod sends to its own node never
// leaves and is not looked at.
func egressChains() []chain {
	guard := chain{name: "guard", kind: nftables.ChainTypeFilter, hook: nftables.ChainHookForward, priority: 0}
	source := chain{name: "source", kind: nftables.ChainTypeNAT, hook: nftables.ChainHookPostrouting, priority: 99}
	route := chain{name: "route", kind: nftables.ChainTypeFilter, hook: nftables.ChainHookPrerouting, priority: -99}
	guard.rules = append(guard.rules, join(ctHas(expr.CtKeySTATE, stateEstablished|stateRelated), pass))
	route.rules = append(route.rules, join(match{&expr.Ct{Key: expr.CtKeyDIRECTION, Register: reg0}, equal(directionReply)}, pass))
	for _, f := range families {
		judged := f.judged()
		guard.rules = append(guard.rules, f.unknown())
		guard.rules = append(guard.rules, judged...)
		guard.rules = append(guard.rules,
			join(f.from(plan.Pods), ctHas(expr.CtKeySTATE, stateInvalid), counted),
			join(f.is(), match{f.source(), notIn(plan.Held + f.suffix)}, pass),
			join(f.is(), match{l4proto(reg0), equal(unix.IPPROTO_TCP)}, withoutSYN(),
				match{&expr.Counter{}, &expr.Reject{Type: unix.NFT_REJECT_TCP_RST}}),
			join(f.is(), counted))
		route.rules = append(route.rules, judged...)
		route.rules = append(route.rules, join(f.is(), match{
			f.source(), mapped(plan.Via+f.suffix, reg0, reg0), &expr.Meta{Key: expr.MetaKeyMARK, SourceRegister: true, Register: reg0},
		}))
		source.rules = append(source.rules, judged...)
		source.rules = append(source.rules, join(f.is(), match{
			f.source(), mapped(plan.VIPs+f.suffix, reg0, reg0),
			&expr.NAT{Type: expr.NATTypeSourceNAT, Family: uint32(f.nfproto), RegAddrMin: reg0},
		}))
	}
	return []chain{guard, route, source}
}

// from matches packets whose source is in a set.
func (f family) from(set string) match {
	return append(f.is(), f.source(), in(set+f.suffix))
}

// unknown drops what an address of this node's pods sends out of the cluster
// that no pod is known to have: it could be one whose rule is not in place yet.
func (f family) unknown() []expr.Any {
	return join(f.from(plan.Local), match{notIn(plan.Known + f.suffix), notIn(plan.Pods + f.suffix),
		f.destination(), notIn(plan.Internal + f.suffix)}, ctLacks(expr.CtKeySTATUS, statusDstNAT), counted)
}

// judged are the rules that let go what a Service does not ask for:
//
//	saddr not in pods return
//	saddr not in everywhere, daddr in internal return     # inside of the cluster
//	saddr not in everywhere, ct status dnat return        # to a Service of the cluster
//	saddr vmap narrowed                                   # jump to the chain of its list
func (f family) judged() [][]expr.Any {
	saddr := f.source()
	inside := append(f.is(), saddr, notIn(plan.Everywhere+f.suffix))
	return [][]expr.Any{
		join(f.is(), match{saddr, notIn(plan.Pods + f.suffix)}, pass),
		join(inside, match{f.destination(), in(plan.Internal + f.suffix)}, pass),
		join(inside, ctHas(expr.CtKeySTATUS, statusDstNAT), pass),
		join(f.is(), match{saddr, mapped(plan.Narrowed+f.suffix, reg0, unix.NFT_REG_VERDICT)}),
	}
}

// tcpFlags is the offset of the flags in a TCP header, and syn one of them.
const (
	tcpFlags = 13
	syn      = 0x02
)

func withoutSYN() match {
	return match{
		&expr.Payload{DestRegister: reg0, Base: expr.PayloadBaseTransportHeader, Offset: tcpFlags, Len: 1},
		&expr.Bitwise{SourceRegister: reg0, DestRegister: reg0, Len: 1, Mask: []byte{syn}, Xor: []byte{0}},
		equal(0),
	}
}

// dhcpClient is where DHCP servers answer to.
const dhcpClient = 68

// firewallChains are, before anybody translates a destination:
//
//	chain ports {
//	  ct state established,related return
//	  daddr not in guarded return
//	  ICMP return
//	  daddr . l4proto . dport in open return
//	  udp dport 68 return
//	  drop
//	}
func firewallChains() []chain {
	ports := chain{name: "ports", kind: nftables.ChainTypeFilter, hook: nftables.ChainHookPrerouting, priority: -150}
	ports.rules = append(ports.rules, join(ctHas(expr.CtKeySTATE, stateEstablished|stateRelated), pass))
	for _, f := range families {
		ports.rules = append(ports.rules,
			join(f.is(), match{f.destination(), notIn(plan.Guarded + f.suffix)}, pass),
			join(f.is(), match{l4proto(reg0), equal(f.icmp)}, pass),
			join(f.is(), match{f.destination(), l4proto(f.behind), dport(f.behind + 1), in(plan.Open + f.suffix)}, pass),
			join(f.is(), match{l4proto(reg0), equal(unix.IPPROTO_UDP), dport(reg0), equal(0, dhcpClient)}, pass),
			join(f.is(), counted))
	}
	return []chain{ports}
}

// balanceChains are:
//
//	chain in, chain out {      # prerouting and output, before kube-proxy
//	  daddr . tcp dport in frontends: dnat to slots[numgen random mod 128]
//	}
//	chain back {               # postrouting, so that answers come back this way
//	  ct status dnat, oif not lo, ct original proto-dst in frontports,
//	  daddr . tcp dport in backends: masquerade
//	}
//
// The original destination itself cannot be asked for in a way that nft can
// print. Its port and the backend together can mean one other thing, a
// connection to the Service kubernetes where that has the same port: then a
// pod's connection to an API server on another node has the node as its source.
func balanceChains() []chain {
	nat := func(name string, hook *nftables.ChainHook, priority int) chain {
		return chain{name: name, kind: nftables.ChainTypeNAT, hook: hook, priority: priority}
	}
	list := []chain{
		nat("in", nftables.ChainHookPrerouting, -101), nat("out", nftables.ChainHookOutput, -101),
		nat("back", nftables.ChainHookPostrouting, 99),
	}
	for _, f := range families {
		forward := join(f.is(), match{l4proto(reg0), equal(unix.IPPROTO_TCP),
			f.destination(), dport(f.behind), in(plan.Frontends + f.suffix),
			&expr.Numgen{Register: 1, Modulus: plan.SlotCount, Type: unix.NFT_NG_RANDOM},
			mapped(plan.Slots+f.suffix, 1, 1),
			&expr.NAT{Type: expr.NATTypeDestNAT, Family: uint32(f.nfproto), RegAddrMin: 1, RegProtoMin: f.behind},
		})
		list[0].rules = append(list[0].rules, forward)
		list[1].rules = append(list[1].rules, forward)
		list[2].rules = append(list[2].rules, join(f.is(), ctHas(expr.CtKeySTATUS, statusDstNAT), notLoopback(), match{
			&expr.Ct{Key: expr.CtKeyPROTODST, Register: reg0}, in(plan.FrontPorts + f.suffix),
			f.destination(), dport(f.behind), in(plan.Backends + f.suffix),
			&expr.Masq{},
		}))
	}
	return list
}

func notLoopback() match {
	name := make([]byte, unix.IFNAMSIZ)
	copy(name, "lo")
	return match{&expr.Meta{Key: expr.MetaKeyOIFNAME, Register: reg0}, &expr.Cmp{Op: expr.CmpOpNeq, Register: reg0, Data: name}}
}
