// Package leftover finds what kube-vip left in nftables, and in iptables where
// that is nftables' (iptables-nft): its own tables, and its chains and rules in
// tables that others share. Nothing is removed unless somebody says so: a
// kube-vip that still runs needs it.
//
// Names and comments are those of kube-vip v0.8 to v1.0. What iptables-legacy
// holds cannot be seen here.
package leftover

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"regexp"

	"github.com/google/nftables"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// Item is something of kube-vip's: a table, a chain of a table that others
// share, or a rule of such a chain.
type Item struct {
	Family nftables.TableFamily
	Table  string
	Chain  string // "" for a table
	Handle uint64 // of a rule, 0 for none
}

// String returns the command that removes it.
func (i Item) String() string {
	family := families[i.Family]
	switch {
	case i.Handle != 0:
		return fmt.Sprintf("nft delete rule %s %s %s handle %d", family, i.Table, i.Chain, i.Handle)
	case i.Chain != "":
		return fmt.Sprintf("nft delete chain %s %s %s", family, i.Table, i.Chain)
	}
	return fmt.Sprintf("nft delete table %s %s", family, i.Table)
}

var families = map[nftables.TableFamily]string{
	nftables.TableFamilyIPv4: "ip", nftables.TableFamilyIPv6: "ip6", nftables.TableFamilyINet: "inet",
}

// tables are kube-vip's own: kube_vip_v4, kube_vip_<instance>_v6.
var tables = regexp.MustCompile(`^kube_vip(_.+)?_v[46]$`)

// egressChain is the chain of egress through iptables, to which PREROUTING
// jumps.
const egressChain = "KUBE-VIP-EGRESS"

// comments are what is in every rule of kube-vip's in chains of others, as a
// comment of nftables or of iptables.
var comments = [][]byte{
	[]byte("kube-vip load balancer IP"), []byte("a3ViZS12aXAK=kube-vip"), []byte(egressChain + "\x00"),
}

// Find returns what there is, in an order in which it can be removed.
func Find() ([]Item, error) {
	c, err := nftables.New()
	if err != nil {
		return nil, fmt.Errorf("opening nf_tables: %w", err)
	}
	raw, err := netlink.Dial(unix.NETLINK_NETFILTER, nil)
	if err != nil {
		return nil, fmt.Errorf("opening nf_tables: %w", err)
	}
	defer func() { _ = raw.Close() }() // only read
	var items, chains []Item
	for _, family := range []nftables.TableFamily{nftables.TableFamilyIPv4, nftables.TableFamilyIPv6, nftables.TableFamilyINet} {
		list, err := c.ListTablesOfFamily(family)
		if err != nil {
			return nil, fmt.Errorf("listing tables: %w", err)
		}
		for _, t := range list {
			if tables.MatchString(t.Name) {
				items = append(items, Item{Family: family, Table: t.Name})
			}
		}
		rules, err := rules(raw, family)
		if err != nil {
			return nil, fmt.Errorf("listing rules: %w", err)
		}
		items = append(items, rules...)
		found, err := c.ListChainsOfTableFamily(family)
		if err != nil {
			return nil, fmt.Errorf("listing chains: %w", err)
		}
		for _, ch := range found {
			if ch.Name == egressChain && !tables.MatchString(ch.Table.Name) {
				chains = append(chains, Item{Family: family, Table: ch.Table.Name, Chain: ch.Name})
			}
		}
	}
	return append(items, chains...), nil
}

// rules returns kube-vip's rules in chains of others.
func rules(c *netlink.Conn, family nftables.TableFamily) ([]Item, error) {
	answers, err := c.Execute(netlink.Message{
		Header: netlink.Header{Type: unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_GETRULE, Flags: netlink.Request | netlink.Dump},
		Data:   []byte{byte(family), unix.NFNETLINK_V0, 0, 0},
	})
	if err != nil {
		return nil, err
	}
	var items []Item
	for _, a := range answers {
		item, ours, err := decode(family, a.Data)
		if err != nil {
			return nil, err
		}
		if ours {
			items = append(items, item)
		}
	}
	return items, nil
}

// decode reads a rule and says whether it is one of kube-vip's that must be
// removed by itself: neither its tables nor its chain contain it.
func decode(family nftables.TableFamily, data []byte) (Item, bool, error) {
	if len(data) < 4 {
		return Item{}, false, errors.New("a message is too short")
	}
	d, err := netlink.NewAttributeDecoder(data[4:])
	if err != nil {
		return Item{}, false, err
	}
	d.ByteOrder = binary.BigEndian
	item, marked := Item{Family: family}, false
	for d.Next() {
		switch d.Type() {
		case unix.NFTA_RULE_TABLE:
			item.Table = d.String()
		case unix.NFTA_RULE_CHAIN:
			item.Chain = d.String()
		case unix.NFTA_RULE_HANDLE:
			item.Handle = d.Uint64()
		case unix.NFTA_RULE_EXPRESSIONS, unix.NFTA_RULE_USERDATA:
			for _, comment := range comments {
				marked = marked || bytes.Contains(d.Bytes(), comment)
			}
		}
	}
	return item, marked && item.Handle != 0 && item.Chain != egressChain && !tables.MatchString(item.Table), d.Err()
}

// Remove removes the items in one transaction.
func Remove(items []Item) error {
	c, err := nftables.New()
	if err != nil {
		return fmt.Errorf("opening nf_tables: %w", err)
	}
	for _, i := range items {
		table := &nftables.Table{Name: i.Table, Family: i.Family}
		chain := &nftables.Chain{Name: i.Chain, Table: table}
		switch {
		case i.Handle != 0:
			if err := c.DelRule(&nftables.Rule{Table: table, Chain: chain, Handle: i.Handle}); err != nil {
				return fmt.Errorf("%s: %w", i, err)
			}
		case i.Chain != "":
			c.DelChain(chain)
		default:
			c.DelTable(table)
		}
	}
	if err := c.Flush(); err != nil {
		return fmt.Errorf("removing what kube-vip left, %q and %d more: %w", items[0], len(items)-1, err)
	}
	return nil
}
