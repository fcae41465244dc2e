package netsafe

import (
	"fmt"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Rule is one rule of policy routing, as far as it is about marks.
type Rule struct {
	Priority, Mark, Table uint32
}

// Rules returns the rules of a family, AF_INET or AF_INET6.
func Rules(family uint8) ([]Rule, error) {
	body := func() nl.NetlinkRequestData { return &nl.RtMsg{RtMsg: unix.RtMsg{Family: family}} }
	list, err := dump(unix.RTM_GETRULE, unix.RTM_NEWRULE, body, decodeRule)
	if err != nil {
		return nil, fmt.Errorf("listing rules: %w", err)
	}
	return list, nil
}

// decodeRule decodes a rule; its head, fib_rule_hdr, is laid out as that of a
// route.
func decodeRule(msg []byte) (Rule, bool, error) {
	attrs, err := attributes(msg, unix.SizeofRtMsg)
	if err != nil {
		return Rule{}, false, err
	}
	r := Rule{
		Priority: number(attrs[nl.FRA_PRIORITY]), Mark: number(attrs[nl.FRA_FWMARK]),
		Table: uint32(nl.DeserializeRtMsg(msg).Table),
	}
	if t, ok := attrs[nl.FRA_TABLE]; ok {
		r.Table = number(t)
	}
	return r, true, nil
}

// HasDefaultRoute says whether a table has a route of the family to everywhere
// through a link.
func HasDefaultRoute(family uint8, table uint32, link int) (bool, error) {
	body := func() nl.NetlinkRequestData { return &nl.RtMsg{RtMsg: unix.RtMsg{Family: family}} }
	list, err := dump(unix.RTM_GETROUTE, unix.RTM_NEWROUTE, body, func(msg []byte) (struct{}, bool, error) {
		attrs, err := attributes(msg, unix.SizeofRtMsg)
		if err != nil {
			return struct{}{}, false, err
		}
		head := nl.DeserializeRtMsg(msg)
		in := uint32(head.Table)
		if t, ok := attrs[unix.RTA_TABLE]; ok {
			in = number(t)
		}
		return struct{}{}, head.Dst_len == 0 && head.Type == unix.RTN_UNICAST && in == table && int(number(attrs[unix.RTA_OIF])) == link, nil
	})
	if err != nil {
		return false, fmt.Errorf("listing routes of table %d: %w", table, err)
	}
	return len(list) > 0, nil
}
