package session

import (
	"fmt"
	"net/netip"

	"github.com/vipod/vipod/shared/netsafe"
)

// routerOn returns the link-local address of the router on a link, for a peer
// that is named by the link alone: the kernel knows it from the router's
// advertisements.
func routerOn(link string) (netip.Addr, error) {
	routers, err := netsafe.Routers(link)
	if err != nil {
		return netip.Addr{}, err
	}
	if len(routers) == 0 {
		return netip.Addr{}, fmt.Errorf("no router is known on link %s yet", link)
	}
	return routers[0], nil
}
