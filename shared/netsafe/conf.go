package netsafe

import (
	"fmt"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// IPv4Conf is a setting of IPv4 of one link (ip-sysctl.rst) by its number,
// IPV4_DEVCONF_* of linux/ip.h.
type IPv4Conf int

// The settings that vipod's links are given.
const (
	RPFilter    IPv4Conf = 8
	ARPAnnounce IPv4Conf = 18
	ARPIgnore   IPv4Conf = 19
)

// inetConf is IFLA_INET_CONF of linux/if_link.h.
const inetConf = 1

// SetIPv4Conf sets settings of a link over rtnetlink: /proc/sys is read-only
// in a container.
func SetIPv4Conf(link int, values map[IPv4Conf]uint32) error {
	req := nl.NewNetlinkRequest(unix.RTM_SETLINK, unix.NLM_F_ACK)
	head := nl.NewIfInfomsg(unix.AF_UNSPEC)
	head.Index = int32(link)
	req.AddData(head)
	spec := nl.NewRtAttr(unix.IFLA_AF_SPEC|unix.NLA_F_NESTED, nil)
	inet := spec.AddRtAttr(unix.AF_INET|unix.NLA_F_NESTED, nil)
	conf := inet.AddRtAttr(inetConf|unix.NLA_F_NESTED, nil)
	for name, value := range values {
		conf.AddRtAttr(int(name), nl.Uint32Attr(value))
	}
	req.AddData(spec)
	if _, err := req.Execute(unix.NETLINK_ROUTE, 0); err != nil {
		return fmt.Errorf("setting IPv4 of link %d: %w", link, err)
	}
	return nil
}
