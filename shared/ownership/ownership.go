// Package ownership is the table of who runs as whom and who writes which
// path of the state directory. It is data: the manifests, the lab and the
// daemons' self-checks are all held against it by tests, so that a privilege
// or a path changes in one place or not at all.
package ownership

import (
	"path/filepath"
	"slices"
)

// Group is the group of every daemon; files of the state directory are
// readable by it.
const Group = 65500

// Modes of what a daemon creates in the state directory.
const (
	DirMode    = 0o750
	FileMode   = 0o640
	SocketMode = 0o660
)

// DefaultStateDir is the state directory inside the pod.
const DefaultStateDir = "/run/vipod"

// Names of the daemons.
const (
	Elector  = "elector"
	Vipd     = "vipd"
	Linkd    = "linkd"
	Arpd     = "arpd"
	Bgpd     = "bgpd"
	Egressd  = "egressd"
	Metricsd = "metricsd"
)

// Daemon is one row of the table.
type Daemon struct {
	Name string
	UID  int
	// Capabilities are those the daemon holds and the only ones it may hold,
	// by the names of capabilities(7) without CAP_.
	Capabilities []string
	// Token says whether the container gets a Kubernetes API token.
	Token bool
	// Documents are what the daemon writes below its own directory.
	Documents []Document
	// Reads names the daemons whose documents or sockets it reads.
	Reads []string
}

// ReportsVIPs says whether the daemon writes a report about each VIP.
func (d Daemon) ReportsVIPs() bool {
	return slices.Contains(d.Documents, Document{Path: "vips/*.json", Schema: SchemaStatus})
}

// Document is one file, or one file per VIP, of a daemon's directory.
type Document struct {
	// Path is relative to the daemon's directory; "*" stands for a VIP's key.
	Path string
	// Schema is the document's type and major version.
	Schema string
}

// Schema names, as they stand in a document's "schema" field.
const (
	SchemaNode   = "vipod.node/1"
	SchemaGrant  = "vipod.grant/1"
	SchemaVIP    = "vipod.vip/1"
	SchemaDaemon = "vipod.daemon/1"
	SchemaStatus = "vipod.status/1"
	SchemaLink   = "vipod.link/1"
	SchemaEgress = "vipod.egress/1"
)

var table = []Daemon{
	{
		Name: Elector, UID: 65501, Token: true,
		Documents: []Document{
			{Path: "node.json", Schema: SchemaNode},
			{Path: "grant.json", Schema: SchemaGrant},
			{Path: "daemon.json", Schema: SchemaDaemon},
			{Path: "vips/*.json", Schema: SchemaVIP},
			{Path: "egress/*.json", Schema: SchemaEgress},
		},
		Reads: []string{Vipd, Linkd, Arpd, Bgpd, Egressd},
	},
	{
		Name: Vipd, UID: 65502, Capabilities: []string{"NET_ADMIN"},
		Documents: []Document{
			{Path: "daemon.json", Schema: SchemaDaemon},
			{Path: "vips/*.json", Schema: SchemaStatus},
		},
		Reads: []string{Elector, Linkd},
	},
	{
		Name: Linkd, UID: 65503, Capabilities: []string{"NET_ADMIN", "NET_RAW"},
		Documents: []Document{
			{Path: "daemon.json", Schema: SchemaDaemon},
			{Path: "links/*.json", Schema: SchemaLink},
		},
		Reads: []string{Elector},
	},
	{
		Name: Arpd, UID: 65504, Capabilities: []string{"NET_RAW"},
		Documents: []Document{
			{Path: "daemon.json", Schema: SchemaDaemon},
			{Path: "vips/*.json", Schema: SchemaStatus},
		},
		Reads: []string{Elector},
	},
	{
		Name: Bgpd, UID: 65505,
		Documents: []Document{
			{Path: "daemon.json", Schema: SchemaDaemon},
			{Path: "vips/*.json", Schema: SchemaStatus},
		},
		Reads: []string{Elector},
	},
	{
		Name: Egressd, UID: 65506, Capabilities: []string{"NET_ADMIN"},
		Documents: []Document{
			{Path: "daemon.json", Schema: SchemaDaemon},
			{Path: "vips/*.json", Schema: SchemaStatus},
		},
		Reads: []string{Elector},
	},
	{
		Name: Metricsd, UID: 65507,
		Documents: []Document{
			{Path: "daemon.json", Schema: SchemaDaemon},
		},
		Reads: []string{Elector, Vipd, Linkd, Arpd, Bgpd, Egressd},
	},
}

// Table returns every daemon, in the order of the table.
func Table() []Daemon { return slices.Clone(table) }

// Lookup returns the row of the named daemon.
func Lookup(name string) (Daemon, bool) {
	i := slices.IndexFunc(table, func(d Daemon) bool { return d.Name == name })
	if i < 0 {
		return Daemon{}, false
	}
	return table[i], true
}

// UID returns the uid of the named daemon and -1 for an unknown one, which
// no process has.
func UID(name string) int {
	d, ok := Lookup(name)
	if !ok {
		return -1
	}
	return d.UID
}

// Readers returns the uids that may connect to the named daemon's socket:
// the daemon itself (for exec probes), those that read it, and root, whom no
// file mode stops anyway.
func Readers(name string) []int {
	uids := []int{0, UID(name)}
	for _, d := range table {
		if slices.Contains(d.Reads, name) {
			uids = append(uids, d.UID)
		}
	}
	return uids
}

// Dir returns the named daemon's directory.
func Dir(stateDir, name string) string { return filepath.Join(stateDir, name) }

// VIPs returns the directory of the named daemon's documents per VIP.
func VIPs(stateDir, name string) string { return filepath.Join(stateDir, name, "vips") }

// Links returns the directory of linkd's documents per VIP.
func Links(stateDir string) string { return filepath.Join(stateDir, Linkd, "links") }

// Egress returns the directory of elector's documents about egress.
func Egress(stateDir string) string { return filepath.Join(stateDir, Elector, "egress") }

// Socket returns the path of the named daemon's socket.
func Socket(stateDir, name string) string {
	return filepath.Join(stateDir, name, name+".sock")
}
