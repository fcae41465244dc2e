package netsafe

import (
	"fmt"
	"net"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Link is one network link.
type Link struct {
	Name  string
	Index int
	// Type is the hardware type, ARPHRD_*.
	Type uint16
	// Kind is the driver's kind, such as "veth" or "vlan"; empty for hardware.
	Kind string
	// MAC and Broadcast are link-layer addresses of any length.
	MAC, Broadcast net.HardwareAddr
	Flags          uint32 // IFF_*
	// OperState is RFC 2863's operational state, IF_OPER_*.
	OperState uint8
	Carrier   bool
	MTU       int
}

// Operational states of a link, linux/if.h.
const (
	operUnknown = 0
	operUp      = 6
)

// Up says whether the link carries frames: administratively up, with carrier,
// and not held down by something like a bond or 802.1X.
func (l Link) Up() bool {
	return l.Flags&unix.IFF_UP != 0 && l.Carrier && (l.OperState == operUp || l.OperState == operUnknown)
}

// Links returns all links.
func Links() ([]Link, error) {
	list, err := dump(unix.RTM_GETLINK, unix.RTM_NEWLINK,
		func() nl.NetlinkRequestData { return nl.NewIfInfomsg(unix.AF_UNSPEC) }, decodeLink)
	if err != nil {
		return nil, fmt.Errorf("listing links: %w", err)
	}
	return list, nil
}

func decodeLink(msg []byte) (Link, bool, error) {
	attrs, err := attributes(msg, unix.SizeofIfInfomsg)
	if err != nil {
		return Link{}, false, err
	}
	head := nl.DeserializeIfInfomsg(msg)
	l := Link{
		Name:      text(attrs[unix.IFLA_IFNAME]),
		Index:     int(head.Index),
		Type:      head.Type,
		MAC:       attrs[unix.IFLA_ADDRESS],
		Broadcast: attrs[unix.IFLA_BROADCAST],
		Flags:     head.Flags,
		OperState: uint8(number(attrs[unix.IFLA_OPERSTATE])),
		Carrier:   number(attrs[unix.IFLA_CARRIER]) != 0,
		MTU:       int(number(attrs[unix.IFLA_MTU])),
	}
	info, err := attributes(attrs[unix.IFLA_LINKINFO], 0)
	if err != nil {
		return Link{}, false, fmt.Errorf("link %s: %w", l.Name, err)
	}
	l.Kind = text(info[unix.IFLA_INFO_KIND])
	return l, l.Name != "", nil
}
