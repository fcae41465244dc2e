package trial

import (
	"fmt"
	"net"

	"github.com/vipod/vipod/deploy/probe"
)

// MAC returns the address of a role's interface on the LAN.
func (c *Cluster) MAC(role string) (mac probe.MAC, err error) {
	err = c.InNS(role, func() error {
		link, err := net.InterfaceByName(clientIface)
		if err != nil {
			return err
		}
		copy(mac[:], link.HardwareAddr)
		return nil
	})
	if err != nil {
		return mac, fmt.Errorf("looking for the MAC of %s: %w", role, err)
	}
	return mac, nil
}
