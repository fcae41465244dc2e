package kernel

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/vipod/vipod/shared/netsafe"
	"github.com/vipod/vipod/vipd/internal/plan"
)

// virtual are kinds of links of which a node has one per pod or tunnel.
var virtual = map[string]bool{"veth": true, "tun": true, "wireguard": true, "vxlan": true, "geneve": true,
	"ipip": true, "gre": true, "sit": true, "ip6tnl": true, "nlmon": true, "ifb": true}

// observeLinks fills in the links and returns their names by index.
func (k *Linux) observeLinks(a *plan.Actual) (map[int]string, error) {
	links, err := netsafe.Links()
	if err != nil {
		return nil, err
	}
	routes, err := netsafe.DefaultRoutes()
	if err != nil {
		return nil, err
	}
	names := make(map[int]string, len(links))
	clear(k.index)
	for _, l := range links {
		names[l.Index], k.index[l.Name] = l.Name, l.Index
		a.Links = append(a.Links, plan.Link{
			Name: l.Name, Index: l.Index, MAC: l.MAC.String(),
			Loopback: l.Flags&unix.IFF_LOOPBACK != 0,
			Admin:    l.Flags&unix.IFF_UP != 0, Up: l.Up(),
			Resolves:    l.Flags&unix.IFF_NOARP == 0,
			Virtual:     virtual[l.Kind],
			DefaultIPv4: routes.IPv4[l.Index], DefaultIPv6: routes.IPv6[l.Index],
		})
	}
	slices.SortFunc(a.Links, func(a, b plan.Link) int { return cmp.Compare(a.Name, b.Name) })
	return names, nil
}

func observeAddresses(a *plan.Actual, names map[int]string) error {
	addrs, err := netsafe.Addresses()
	if err != nil {
		return err
	}
	for _, x := range addrs {
		if name, ok := names[x.LinkIndex]; ok { // else the link came in between
			a.Addresses = append(a.Addresses, plan.Address{Link: name, Prefix: x.Prefix, Protocol: x.Protocol,
				Scope: x.Scope, Valid: x.Valid, Preferred: x.Preferred})
		}
	}
	plan.SortAddresses(a.Addresses)
	return nil
}

// doAddresses makes operations on addresses. A link is named by the index
// that it had when the kernel was last observed, so that a link that was made
// anew since gives an error and not an address.
func (k *Linux) doAddresses(ops []plan.Op) []error {
	changes := make([]netsafe.Change, len(ops))
	for i, op := range ops {
		changes[i] = k.change(op)
	}
	errs := netsafe.ChangeAddresses(changes)
	for i, err := range errs {
		errs[i] = outcome(ops[i], err)
	}
	return errs
}

func (k *Linux) change(op plan.Op) netsafe.Change {
	c := netsafe.Change{}
	var a plan.Address
	switch o := op.(type) {
	case plan.AddAddress:
		c.Kind, a = netsafe.Add, o.Address
	case plan.Refresh:
		c.Kind, a = netsafe.Replace, o.Address
	case plan.DelAddress:
		c.Kind, a = netsafe.Delete, o.Address
	}
	c.Address = netsafe.Address{LinkIndex: k.index[a.Link], Prefix: a.Prefix, Protocol: a.Protocol, Scope: a.Scope,
		Valid: a.Valid, Preferred: a.Preferred, Flags: unix.IFA_F_NOPREFIXROUTE}
	if a.Prefix.Addr().Is6() {
		// The Lease and arpd have proven that nobody else has it; waiting for
		// duplicate address detection would cost more than a second.
		c.Address.Flags |= unix.IFA_F_NODAD
	}
	return c
}

// outcome folds "already so" into success.
func outcome(op plan.Op, err error) error {
	_, deleting := op.(plan.DelAddress)
	_, adding := op.(plan.AddAddress)
	switch {
	case err == nil, deleting && netsafe.Gone(err), adding && errors.Is(err, unix.EEXIST):
		return nil
	case errors.Is(err, unix.EACCES) && adding:
		return fmt.Errorf("making %q: IPv6 is disabled on the link: %w", op, err)
	}
	return fmt.Errorf("making %q: %w", op, err)
}
