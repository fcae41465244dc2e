// Package wg makes the operations of package tunnel in the Linux kernel and
// reads back what is there: links of WireGuard by rtnetlink, their devices by
// generic netlink (wireguard(4) and linux/wireguard.h), the routes and rules of
// what leaves through them. All of it needs CAP_NET_ADMIN and works in the
// network namespace of the calling thread.
package wg

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vipod/vipod/egressd/internal/genl"
	"github.com/vipod/vipod/egressd/internal/tunnel"
	"github.com/vipod/vipod/shared/netsafe"
)

// Kernel is what the reconciler needs; Linux is the real one and wgtest.Fake
// the other, and one suite of tests holds both to the same.
type Kernel interface {
	// Observe reads our links and those that have one of the names.
	Observe(alias string, names []string) (tunnel.Actual, error)
	// Do makes an operation.
	Do(op tunnel.Op) error
}

// Linux is the kernel of this machine. Protocol marks routes and rules as ours.
type Linux struct{ Protocol uint8 }

// ErrNoWireGuard is a kernel without WireGuard.
var ErrNoWireGuard = errors.New("the kernel has no WireGuard")

// Observe implements Kernel.
func (k Linux) Observe(alias string, names []string) (tunnel.Actual, error) {
	a := tunnel.Actual{Links: map[string]tunnel.Link{}}
	found, err := links(alias, names)
	if err != nil || len(found) == 0 {
		return a, err
	}
	var family *genl.Family
	for _, l := range found {
		if l.Ours(alias) {
			if family == nil {
				if family, err = genl.Open(familyName, familyVersion); err != nil {
					return a, err
				}
				defer func() { _ = family.Close() }() // only read
			}
			err := k.fill(family, &l)
			if errors.Is(err, unix.ENODEV) || errors.Is(err, fs.ErrNotExist) {
				continue // gone in between
			}
			if err != nil {
				return a, fmt.Errorf("reading tunnel %s: %w", l.Name, err)
			}
		}
		a.Links[l.Name] = l.Link
	}
	return a, nil
}

// fill reads the device of a link of ours, its routes and rules.
func (k Linux) fill(device *genl.Family, l *link) (err error) {
	if l.Device, err = read(device, l.Name, time.Now()); err != nil || l.Port == 0 {
		return err
	}
	l.Routes, l.Rules = map[tunnel.Family]bool{}, map[tunnel.Family]bool{}
	for _, f := range tunnel.Families {
		route, err := netsafe.HasDefaultRoute(uint8(family(f)), uint32(l.Table()), l.index)
		if err != nil {
			return err
		}
		rule, err := hasRule(f, tunnel.Tunnel{Port: l.Port}.Mark(), l.Table())
		if err != nil {
			return err
		}
		if route {
			l.Routes[f] = true
		}
		if rule {
			l.Rules[f] = true
		}
	}
	return nil
}

// Do implements Kernel. What is there already, or gone already, is no error.
func (k Linux) Do(op tunnel.Op) error {
	var err error
	switch o := op.(type) {
	case tunnel.Add:
		err = add(o)
	case tunnel.Configure:
		err = k.configure(o.Tunnel)
	case tunnel.SetUp:
		err = setUp(o)
	case tunnel.Route:
		err = k.addRoute(o)
	case tunnel.Rule:
		err = k.addRule(o)
	case tunnel.DelRule:
		err = k.delRule(o.Rule)
	case tunnel.Del:
		err = remove(o.Name)
	default:
		err = errors.ErrUnsupported
	}
	if err != nil {
		return fmt.Errorf("making %q: %w", op, err)
	}
	return nil
}

func (k Linux) configure(t tunnel.Tunnel) error {
	family, err := genl.Open(familyName, familyVersion)
	if err != nil {
		return err
	}
	return errors.Join(configure(family, t), family.Close())
}

// Available says why the kernel cannot have tunnels, nil if it can. The kernel
// loads its module for that if it may.
func Available() error {
	family, err := genl.Open(familyName, familyVersion)
	if errors.Is(err, genl.ErrNoFamily) {
		return ErrNoWireGuard
	}
	if err != nil {
		return err
	}
	return family.Close()
}
