package kernel

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/google/nftables"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/vipod/vipod/vipd/internal/plan"
)

const (
	chainPrefix = "egress_"
	// elementsPerMessage keeps the list of elements below the 64 KiB of a
	// netlink attribute.
	elementsPerMessage = 500
	// sendBuffer takes a transaction of 10 000 addresses, in bytes.
	sendBuffer = 8 << 20
	// tick is how coarse the kernel's timeouts are: they are cut by it, so
	// that rounding never prolongs a grant.
	tick = 10 * time.Millisecond
)

// fence is one nftables table:
//
//	table netdev vipod_fence {
//	  set muted4 { type ipv4_addr }             set muted6 { type ipv6_addr }
//	  set vips4_node { type ipv4_addr }         set vips6_node { type ipv6_addr }
//	  set granted_node { type ifname; timeout } and the same for control_plane
//	  chain egress_eth0 { type filter hook egress device eth0 priority 0
//	    ARP whose sender is in muted4, drop
//	    NA whose target or NS whose source is in muted6, drop
//	    oifname not in granted_node, ARP whose sender is in vips4_node, drop
//	    oifname not in granted_node, NA whose target or NS whose source is in vips6_node, drop
//	    and the same for control_plane
//	  }
//	}
//
// It sits on egress of the link, where frames of the kernel and of packet
// sockets pass alike.
type fence struct{ table string }

func (f *fence) nft() *nftables.Table {
	return &nftables.Table{Name: f.table, Family: nftables.TableFamilyNetdev}
}

// connect returns a connection that is opened for each exchange: after an
// error in the middle of a transaction nothing of it is left to be read.
func connect() (*nftables.Conn, error) {
	return nftables.New(nftables.WithSockOptions(func(c *netlink.Conn) error {
		return errors.Join(c.SetWriteBuffer(sendBuffer), c.SetReadBuffer(sendBuffer))
	}))
}

// sets returns all sets of the table.
func (f *fence) sets() []*nftables.Set {
	list := []*nftables.Set{f.ipSet("muted", "", true), f.ipSet("muted", "", false)}
	for _, g := range plan.Grants {
		list = append(list, f.ipSet("vips", g, true), f.ipSet("vips", g, false), f.grantSet(g))
	}
	return list
}

func (f *fence) ipSet(set string, g plan.Grant, is4 bool) *nftables.Set {
	s := &nftables.Set{Table: f.nft(), Name: plan.SetName(set, g, is4), KeyType: nftables.TypeIP6Addr}
	if is4 {
		s.KeyType = nftables.TypeIPAddr
	}
	return s
}

func (f *fence) grantSet(g plan.Grant) *nftables.Set {
	return &nftables.Set{Table: f.nft(), Name: plan.SetName("granted", g, false), KeyType: nftables.TypeIFName, HasTimeout: true}
}

// do makes the operations as one transaction.
func (f *fence) do(ops []plan.Op) error {
	c, err := connect()
	if err != nil {
		return fmt.Errorf("opening nf_tables: %w", err)
	}
	elements := map[string][]nftables.SetElement{} // by verb and set, in bulk
	for _, op := range ops {
		switch o := op.(type) {
		case plan.AddTable:
			f.addTable(c)
		case plan.DelTable:
			c.DelTable(f.nft())
		case plan.AddChain:
			f.addChain(c, o.Link)
		case plan.DelChain:
			chain := f.chain(o.Link)
			c.FlushChain(chain)
			c.DelChain(chain)
		default:
			collect(elements, op)
		}
	}
	if err := f.change(c, elements); err != nil {
		return err
	}
	if err := c.Flush(); err != nil {
		return fmt.Errorf("making %q and %d more: %w", ops[0], len(ops)-1, err)
	}
	return nil
}

func collect(elements map[string][]nftables.SetElement, op plan.Op) {
	put := func(verb, set string, g plan.Grant, ip netip.Addr) {
		key := verb + " " + plan.SetName(set, g, ip.Is4())
		elements[key] = append(elements[key], nftables.SetElement{Key: ip.AsSlice()})
	}
	switch o := op.(type) {
	case plan.Mute:
		put("add", "muted", "", o.IP)
	case plan.Unmute:
		put("delete", "muted", "", o.IP)
	case plan.Cover:
		put("add", "vips", o.Grant, o.IP)
	case plan.Uncover:
		put("delete", "vips", o.Grant, o.IP)
	}
}

// change puts the collected elements into the transaction.
func (f *fence) change(c *nftables.Conn, elements map[string][]nftables.SetElement) error {
	for _, s := range f.sets() {
		for chunk := range slices.Chunk(elements["add "+s.Name], elementsPerMessage) {
			if err := c.SetAddElements(s, chunk); err != nil {
				return fmt.Errorf("adding to %s: %w", s.Name, err)
			}
		}
		for chunk := range slices.Chunk(elements["delete "+s.Name], elementsPerMessage) {
			if err := c.SetDeleteElements(s, chunk); err != nil {
				return fmt.Errorf("deleting from %s: %w", s.Name, err)
			}
		}
	}
	return nil
}

