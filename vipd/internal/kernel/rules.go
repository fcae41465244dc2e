package kernel

import (
	"encoding/binary"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/vipod/vipod/vipd/internal/plan"
)

// Where the address that a frame claims stands, from the network header on.
const (
	arpLength   = 4  // RFC 826: the length of hardware addresses,
	arpSender   = 8  // behind which the sender's IPv4 address follows
	ndpType     = 40 // RFC 4861 4.4 behind the fixed IPv6 header
	ndpTarget   = 48
	ndpSolicit  = 135
	ndpAdvert   = 136
	ip6NextHead = 6
	ip6Source   = 8
)

func (f *fence) chain(link string) *nftables.Chain {
	return &nftables.Chain{
		Table: f.nft(), Name: chainPrefix + link, Device: link,
		Type: nftables.ChainTypeFilter, Hooknum: nftables.ChainHookEgress, Priority: nftables.ChainPriorityFilter,
	}
}

// hardwareLengths are those of Ethernet and of IP over InfiniBand (RFC 4391).
var hardwareLengths = []uint8{6, 20}

// addChain makes the chain of a link with its rules; one that is there gets
// its rules anew.
func (f *fence) addChain(c *nftables.Conn, link string) {
	chain := f.chain(link)
	c.AddChain(chain)
	c.FlushChain(chain)
	for _, r := range f.rules(chain) {
		c.AddRule(r)
	}
}

// rules returns the rules of a chain, see fence.
func (f *fence) rules(chain *nftables.Chain) []*nftables.Rule {
	var list []*nftables.Rule
	add := func(parts ...[]expr.Any) {
		r := &nftables.Rule{Table: f.nft(), Chain: chain}
		for _, p := range parts {
			r.Exprs = append(r.Exprs, p...)
		}
		r.Exprs = append(r.Exprs, &expr.Verdict{Kind: expr.VerdictDrop})
		list = append(list, r)
	}
	drop := func(set string, g plan.Grant, when []expr.Any) {
		for _, length := range hardwareLengths {
			add(when, arpFrom(plan.SetName(set, g, true), length))
		}
		add(when, neighborDiscovery(ndpAdvert, ndpTarget, plan.SetName(set, g, false)))
		add(when, neighborDiscovery(ndpSolicit, ip6Source, plan.SetName(set, g, false)))
	}
	drop("muted", "", nil)
	for _, g := range plan.Grants {
		drop("vips", g, notGranted(plan.SetName("granted", g, false)))
	}
	return list
}

// notGranted matches frames on a link that is not in the set, because it was
// never put there or because its time has come.
func notGranted(set string) []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyOIFNAME, Register: 1},
		&expr.Lookup{SourceRegister: 1, SetName: set, Invert: true},
	}
}

// arpFrom matches ARP requests and replies whose sender is in the set, for
// hardware addresses of the length.
func arpFrom(set string, length uint8) []expr.Any {
	return append(protocol(unix.ETH_P_ARP),
		load(arpLength, 1), equal([]byte{length}),
		load(arpSender+uint32(length), 4),
		&expr.Lookup{SourceRegister: 1, SetName: set})
}

// neighborDiscovery matches messages of a type that have an address of the
// set at the offset: advertisements by their target, and solicitations by
// their source, from which the receiver learns as well (RFC 4861 7.2.3). One
// behind an extension header passes: neither Linux nor arpd sends such.
func neighborDiscovery(kind byte, offset uint32, set string) []expr.Any {
	return append(protocol(unix.ETH_P_IPV6),
		load(ip6NextHead, 1), equal([]byte{unix.IPPROTO_ICMPV6}),
		load(ndpType, 1), equal([]byte{kind}),
		load(offset, 16),
		&expr.Lookup{SourceRegister: 1, SetName: set})
}

func protocol(ethertype uint16) []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyPROTOCOL, Register: 1},
		equal(binary.BigEndian.AppendUint16(nil, ethertype)),
	}
}

func load(offset, size uint32) expr.Any {
	return &expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: size}
}

func equal(value []byte) expr.Any {
	return &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: value}
}
