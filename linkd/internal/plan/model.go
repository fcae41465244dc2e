// Package plan decides which links are made, changed, handed over and removed.
// It is pure.
//
// A link is ours when its alias says so: "vipod:<instance>:<key>", with the key
// of one of the VIP documents that need it, its owner. Nothing else is ever
// changed. A link of the wanted name that was there before is used as it is
// (adopted) if it is what the document asks for, and refused otherwise.
//
// A link that several documents need goes with the last of them: when its owner
// no longer needs it, another one becomes the owner.
package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"strings"
)

// Kinds of links, as the kernel names them.
const (
	VLAN    = "vlan"
	Macvlan = "macvlan"
)

// Values of the kernel that a link of ours has.
const (
	// protocol8021Q is ETH_P_8021Q.
	protocol8021Q = 0x8100
	// modeBridge is MACVLAN_MODE_BRIDGE: macvlans of one parent reach each
	// other.
	modeBridge = 4
)

// Desired is what the documents want.
type Desired struct {
	// Instance tells two vipods on one node apart; may be empty.
	Instance string
	// Sweep says that the documents are complete: what they do not want goes.
	Sweep bool
	// Wants holds one entry per link.
	Wants []Want
	// Gone are links that a withdrawn document names. They go even before the
	// documents are complete.
	Gone []string
}

// Want is one link that documents need.
type Want struct {
	Name, Kind, Parent string
	VLAN               int
	MAC                string // of a macvlan, lower case; "" for any
	RPFilter           int    // of a macvlan
	// Down: the link shall be there and carry nothing.
	Down bool
	// Users are the keys of the documents, sorted.
	Users []string
}

// Conf are settings of IPv4 of one link (ip-sysctl.rst).
type Conf struct{ RPFilter, ARPIgnore, ARPAnnounce int }

// Conf is what a macvlan is given. The kernel would answer ARP on it for every
// address of the node, so that the other VIPs had two hardware addresses, one
// of which moves with this link: it answers for its own addresses only
// (arp_ignore 1), and asks with none but them (arp_announce 2).
func (w Want) Conf() Conf { return Conf{RPFilter: w.RPFilter, ARPIgnore: 1, ARPAnnounce: 2} }

// Actual is what is in the kernel.
type Actual struct{ Links []Link }

// Link is one network link.
type Link struct {
	Name         string
	Index        int
	Kind         string
	ParentIndex  int
	VLAN         int
	VLANProtocol uint16
	MacvlanMode  uint32
	MAC          string
	MTU          int
	Alias        string
	Conf         Conf
	// Admin: set up by an administrator.
	Admin bool
}

// Refusal is why a link is not there as it is wanted, as a condition's reason.
type Refusal string

// Reasons for a link that cannot be used.
const (
	ParentMissing Refusal = "ParentMissing"
	// WrongLink: a link of the name is there that is something else.
	WrongLink Refusal = "WrongLink"
	// LinkDown: a link that is not ours is set down.
	LinkDown Refusal = "LinkDown"
	// HeldDown: it shall carry nothing now.
	HeldDown    Refusal = "HeldDown"
	KernelError Refusal = "KernelError"
)

const aliasPrefix = "vipod:"

// maxAlias is what the kernel takes (IFALIASZ, with its final zero).
const maxAlias = 255

// Alias returns the text that makes a link ours, owned by the document. A key
// that does not fit is replaced by its hash.
func Alias(instance, key string) string {
	alias := aliasPrefix + instance + ":" + key
	if len(alias) <= maxAlias {
		return alias
	}
	sum := sha256.Sum256([]byte(key))
	alias = aliasPrefix + instance + ":" + hex.EncodeToString(sum[:8])
	return alias[:min(len(alias), maxAlias)]
}

// ours says whether an alias is one of the instance's.
func ours(instance, alias string) bool { return strings.HasPrefix(alias, aliasPrefix+instance+":") }

// TempName is the name of a link while it is being made. One that is found is
// left of a process that died, and ours although it may have no alias yet.
func TempName(instance, name string) string {
	return fmt.Sprintf("%s%04x", tempPrefix(instance), uint16(hash(name)))
}

func tempPrefix(instance string) string { return fmt.Sprintf("vipod~%04x", uint16(hash(instance))) }

func hash(s string) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(s)) // hash.Hash never fails
	return h.Sum32() ^ h.Sum32()>>16
}

// owned says whether the link is ours.
func (d Desired) owned(l Link) bool {
	return ours(d.Instance, l.Alias) || l.Alias == "" && strings.HasPrefix(l.Name, tempPrefix(d.Instance))
}
