package kernel

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/userdata"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/vipod/vipod/egressd/internal/plan"
)

const (
	// elementsPerMessage keeps a list of elements below the 64 KiB of a
	// netlink attribute.
	elementsPerMessage = 500
	// buffer takes a transaction of tens of thousands of elements, and its
	// answers, in bytes.
	buffer = 32 << 20
)

// tables are the nftables tables of an instance.
type tables struct {
	instance string
	// writer is kept open, so that its port number tells our notifications
	// from those of others; nil until the first transaction and after an error.
	writer *nftables.Conn
	port   atomic.Uint32
}

func (t *tables) nft(kind plan.Kind) *nftables.Table {
	return &nftables.Table{Name: kind.TableName(t.instance), Family: nftables.TableFamilyINet}
}

// open returns a connection with one socket.
func open(opened func(*netlink.Conn) error) (*nftables.Conn, error) {
	c, err := nftables.New(nftables.AsLasting(), nftables.WithSockOptions(func(c *netlink.Conn) error {
		return errors.Join(opened(c), c.SetWriteBuffer(buffer), c.SetReadBuffer(buffer))
	}))
	if err != nil {
		return nil, fmt.Errorf("opening nf_tables: %w", err)
	}
	return c, nil
}

// note remembers the port number of the writer's socket.
func (t *tables) note(c *netlink.Conn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var name unix.Sockaddr
	var nameErr error
	err = raw.Control(func(fd uintptr) { name, nameErr = unix.Getsockname(int(fd)) })
	if a, ok := name.(*unix.SockaddrNetlink); ok {
		t.port.Store(a.Pid)
	}
	return errors.Join(err, nameErr)
}

func (t *tables) close() error {
	if t.writer == nil {
		return nil
	}
	err := t.writer.CloseLasting()
	t.writer = nil
	t.port.Store(0)
	return err
}

// do makes operations as one transaction. After an error the connection is
// given up: nothing of it is left to be read.
func (t *tables) do(ops []plan.Op) error {
	if len(ops) == 0 {
		return nil
	}
	if t.writer == nil {
		var err error
		if t.writer, err = open(func(c *netlink.Conn) error { return t.note(c) }); err != nil {
			return err
		}
	}
	err := t.fill(t.writer, ops)
	if err == nil {
		err = t.writer.Flush()
	}
	if err != nil {
		return errors.Join(fmt.Errorf("making %q and %d more: %w", ops[0], len(ops)-1, err), t.close())
	}
	return nil
}

// fill puts operations into a transaction, elements in bulk. The order of the
// plan stays for those of one set.
func (t *tables) fill(c *nftables.Conn, ops []plan.Op) error {
	var bulk []plan.Element
	var deleting bool
	flush := func() error {
		if len(bulk) == 0 {
			return nil
		}
		err := t.change(c, bulk, deleting)
		bulk = bulk[:0]
		return err
	}
	put := func(e plan.Element, del bool) error {
		if n := len(bulk); n > 0 && (bulk[0].Kind != e.Kind || bulk[0].Set != e.Set || deleting != del || n == elementsPerMessage) {
			if err := flush(); err != nil {
				return err
			}
		}
		bulk, deleting = append(bulk, e), del
		return nil
	}
	for _, op := range ops {
		var err error
		switch o := op.(type) {
		case plan.AddElement:
			if o.Set == plan.Lists {
				err = errors.Join(flush(), t.addList(c, o.Element))
				break
			}
			err = put(o.Element, false)
		case plan.DelElement:
			if o.Set == plan.Lists {
				err = flush()
				c.DelChain(&nftables.Chain{Table: t.nft(o.Kind), Name: o.Key})
				break
			}
			err = put(o.Element, true)
		case plan.AddTable:
			err = errors.Join(flush(), t.add(c, o.Kind))
		case plan.DelTable:
			err = flush()
			c.AddTable(t.nft(o.Kind)) // so that deleting one that is gone is no error
			c.DelTable(t.nft(o.Kind))
		}
		if err != nil {
			return err
		}
	}
	return flush()
}

