package plan

import (
	"fmt"
	"strings"
)

// Op is one change of one link of ours. It prints as the command by which an
// operator would make it.
type Op interface {
	fmt.Stringer
	// Of is the name of the link that the operation is about.
	Of() string
}

// The operations. Index is the link's, so that none of them meets another link
// that has got the name meanwhile.
type (
	// Add makes a link, with its alias, and sets it up unless it shall be down.
	// When a part of that fails nothing is left of it.
	Add struct {
		Want
		Alias string
		// Temp is the link's name until it is complete.
		Temp string
		// Replaces is the index of a link of ours to remove first, 0 for none.
		Replaces int
	}
	// Delete removes a link.
	Delete struct {
		Name  string
		Index int
	}
	// HandOver gives a link another owner.
	HandOver struct {
		Name  string
		Index int
		Alias string
	}
	// SetAdmin sets a link up or down.
	SetAdmin struct {
		Name  string
		Index int
		Up    bool
	}
	// SetMAC gives a link another hardware address.
	SetMAC struct {
		Name  string
		Index int
		MAC   string
	}
	// SetMTU gives a link its parent's MTU.
	SetMTU struct {
		Name  string
		Index int
		MTU   int
	}
	// SetConf sets what a macvlan needs of IPv4's settings.
	SetConf struct {
		Name  string
		Index int
		Conf
	}
)

// MayRemove says whether a link of the temporary name is one that a process
// left half made, by its alias.
func (o Add) MayRemove(alias string) bool {
	return alias == "" || strings.HasPrefix(alias, o.Alias[:strings.LastIndexByte(o.Alias, ':')+1])
}

// Of implements Op.
func (o Add) Of() string { return o.Name }

// Of implements Op.
func (o Delete) Of() string { return o.Name }

// Of implements Op.
func (o HandOver) Of() string { return o.Name }

// Of implements Op.
func (o SetAdmin) Of() string { return o.Name }

// Of implements Op.
func (o SetMAC) Of() string { return o.Name }

// Of implements Op.
func (o SetMTU) Of() string { return o.Name }

// Of implements Op.
func (o SetConf) Of() string { return o.Name }

func (o Add) String() string {
	text := fmt.Sprintf("ip link add link %s name %s", o.Parent, o.Name)
	if o.Replaces != 0 {
		text = fmt.Sprintf("ip link delete %s && ", o.Name) + text
	}
	if o.MAC != "" {
		text += " address " + o.MAC
	}
	switch o.Kind {
	case VLAN:
		text += fmt.Sprintf(" type vlan id %d", o.VLAN)
	case Macvlan:
		text += " type macvlan mode bridge"
	}
	text += fmt.Sprintf(" && ip link set %s alias %s", o.Name, o.Alias)
	if !o.Down {
		text += " up"
	}
	return text
}

func (o Delete) String() string   { return "ip link delete " + o.Name }
func (o HandOver) String() string { return fmt.Sprintf("ip link set %s alias %s", o.Name, o.Alias) }

func (o SetAdmin) String() string {
	to := "down"
	if o.Up {
		to = "up"
	}
	return fmt.Sprintf("ip link set %s %s", o.Name, to)
}

func (o SetMAC) String() string { return fmt.Sprintf("ip link set %s address %s", o.Name, o.MAC) }
func (o SetMTU) String() string { return fmt.Sprintf("ip link set %s mtu %d", o.Name, o.MTU) }

func (o SetConf) String() string {
	conf := "net.ipv4.conf." + o.Name
	return fmt.Sprintf("sysctl %s.rp_filter=%d %s.arp_ignore=%d %s.arp_announce=%d",
		conf, o.RPFilter, conf, o.ARPIgnore, conf, o.ARPAnnounce)
}
