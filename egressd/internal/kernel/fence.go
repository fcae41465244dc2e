package kernel

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/google/nftables"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/vipod/vipod/egressd/internal/plan"
)

// permitted is the set of ports from which tunnels may send. Its elements end
// by themselves, and with them what the kernel sends when every process of
// ours is dead; so they are none of the plan's.
const permitted = "permitted"

// Permit implements Kernel.
func (k *Linux) Permit(ports map[uint16]time.Duration) error {
	if len(ports) == 0 {
		return nil
	}
	// Adding an element that is there does not prolong it, and deleting one that
	// has ended fails as a whole.
	err := k.tables.permit(ports, true)
	if errors.Is(err, unix.ENOENT) {
		err = k.tables.permit(ports, false)
	}
	if err != nil {
		return fmt.Errorf("permitting tunnels: %w", err)
	}
	return nil
}

func (t *tables) permit(ports map[uint16]time.Duration, anew bool) error {
	if t.writer == nil {
		var err error
		if t.writer, err = open(func(c *netlink.Conn) error { return t.note(c) }); err != nil {
			return err
		}
	}
	spec, err := shape(plan.Wireguard, permitted)
	if err != nil {
		return err
	}
	set, err := spec.nft(t.nft(plan.Wireguard))
	if err != nil {
		return err
	}
	var list []nftables.SetElement
	for _, port := range slices.Sorted(maps.Keys(ports)) {
		e, err := spec.encode(strconv.Itoa(int(port)), "")
		if err != nil {
			return err
		}
		e[0].Timeout = ports[port]
		list = append(list, e...)
	}
	if anew {
		err = t.writer.SetDeleteElements(set, list)
	}
	if err == nil {
		err = t.writer.SetAddElements(set, list)
	}
	if err == nil {
		err = t.writer.Flush()
	}
	if err != nil {
		return errors.Join(err, t.close())
	}
	return nil
}