func (t *tables) change(c *nftables.Conn, list []plan.Element, del bool) error {
	spec, err := shape(list[0].Kind, list[0].Set)
	if err != nil {
		return err
	}
	set, err := spec.nft(t.nft(list[0].Kind))
	if err != nil {
		return err
	}
	elements, err := elements(spec, list)
	if err != nil {
		return err
	}
	if del {
		return c.SetDeleteElements(set, elements)
	}
	return c.SetAddElements(set, elements)
}

// add makes a table anew: what is left of a damaged one goes in the same
// transaction.
func (t *tables) add(c *nftables.Conn, kind plan.Kind) error {
	table := t.nft(kind)
	c.AddTable(table)
	c.DelTable(table)
	c.AddTable(table)
	for i := range shapes[kind] {
		set, err := shapes[kind][i].nft(table)
		if err != nil {
			return err
		}
		if err := c.AddSet(set, nil); err != nil {
			return fmt.Errorf("adding set %s: %w", set.Name, err)
		}
	}
	for _, ch := range chains(kind) {
		marks, err := ch.marks()
		if err != nil {
			return err
		}
		base := ch.nft(table)
		c.AddChain(base)
		for i, rule := range ch.rules {
			c.AddRule(&nftables.Rule{Table: table, Chain: base, Exprs: rule, UserData: marks[i]})
		}
	}
	return nil
}

func (ch chain) nft(t *nftables.Table) *nftables.Chain {
	priority := nftables.ChainPriority(ch.priority)
	return &nftables.Chain{Table: t, Name: ch.name, Type: ch.kind, Hooknum: ch.hook, Priority: &priority}
}

// marks are the comments by which the chain's rules are known again: a hash of
// all before and of the rule itself, so that a rule that is missing, foreign,
// out of order or of another version shows.
func (ch chain) marks() ([][]byte, error) {
	hash := sha256.New()
	var list [][]byte
	for _, rule := range ch.rules {
		for _, e := range rule {
			b, err := expr.Marshal(unix.NFPROTO_INET, e)
			if err != nil {
				return nil, fmt.Errorf("encoding a rule of chain %s: %w", ch.name, err)
			}
			hash.Write(b)
		}
		list = append(list, userdata.AppendString(nil, userdata.TypeComment, "vipod "+hex.EncodeToString(hash.Sum(nil)[:6])))
	}
	return list, nil
}

// observe reads the tables. One that lacks something is damaged.
func (t *tables) observe() (plan.Actual, error) {
	actual := plan.Actual{Tables: plan.Tables{}, Damaged: map[plan.Kind]bool{}}
	c, err := open(func(*netlink.Conn) error { return nil })
	if err != nil {
		return actual, err
	}
	defer func() { _ = c.CloseLasting() }() // only read
	raw, err := netlink.Dial(unix.NETLINK_NETFILTER, nil)
	if err != nil {
		return actual, fmt.Errorf("opening nf_tables: %w", err)
	}
	defer func() { _ = raw.Close() }() // only read
	list, err := c.ListTablesOfFamily(nftables.TableFamilyINet)
	if err != nil {
		return actual, fmt.Errorf("listing tables: %w", err)
	}
	for _, kind := range plan.Kinds {
		table := t.nft(kind)
		if !slices.ContainsFunc(list, func(x *nftables.Table) bool { return x.Name == table.Name }) {
			continue
		}
		lists, err := t.whole(raw, kind)
		var found plan.Table
		if err == nil {
			found, err = t.read(c, kind)
		}
		switch {
		case errors.Is(err, errDamaged), errors.Is(err, unix.ENOENT):
			actual.Damaged[kind] = true
		case err != nil:
			return actual, fmt.Errorf("reading table %s: %w", table.Name, err)
		default:
			if len(lists) > 0 {
				found[plan.Lists] = lists
			}
			actual.Tables[kind] = found
		}
	}
	return actual, nil
}

