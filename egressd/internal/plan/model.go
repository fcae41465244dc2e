package plan

import (
	"crypto/sha256"
	"encoding/hex"
)

// Kind is a feature and its table.
type Kind string

// Kinds of tables.
const (
	Egress   Kind = "egress"
	Firewall Kind = "firewall"
	Balance  Kind = "balance"
)

// Kinds are all of them in the order of a plan.
var Kinds = []Kind{Egress, Firewall, Balance, Wireguard}

// maxTableName is what the kernel allows for a name (NFT_TABLE_MAXNAMELEN),
// in bytes.
const maxTableName = 255

// TableName returns the name of an instance's table. An instance's name that
// is too long for it is cut and told apart by its hash.
func (k Kind) TableName(instance string) string {
	name := "vipod_" + string(k)
	if instance == "" {
		return name
	}
	name += "_" + instance
	if len(name) <= maxTableName {
		return name
	}
	sum := sha256.Sum256([]byte(instance))
	hash := hex.EncodeToString(sum[:8])
	return name[:maxTableName-len(hash)-1] + "_" + hash
}

// Sets of the table egress, each with a 4 or 6 behind its name for the family.
// All but Internal and Local are by pod, so that what one Service's pods may do says
// nothing about another's.
const (
	// Pods has the pods of Services.
	Pods = "pods"
	// VIPs maps a pod to the VIP that its connections leave with.
	VIPs = "vips"
	// Via maps a pod to the mark that leads its packets to another node, which
	// gives them the VIP; here they keep their source.
	Via = "via"
	// Held has the pods that have none.
	Held = "held"
	// Internal has the cluster's networks.
	Internal = "internal"
	// Everywhere has pods whose VIP also goes inside of the cluster.
	Everywhere = "everywhere"
	// Narrowed maps a pod to the chain of its list, if it has one.
	Narrowed = "narrowed"
	// Local has this node's networks of pods while pods that are not known
	// are held back.
	Local = "local"
	// Known has the pods in them that are known and no Service's.
	Known = "known"
)

// Lists are the chains that narrow what leaves with a VIP: no set, but each is
// an element of one here, named by List.Name, with List.String as its value.
const Lists = "lists"

// Sets of the table firewall, by family.
const (
	// Guarded has VIPs that only Open ports of are reached.
	Guarded = "guarded"
	// Open has the ports of VIPs.
	Open = "open"
)

// Sets of the table balance, by family.
const (
	// Frontends has VIPs and their ports.
	Frontends = "frontends"
	// FrontPorts has the ports of frontends.
	FrontPorts = "frontports"
	// Backends has what slots map to.
	Backends = "backends"
	// Slots maps 0 to SlotCount-1 to backends.
	Slots = "slots"
)

// SlotCount is how many slots backends share: enough for shares to differ
// little whatever the number of backends.
const SlotCount = 128

// Elements are those of a set, or of a map with their values, as nft prints
// them: fields with " . " between.
type Elements map[string]string

// Table is a table's sets by name.
type Table map[string]Elements

// Put adds an element.
func (t Table) Put(set, key, value string) {
	if t[set] == nil {
		t[set] = Elements{}
	}
	t[set][key] = value
}

// Tables are whole tables by kind.
type Tables map[Kind]Table

// Desired is what there shall be.
type Desired struct {
	Tables Tables
	// Sweep says that what is not wanted goes.
	Sweep bool
	// Known are the pods, and other Owners, whose elements go even without
	// Sweep, as the documents about them are known.
	Known map[string]bool
}

// Actual is what there is.
type Actual struct {
	// Tables are the whole ones.
	Tables Tables
	// Damaged are those that are there and not whole.
	Damaged map[Kind]bool
}
