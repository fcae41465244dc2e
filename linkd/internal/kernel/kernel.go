// Package kernel looks at links and changes them over rtnetlink.
package kernel

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/vipod/vipod/linkd/internal/plan"
	"github.com/vipod/vipod/shared/netsafe"
)

// State is what is in the kernel.
type State struct {
	plan.Actual
	// LinkLocal are the links' own addresses of IPv6 that can be used, by
	// index.
	LinkLocal map[int]netip.Addr
}

// Kernel is where links are.
type Kernel interface {
	Observe() (State, error)
	// Do makes one operation. What it does is as plan.Apply says; an operation
	// that fails leaves nothing half done.
	Do(plan.Op) error
}

// Linux is the real Kernel, in the namespace of the calling thread.
type Linux struct{}

// Observe implements Kernel.
func (Linux) Observe() (State, error) {
	links, err := netsafe.Links()
	if err != nil {
		return State{}, err
	}
	addresses, err := netsafe.Addresses()
	if err != nil {
		return State{}, err
	}
	s := State{LinkLocal: map[int]netip.Addr{}}
	for _, l := range links {
		s.Links = append(s.Links, plan.Link{
			Name: l.Name, Index: l.Index, Kind: l.Kind, ParentIndex: l.Parent,
			VLAN: l.VLAN, VLANProtocol: l.VLANProtocol, MacvlanMode: l.MacvlanMode,
			MAC: strings.ToLower(l.MAC.String()), MTU: l.MTU, Alias: l.Alias,
			Conf:  plan.Conf{RPFilter: l.RPFilter, ARPIgnore: l.ARPIgnore, ARPAnnounce: l.ARPAnnounce},
			Admin: l.Flags&unix.IFF_UP != 0,
		})
	}
	const unusable = unix.IFA_F_TENTATIVE | unix.IFA_F_DADFAILED
	for _, a := range addresses {
		if ip := a.Prefix.Addr(); ip.Is6() && ip.IsLinkLocalUnicast() && a.Flags&unusable == 0 {
			s.LinkLocal[a.LinkIndex] = ip
		}
	}
	return s, nil
}

// Do implements Kernel.
func (k Linux) Do(op plan.Op) error {
	var err error
	switch o := op.(type) {
	case plan.Add:
		err = k.add(o)
	case plan.Delete:
		err = remove(o.Index)
	case plan.HandOver:
		err = netlink.LinkSetAlias(byIndex(o.Index), o.Alias)
	case plan.SetAdmin:
		err = setAdmin(o.Index, o.Up)
	case plan.SetMAC:
		var mac net.HardwareAddr
		if mac, err = net.ParseMAC(o.MAC); err == nil {
			err = netlink.LinkSetHardwareAddr(byIndex(o.Index), mac)
		}
	case plan.SetMTU:
		err = netlink.LinkSetMTU(byIndex(o.Index), o.MTU)
	case plan.SetConf:
		err = setConf(o.Index, o.Conf)
	default:
		err = errors.ErrUnsupported
	}
	if err != nil {
		return fmt.Errorf("making %q: %w", op, err)
	}
	return nil
}

// byIndex names a link to the library by its index alone.
func byIndex(index int) netlink.Link {
	return &netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: index}}
}

// remove removes a link; one that is gone is no error.
func remove(index int) error {
	err := netlink.LinkDel(byIndex(index))
	if errors.Is(err, unix.ENODEV) {
		return nil
	}
	return err
}

func setAdmin(index int, up bool) error {
	if up {
		return netlink.LinkSetUp(byIndex(index))
	}
	return netlink.LinkSetDown(byIndex(index))
}

// add makes a link under a name that says that it is incomplete, makes it
// complete and gives it its own name, which a link has only while it is down.
// The kernel has no way to make a link together with its alias.
func (k Linux) add(o plan.Add) error {
	if o.Replaces != 0 {
		if err := remove(o.Replaces); err != nil {
			return err
		}
	}
	if err := k.sweep(o); err != nil {
		return err
	}
	parent, err := netlink.LinkByName(o.Parent)
	if err != nil {
		return fmt.Errorf("looking for %s: %w", o.Parent, err)
	}
	link, err := request(o, parent.Attrs())
	if err != nil {
		return err
	}
	if err := netlink.LinkAdd(link); err != nil {
		return err
	}
	made, err := netlink.LinkByName(o.Temp)
	if err != nil {
		return err
	}
	index := made.Attrs().Index
	if err := complete(o, made); err != nil {
		return errors.Join(err, remove(index))
	}
	return nil
}

// sweep removes what a process that died left under the name.
func (Linux) sweep(o plan.Add) error {
	left, err := netlink.LinkByName(o.Temp)
	var missing netlink.LinkNotFoundError
	switch {
	case errors.As(err, &missing):
		return nil
	case err != nil:
		return fmt.Errorf("looking for %s: %w", o.Temp, err)
	case !o.MayRemove(left.Attrs().Alias):
		return nil // the name is taken, and the kernel will say so
	}
	return remove(left.Attrs().Index)
}

func request(o plan.Add, parent *netlink.LinkAttrs) (netlink.Link, error) {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.ParentIndex, attrs.MTU = o.Temp, parent.Index, parent.MTU
	if o.MAC != "" {
		mac, err := net.ParseMAC(o.MAC)
		if err != nil {
			return nil, err
		}
		attrs.HardwareAddr = mac
	}
	switch o.Kind {
	case plan.VLAN:
		return &netlink.Vlan{LinkAttrs: attrs, VlanId: o.VLAN, VlanProtocol: netlink.VLAN_PROTOCOL_8021Q}, nil
	case plan.Macvlan:
		return &netlink.Macvlan{LinkAttrs: attrs, Mode: netlink.MACVLAN_MODE_BRIDGE}, nil
	}
	return nil, fmt.Errorf("kind %q: %w", o.Kind, errors.ErrUnsupported)
}

func complete(o plan.Add, made netlink.Link) error {
	index := made.Attrs().Index
	if err := netlink.LinkSetAlias(made, o.Alias); err != nil {
		return fmt.Errorf("setting alias: %w", err)
	}
	if o.Kind == plan.Macvlan {
		if err := setConf(index, o.Conf()); err != nil {
			return fmt.Errorf("setting rp_filter, arp_ignore and arp_announce: %w", err)
		}
	}
	if err := netlink.LinkSetName(made, o.Name); err != nil {
		return fmt.Errorf("naming: %w", err)
	}
	if o.Down {
		return nil
	}
	if err := setAdmin(index, true); err != nil {
		return fmt.Errorf("setting up: %w", err)
	}
	return nil
}

func setConf(index int, c plan.Conf) error {
	return netsafe.SetIPv4Conf(index, map[netsafe.IPv4Conf]uint32{
		netsafe.RPFilter: uint32(c.RPFilter), netsafe.ARPIgnore: uint32(c.ARPIgnore), netsafe.ARPAnnounce: uint32(c.ARPAnnounce),
	})
}
