package netsafe

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Forever is the lifetime of an address that does not expire.
const Forever = 0xffffffff

// ifaProto is IFA_PROTO of linux/if_addr.h (Linux 5.18): who put the address
// there.
const ifaProto = 11

// Address is one address of a link.
type Address struct {
	LinkIndex int
	Prefix    netip.Prefix // with the address itself, host bits included
	// Protocol is IFA_PROTO: 0 unset, 1 to 3 set by the kernel, else by a
	// program.
	Protocol uint8
	Flags    uint32 // IFA_F_*
	Scope    uint8  // RT_SCOPE_*
	// Valid and Preferred are lifetimes in seconds from now, or Forever.
	Valid, Preferred uint32
}

// Addresses returns all IPv4 and IPv6 addresses.
func Addresses() ([]Address, error) {
	list, err := dump(unix.RTM_GETADDR, unix.RTM_NEWADDR,
		func() nl.NetlinkRequestData { return nl.NewIfAddrmsg(unix.AF_UNSPEC) }, decodeAddress)
	if err != nil {
		return nil, fmt.Errorf("listing addresses: %w", err)
	}
	return list, nil
}

func decodeAddress(msg []byte) (Address, bool, error) {
	attrs, err := attributes(msg, unix.SizeofIfAddrmsg)
	if err != nil {
		return Address{}, false, err
	}
	head := nl.DeserializeIfAddrmsg(msg)
	// IFA_LOCAL is the address; IFA_ADDRESS is the other end on a
	// point-to-point link, and all there is for IPv6 elsewhere.
	raw, ok := attrs[unix.IFA_LOCAL]
	if !ok {
		raw = attrs[unix.IFA_ADDRESS]
	}
	ip, ok := netip.AddrFromSlice(raw)
	if !ok {
		return Address{}, false, nil // another family
	}
	a := Address{
		LinkIndex: int(head.Index),
		Prefix:    netip.PrefixFrom(ip, int(head.Prefixlen)),
		Protocol:  uint8(number(attrs[ifaProto])),
		Flags:     uint32(head.Flags),
		Scope:     head.Scope,
		Valid:     Forever, Preferred: Forever,
	}
	if flags, ok := attrs[unix.IFA_FLAGS]; ok {
		a.Flags = number(flags)
	}
	if c := attrs[unix.IFA_CACHEINFO]; len(c) >= 8 {
		a.Preferred, a.Valid = number(c[:4]), number(c[4:8])
	}
	return a, a.Prefix.IsValid(), nil
}

// AddAddress adds an address. One that is already there, whoever put it
// there, is unix.EEXIST and stays as it is.
func AddAddress(a Address) error { return one(Change{Kind: Add, Address: a}) }

// ReplaceAddress adds an address or gives the one that is there the
// lifetimes and, where the kernel lets it, the protocol and flags of a.
func ReplaceAddress(a Address) error { return one(Change{Kind: Replace, Address: a}) }

// DeleteAddress removes an address; one that is not there is
// unix.EADDRNOTAVAIL, a link that is not there unix.ENODEV.
func DeleteAddress(a Address) error { return one(Change{Kind: Delete, Address: a}) }

func one(c Change) error { return ChangeAddresses([]Change{c})[0] }

// Gone says whether an error of a deletion means that there was nothing to
// delete.
func Gone(err error) bool {
	return errors.Is(err, unix.EADDRNOTAVAIL) || errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENOENT)
}
