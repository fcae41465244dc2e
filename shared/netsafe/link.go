package netsafe

import (
	"encoding/binary"
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
	// Parent is the index of the link that this one is on top of, 0 for none.
	Parent int
	// Alias is free text, by which programs recognise their links.
	Alias string
	// VLAN is the id of a link of kind "vlan", VLANProtocol its ethertype.
	VLAN         int
	VLANProtocol uint16
	// MacvlanMode is MACVLAN_MODE_* of a link of kind "macvlan".
	MacvlanMode uint32
	// RPFilter, ARPIgnore and ARPAnnounce are settings of IPv4 (ip-sysctl.rst).
	RPFilter, ARPIgnore, ARPAnnounce int
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
	l.Parent, l.Alias = int(number(attrs[unix.IFLA_LINK])), text(attrs[unix.IFLA_IFALIAS])
	if err := l.decodeData(info[unix.IFLA_INFO_DATA]); err != nil {
		return Link{}, false, fmt.Errorf("link %s: %w", l.Name, err)
	}
	if err := l.decodeIPv4(attrs[unix.IFLA_AF_SPEC]); err != nil {
		return Link{}, false, fmt.Errorf("link %s: %w", l.Name, err)
	}
	return l, l.Name != "", nil
}

// decodeData reads what only links of one kind have.
func (l *Link) decodeData(raw []byte) error {
	if l.Kind != "vlan" && l.Kind != "macvlan" {
		return nil
	}
	data, err := attributes(raw, 0)
	switch {
	case err != nil:
		return err
	case l.Kind == "macvlan":
		l.MacvlanMode = number(data[unix.IFLA_MACVLAN_MODE])
		return nil
	}
	if id := data[unix.IFLA_VLAN_ID]; len(id) >= 2 {
		l.VLAN = int(nl.NativeEndian().Uint16(id))
	}
	if protocol := data[unix.IFLA_VLAN_PROTOCOL]; len(protocol) >= 2 {
		l.VLANProtocol = binary.BigEndian.Uint16(protocol)
	}
	return nil
}

// decodeIPv4 reads the settings of IPv4, an array of numbers that are counted
// from 1 (linux/inetdevice.h).
func (l *Link) decodeIPv4(raw []byte) error {
	families, err := attributes(raw, 0)
	if err != nil {
		return err
	}
	inet, err := attributes(families[unix.AF_INET], 0)
	if err != nil {
		return err
	}
	conf := inet[inetConf]
	for name, value := range map[IPv4Conf]*int{RPFilter: &l.RPFilter, ARPAnnounce: &l.ARPAnnounce, ARPIgnore: &l.ARPIgnore} {
		if at := int(name); len(conf) >= 4*at {
			*value = int(number(conf[4*(at-1):]))
		}
	}
	return nil
}
