// Package mirror copies what goes over one link, in both directions, to
// another: an nftables table of the netdev family with a chain on the link's
// ingress and one on its egress. No queueing discipline is touched, one's own
// or another's, unlike with tc.
package mirror

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/userdata"
	"golang.org/x/sys/unix"
)

const (
	name = "vipod_mirror"
	// Frames are copied before anybody can drop them on their way in, and after
	// everybody could on their way out.
	first, last = -500, 500
)

// Linux is the mirror of an instance in the kernel of this machine. It needs
// CAP_NET_ADMIN.
type Linux struct{ Instance string }

func (l Linux) table() *nftables.Table {
	t := &nftables.Table{Name: name, Family: nftables.TableFamilyNetdev}
	if l.Instance != "" {
		t.Name += "_" + l.Instance
	}
	return t
}

// Set copies what goes over one link to another and says whether that changed
// anything; without names it copies nothing.
func (l Linux) Set(from, to string) (changed bool, err error) {
	c, err := nftables.New()
	if err != nil {
		return false, fmt.Errorf("opening nf_tables: %w", err)
	}
	table := l.table()
	tables, err := c.ListTablesOfFamily(table.Family)
	if err != nil {
		return false, fmt.Errorf("listing tables: %w", err)
	}
	there := slices.ContainsFunc(tables, func(t *nftables.Table) bool { return t.Name == table.Name })
	remove := func() {
		if there {
			c.DelTable(table)
		}
	}
	if to == "" {
		remove()
		return there, flush(c, there, "removing the mirror")
	}
	mark, target, err := resolve(from, to)
	if err != nil {
		remove()
		return there, errors.Join(err, flush(c, there, "removing the mirror"))
	}
	if there && l.whole(c, mark) {
		return false, nil
	}
	remove()
	c.AddTable(table)
	for _, ch := range []*nftables.Chain{
		{Name: "ingress", Hooknum: nftables.ChainHookIngress, Priority: nftables.ChainPriorityRef(first)},
		{Name: "egress", Hooknum: nftables.ChainHookEgress, Priority: nftables.ChainPriorityRef(last)},
	} {
		ch.Table, ch.Type, ch.Device = table, nftables.ChainTypeFilter, from
		c.AddChain(ch)
		c.AddRule(&nftables.Rule{Table: table, Chain: ch, UserData: mark, Exprs: []expr.Any{
			&expr.Immediate{Register: unix.NFT_REG_1, Data: binary.NativeEndian.AppendUint32(nil, uint32(target))},
			&expr.Dup{RegDev: unix.NFT_REG_1, IsRegDevSet: true},
		}})
	}
	return true, flush(c, true, fmt.Sprintf("copying what goes over %s to %s", from, to))
}

func flush(c *nftables.Conn, needed bool, what string) error {
	if !needed {
		return nil
	}
	if err := c.Flush(); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// resolve returns the mark of the mirror's rules, by which it shows when a
// link has become another one of the same name, and the target's index.
func resolve(from, to string) ([]byte, int, error) {
	if from == to {
		return nil, 0, fmt.Errorf("a link cannot be its own mirror: %s", to)
	}
	source, err := net.InterfaceByName(from)
	if err != nil {
		return nil, 0, fmt.Errorf("link %s is not there: %w", from, err)
	}
	target, err := net.InterfaceByName(to)
	if err != nil {
		return nil, 0, fmt.Errorf("link %s is not there: %w", to, err)
	}
	text := fmt.Sprintf("vipod mirror %d to %d", source.Index, target.Index)
	return userdata.AppendString(nil, userdata.TypeComment, text), target.Index, nil
}

// whole says whether both chains stand as they were made.
func (l Linux) whole(c *nftables.Conn, mark []byte) bool {
	for _, name := range []string{"ingress", "egress"} {
		rules, err := c.GetRules(l.table(), &nftables.Chain{Table: l.table(), Name: name})
		if err != nil || len(rules) != 1 || !slices.Equal(rules[0].UserData, mark) {
			return false
		}
	}
	return true
}