var errDamaged = errors.New("the table is not as it was made")

func (t *tables) read(c *nftables.Conn, kind plan.Kind) (plan.Table, error) {
	found := plan.Table{}
	for i := range shapes[kind] {
		spec := &shapes[kind][i]
		set, err := spec.nft(t.nft(kind))
		if err != nil {
			return nil, err
		}
		if spec.timeout {
			continue
		}
		elements, err := c.GetSetElements(set)
		if err != nil {
			return nil, err
		}
		if spec.alone() {
			if elements, err = pair(elements); err != nil {
				return nil, errors.Join(errDamaged, err)
			}
		}
		for _, e := range elements {
			key, value, err := spec.decode(e)
			if err != nil {
				return nil, errors.Join(errDamaged, err)
			}
			found.Put(spec.name, key, value)
		}
	}
	return found, nil
}

// whole returns the table's lists, and errDamaged unless every chain of ours
// has its rules and no others.
func (t *tables) whole(c *netlink.Conn, kind plan.Kind) (plan.Elements, error) {
	have, err := t.readMarks(c, kind)
	if err != nil {
		return nil, err
	}
	for _, ch := range chains(kind) {
		want, err := ch.marks()
		if err != nil {
			return nil, err
		}
		if !slices.EqualFunc(have[ch.name], want, slices.Equal) {
			return nil, errDamaged
		}
	}
	lists := plan.Elements{}
	for name, marks := range have {
		if !plan.IsList(name) {
			continue
		}
		if !slices.EqualFunc(marks, listMarks(name, len(marks)), slices.Equal) {
			return nil, errDamaged
		}
		lists[name] = "" // its name says what is in it
	}
	return lists, nil
}

// readMarks reads the comments of the rules of all chains, by chain. The
// library would decode the rules' expressions, too, of which it does not know
// all.
func (t *tables) readMarks(c *netlink.Conn, kind plan.Kind) (map[string][][]byte, error) {
	m, err := message(unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_GETRULE, netlink.Dump, unix.NFPROTO_INET, []netlink.Attribute{
		{Type: unix.NFTA_RULE_TABLE, Data: []byte(kind.TableName(t.instance) + "\x00")},
	})
	if err != nil {
		return nil, err
	}
	answers, err := c.Execute(m)
	if err != nil {
		return nil, err
	}
	marks := map[string][][]byte{}
	for _, a := range answers {
		if len(a.Data) < 4 {
			return nil, errShort
		}
		d, err := netlink.NewAttributeDecoder(a.Data[4:])
		if err != nil {
			return nil, err
		}
		var chain string
		var mark []byte
		for d.Next() {
			switch d.Type() {
			case unix.NFTA_RULE_CHAIN:
				chain = d.String()
			case unix.NFTA_RULE_USERDATA:
				mark = d.Bytes()
			}
		}
		if err := d.Err(); err != nil {
			return nil, err
		}
		marks[chain] = append(marks[chain], mark)
	}
	return marks, nil
}

// dropped adds up the counters of the tables.
func (t *tables) dropped() (map[plan.Kind]uint64, error) {
	c, err := open(func(*netlink.Conn) error { return nil })
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.CloseLasting() }() // only read
	counts := map[plan.Kind]uint64{}
	for _, kind := range []plan.Kind{plan.Egress, plan.Firewall, plan.Wireguard} { // the other drops nothing
		for _, ch := range chains(kind) {
			rules, err := c.GetRules(t.nft(kind), ch.nft(t.nft(kind)))
			if errors.Is(err, unix.ENOENT) {
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("reading counters of table %s: %w", kind, err)
			}
			for _, rule := range rules {
				for _, e := range rule.Exprs {
					if n, ok := e.(*expr.Counter); ok {
						counts[kind] += n.Packets
					}
				}
			}
		}
	}
	return counts, nil
}