// addTable makes the table anew: what is left of a damaged one goes in the
// same transaction.
func (f *fence) addTable(c *nftables.Conn) {
	c.AddTable(f.nft())
	c.DelTable(f.nft())
	c.AddTable(f.nft())
	for _, s := range f.sets() {
		// Fails only for an anonymous set.
		_ = c.AddSet(s, nil)
	}
}

// setGrant replaces the elements of the grant. Adding before deleting makes
// the deletion succeed for an element that has expired; a plain addition
// would not prolong one that has not.
func (f *fence) setGrant(g plan.Grant, links []string, left time.Duration) error {
	if len(links) == 0 {
		return nil
	}
	err := f.tryGrant(g, links, left)
	if errors.Is(err, unix.ENOENT) {
		// An element expired between its addition and its deletion.
		err = f.tryGrant(g, links, left)
	}
	return err
}

func (f *fence) tryGrant(g plan.Grant, links []string, left time.Duration) error {
	c, err := connect()
	if err != nil {
		return fmt.Errorf("opening nf_tables: %w", err)
	}
	set := f.grantSet(g)
	if left -= tick; left < tick {
		c.FlushSet(set)
		return c.Flush()
	}
	elements := make([]nftables.SetElement, len(links))
	for i, l := range links {
		elements[i] = nftables.SetElement{Key: ifname(l), Timeout: left.Truncate(time.Millisecond)}
	}
	for chunk := range slices.Chunk(elements, elementsPerMessage) {
		if err := errors.Join(c.SetAddElements(set, chunk), c.SetDeleteElements(set, chunk), c.SetAddElements(set, chunk)); err != nil {
			return err
		}
	}
	return c.Flush()
}

// ifname returns a name as the kernel compares it in a set of type ifname.
func ifname(name string) []byte {
	b := make([]byte, unix.IFNAMSIZ)
	copy(b, name)
	return b
}

// observe reads the table. One that lacks a set does not count as existing;
// a chain that lacks a rule does not either.
func (f *fence) observe() (plan.Fence, error) {
	c, err := connect()
	if err != nil {
		return plan.Fence{}, err
	}
	found := plan.Fence{Exists: true, Vips: map[plan.Grant][]netip.Addr{}, Open: map[plan.Grant][]string{}}
	if found.Chains, err = f.observeChains(c); err != nil {
		return plan.Fence{}, absent(err)
	}
	read := func(set string, g plan.Grant) (list []netip.Addr, err error) {
		for _, is4 := range []bool{true, false} {
			elements, err := c.GetSetElements(f.ipSet(set, g, is4))
			if err != nil {
				return nil, err
			}
			for _, e := range elements {
				if ip, ok := netip.AddrFromSlice(e.Key); ok {
					list = append(list, ip)
				}
			}
		}
		slices.SortFunc(list, netip.Addr.Compare)
		return list, nil
	}
	if found.Muted, err = read("muted", ""); err != nil {
		return plan.Fence{}, absent(err)
	}
	for _, g := range plan.Grants {
		if found.Vips[g], err = read("vips", g); err != nil {
			return plan.Fence{}, absent(err)
		}
		open, err := c.GetSetElements(f.grantSet(g))
		if err != nil {
			return plan.Fence{}, absent(err)
		}
		for _, e := range open {
			found.Open[g] = append(found.Open[g], unix.ByteSliceToString(e.Key))
		}
		slices.Sort(found.Open[g])
	}
	return found, nil
}

// absent turns "no such object" into success: then there is no fence.
func absent(err error) error {
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}

// observeChains returns the links that have a whole chain; ENOENT when there
// is no table.
func (f *fence) observeChains(c *nftables.Conn) ([]string, error) {
	tables, err := c.ListTablesOfFamily(nftables.TableFamilyNetdev)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(tables, func(t *nftables.Table) bool { return t.Name == f.table }) {
		return nil, unix.ENOENT
	}
	chains, err := c.ListChainsOfTableFamily(nftables.TableFamilyNetdev)
	if err != nil {
		return nil, err
	}
	var links []string
	for _, chain := range chains {
		link, ok := strings.CutPrefix(chain.Name, chainPrefix)
		if chain.Table.Name != f.table || !ok {
			continue
		}
		rules, err := c.GetRules(f.nft(), chain)
		if err != nil {
			return nil, err
		}
		if len(rules) == len(f.rules(chain)) {
			links = append(links, link)
		}
	}
	slices.Sort(links)
	return links, nil
}
