package e2e

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vipod/vipod/shared/netsafe"
)

// protocol marks vipod's addresses, the default of vip_routingprotocol.
const protocol = 248

// address returns an address of a role's namespace as the kernel has it.
func (e *env) address(role string, ip netip.Addr) (a netsafe.Address, ok bool) {
	e.t.Helper()
	for _, a := range e.addresses(role) {
		if a.Prefix.Addr() == ip {
			return a, true
		}
	}
	return a, false
}

func (e *env) addresses(role string) (list []netsafe.Address) {
	e.t.Helper()
	e.must(e.InNS(role, func() (err error) {
		list, err = netsafe.Addresses()
		return err
	}))
	return list
}

// tagged returns the addresses of a node that are marked as vipod's.
func (e *env) tagged(node string) (list []netip.Prefix) {
	e.t.Helper()
	for _, a := range e.addresses(node) {
		if a.Protocol == protocol {
			list = append(list, a.Prefix)
		}
	}
	return list
}

// holders returns the nodes whose kernels have the address.
func (e *env) holders(ip netip.Addr) (nodes []string) {
	e.t.Helper()
	for _, node := range e.Nodes() {
		if _, ok := e.address(node, ip); ok {
			nodes = append(nodes, node)
		}
	}
	return nodes
}

// nowhere returns an error while some node's kernel has the address.
func (e *env) nowhere(ip netip.Addr) error {
	if nodes := e.holders(ip); len(nodes) > 0 {
		return fmt.Errorf("%s is on %v", ip, nodes)
	}
	return nil
}

// only returns an error unless the kernel of this node alone has the address.
func (e *env) only(node string, ip netip.Addr) error {
	return want("the holder of "+ip.String(), strings.Join(e.holders(ip), ","), node)
}

// run runs a command in a role's namespace.
func (e *env) run(role string, command string) string {
	e.t.Helper()
	out, err := e.Exec(e.ctx, role, strings.Fields(command)...)
	e.must(err)
	return string(out)
}

// removals records which addresses the kernel of a node removes.
type removals struct {
	mu   sync.Mutex
	list []removal
	stop context.CancelFunc
	done chan error
}

type removal struct {
	ip netip.Addr
	at time.Time
}

// watchRemovals starts to record. It sees everything from its return on.
func (e *env) watchRemovals(node string) *removals {
	e.t.Helper()
	ctx, stop := context.WithCancel(e.ctx)
	r := &removals{stop: stop, done: make(chan error, 1)}
	ready := make(chan bool, 1)
	go func() {
		r.done <- e.InNS(node, func() error {
			opened := func() {
				select {
				case ready <- true:
				default:
				}
			}
			return netsafe.Monitor(ctx, unix.NETLINK_ROUTE, r.note, opened, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR)
		})
	}()
	select {
	case <-ready:
	case err := <-r.done:
		e.t.Fatalf("watching the addresses of %s: %v", node, err)
	}
	e.t.Cleanup(stop)
	return r
}

// note records one message of rtnetlink.
func (r *removals) note(m syscall.NetlinkMessage) bool {
	if m.Header.Type != unix.RTM_DELADDR {
		return false
	}
	attrs, err := syscall.ParseNetlinkRouteAttr(&m)
	if err != nil {
		return false
	}
	for _, a := range attrs {
		if a.Attr.Type != unix.IFA_ADDRESS {
			continue
		}
		if ip, ok := netip.AddrFromSlice(a.Value); ok {
			r.mu.Lock()
			r.list = append(r.list, removal{ip, time.Now()})
			r.mu.Unlock()
		}
	}
	return false
}

// of returns when the address was removed.
func (r *removals) of(ip netip.Addr) []time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	var times []time.Time
	for _, x := range r.list {
		if x.ip == ip {
			times = append(times, x.at)
		}
	}
	return times
}

// untouched fails the test if one of the addresses was removed.
func (e *env) untouched(r *removals, addrs ...netip.Addr) {
	e.t.Helper()
	for _, ip := range addrs {
		if n := len(r.of(ip)); n > 0 {
			e.t.Errorf("%s was removed %d times, want it to stay in the kernel", ip, n)
		}
	}
}

// tables returns the nftables tables of a node, "family name" each.
func (e *env) tables(node string) []string {
	e.t.Helper()
	var tables []string
	for line := range strings.Lines(e.run(node, "nft list tables")) {
		tables = append(tables, strings.TrimPrefix(strings.TrimSpace(line), "table "))
	}
	return tables
}

// fenced says whether a node has vipod's table.
func (e *env) fenced(node string) bool {
	return slices.ContainsFunc(e.tables(node), func(t string) bool { return strings.Contains(t, "vipod") })
}
