package kernel

import (
	"encoding/binary"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// Registers of 32 bits, NFT_REG32_00 and on. Fields that are looked up
// together stand side by side.
const reg0 = 8

// match is a part of a rule.
type match []expr.Any

// family is an address family as rules see it.
type family struct {
	suffix  string
	nfproto byte
	icmp    byte
	saddr   uint32 // offset in the network header
	daddr   uint32
	size    uint32 // of an address, in bytes
	behind  uint32 // the register behind an address in reg0
}

var families = []family{
	{"4", unix.NFPROTO_IPV4, unix.IPPROTO_ICMP, 12, 16, 4, reg0 + 1},
	{"6", unix.NFPROTO_IPV6, unix.IPPROTO_ICMPV6, 8, 24, 16, reg0 + 4},
}

// is matches packets of the family.
func (f family) is() match {
	return match{&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: reg0}, equal(f.nfproto)}
}

func (f family) source() expr.Any {
	return &expr.Payload{DestRegister: reg0, Base: expr.PayloadBaseNetworkHeader, Offset: f.saddr, Len: f.size}
}

func (f family) destination() expr.Any { return f.destinationIn(reg0) }

func (f family) destinationIn(reg uint32) expr.Any {
	return &expr.Payload{DestRegister: reg, Base: expr.PayloadBaseNetworkHeader, Offset: f.daddr, Len: f.size}
}

func l4proto(reg uint32) expr.Any { return &expr.Meta{Key: expr.MetaKeyL4PROTO, Register: reg} }

// dport loads the destination port of TCP, UDP and SCTP alike.
func dport(reg uint32) expr.Any {
	return &expr.Payload{DestRegister: reg, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2}
}

func equal(value ...byte) expr.Any {
	return &expr.Cmp{Op: expr.CmpOpEq, Register: reg0, Data: value}
}

// in matches when what begins in reg0 is in the set.
func in(set string) expr.Any { return &expr.Lookup{SourceRegister: reg0, SetName: set} }

func notIn(set string) expr.Any {
	return &expr.Lookup{SourceRegister: reg0, SetName: set, Invert: true}
}

// mapped replaces what is in a register by its value in a map, into another
// register; a packet without a value does not match.
func mapped(name string, from, to uint32) expr.Any {
	return &expr.Lookup{SourceRegister: from, SetName: name, DestRegister: to, IsDestRegSet: true}
}

// Bits of the state and the status of a connection, nf_conntrack_common.h.
const (
	stateInvalid     = 1
	stateEstablished = 2
	stateRelated     = 4
	statusDstNAT     = 1 << 5
	directionReply   = 1
)

// ctHas matches connections of which one of the bits is set.
func ctHas(key expr.CtKey, bits uint32) match {
	return match{
		&expr.Ct{Key: key, Register: reg0},
		&expr.Bitwise{SourceRegister: reg0, DestRegister: reg0, Len: 4,
			Mask: binary.NativeEndian.AppendUint32(nil, bits), Xor: make([]byte, 4)},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: reg0, Data: make([]byte, 4)},
	}
}

// ctLacks matches connections of which none of the bits is set.
func ctLacks(key expr.CtKey, bits uint32) match {
	m := ctHas(key, bits)
	m[len(m)-1] = &expr.Cmp{Op: expr.CmpOpEq, Register: reg0, Data: make([]byte, 4)}
	return m
}

func verdict(kind expr.VerdictKind) match { return match{&expr.Verdict{Kind: kind}} }

var (
	pass    = verdict(expr.VerdictReturn)
	counted = match{&expr.Counter{}, &expr.Verdict{Kind: expr.VerdictDrop}}
)

// join makes a rule's expressions of parts.
func join(parts ...match) (all []expr.Any) {
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

// chain is a base chain and its rules.
type chain struct {
	name     string
	kind     nftables.ChainType
	hook     *nftables.ChainHook
	priority int
	rules    [][]expr.Any
}
