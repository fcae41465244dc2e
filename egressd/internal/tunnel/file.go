package tunnel

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/vipod/vipod/shared/schema"
)

const (
	// maxFile is the largest file of tunnels, in bytes: what a Secret can hold.
	maxFile = 1 << 20
	// maxTunnels is how many tunnels a file may have.
	maxTunnels = 256
	// systemTables are the numbers of routing tables that are not ours to give
	// away, those of rt_tables(5) among them.
	systemTables = 255
)

// Tunnel is a tunnel as its file describes it.
type Tunnel struct {
	// Name is that of the link.
	Name string
	// VIP is the address that is reached through it, with its prefix length.
	VIP netip.Prefix
	// PrivateKey is this end's, PeerKey the far end's public one.
	PrivateKey, PeerKey Key
	// Endpoint is where the far end is.
	Endpoint netip.AddrPort
	// Allowed are the networks behind the far end.
	Allowed []netip.Prefix
	// Port is where this end listens.
	Port uint16
}

// Document returns what others may know of the tunnel.
func (t Tunnel) Document() schema.Tunnel { return schema.Tunnel{Name: t.Name, VIP: t.VIP} }

// Table is the number of the routing table of what leaves through the tunnel.
func (t Tunnel) Table() int { return int(t.Port) }

// markBase is added to a tunnel's port for its mark.
const markBase = 1 << 16

// Mark is that of the tunnel's connections and of the packets that leave
// through it.
func (t Tunnel) Mark() uint32 { return markBase + uint32(t.Port) }

// ParseFile reads a file of tunnels: a YAML mapping of names of links to
// tunnels, as the key "tunnels" of kube-vip's Secret has it. It takes all or
// nothing. Errors name lines, tunnels and fields and never repeat what stands
// there, which may be a key in the wrong place.
func ParseFile(data []byte) ([]Tunnel, error) {
	if len(data) > maxFile {
		return nil, fmt.Errorf("%d bytes are too many: want at most %d", len(data), maxFile)
	}
	var doc, more yaml.Node
	d := yaml.NewDecoder(bytes.NewReader(data))
	if err := d.Decode(&doc); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, errors.New("it is not YAML" + line(err))
	}
	if err := d.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, errors.New("want one YAML document, and nothing behind it")
	}
	root := doc.Content[0]
	if root.Kind == yaml.ScalarNode && root.Tag == "!!null" {
		return nil, nil
	}
	if root.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("line %d: want tunnels, each as name: and its fields", root.Line)
	}
	if len(root.Content)/2 > maxTunnels {
		return nil, fmt.Errorf("%d tunnels are too many: want at most %d", len(root.Content)/2, maxTunnels)
	}
	var all []Tunnel
	for i := 0; i+1 < len(root.Content); i += 2 {
		t, err := parseTunnel(root.Content[i], root.Content[i+1])
		if err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	slices.SortFunc(all, func(a, b Tunnel) int { return strings.Compare(a.Name, b.Name) })
	return all, unique(all)
}

var lineNumber = regexp.MustCompile(`line \d+`)

// line is all that is repeated of an error about YAML, which may quote a key.
func line(err error) string {
	if at := lineNumber.FindString(err.Error()); at != "" {
		return " (" + at + ")"
	}
	return ""
}

// word is what a name of a field or tunnel may look like to be repeated: a key
// of WireGuard is longer.
var word = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.-]{0,23}$`)

func nameOf(n *yaml.Node) string {
	if n.Kind == yaml.ScalarNode && word.MatchString(n.Value) {
		return n.Value
	}
	return "(not shown)"
}

func parseTunnel(key, value *yaml.Node) (t Tunnel, err error) {
	fail := func(n *yaml.Node, format string, args ...any) (Tunnel, error) {
		return Tunnel{}, fmt.Errorf("tunnel %s, line %d: %w", nameOf(key), n.Line, fmt.Errorf(format, args...))
	}
	t.Name = key.Value
	if key.Kind != yaml.ScalarNode || schema.ValidateInterface(t.Name) != nil || strings.HasPrefix(t.Name, TemporaryPrefix) {
		return fail(key, "its name is not one of a link: want 1 to 15 letters, digits, dashes or dots")
	}
	if value.Kind != yaml.MappingNode {
		return fail(value, "want the fields vip, privateKey, peerPublicKey, peerEndpoint, allowedIPs and listenPort")
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(value.Content); i += 2 {
		name, field := nameOf(value.Content[i]), value.Content[i+1]
		set, ok := fieldsOfTunnel[name]
		if !ok {
			return fail(value.Content[i], "there is no field %s", name)
		}
		if seen[name] {
			return fail(value.Content[i], "field %s is given twice", name)
		}
		seen[name] = true
		if err := set(&t, field); err != nil {
			return fail(field, "field %s %w", name, err)
		}
	}
	for _, name := range required {
		if !seen[name] {
			return fail(value, "field %s is missing", name)
		}
	}
	return t, nil
}

// required are the fields that a tunnel must have: all of them.
var required = []string{"vip", "privateKey", "peerPublicKey", "peerEndpoint", "allowedIPs", "listenPort"}

var fieldsOfTunnel = map[string]func(*Tunnel, *yaml.Node) error{
	"vip":           func(t *Tunnel, n *yaml.Node) (err error) { t.VIP, err = parseVIP(scalar(n)); return err },
	"privateKey":    func(t *Tunnel, n *yaml.Node) (err error) { t.PrivateKey, err = ParseKey(scalar(n)); return err },
	"peerPublicKey": func(t *Tunnel, n *yaml.Node) (err error) { t.PeerKey, err = ParseKey(scalar(n)); return err },
	"peerEndpoint":  func(t *Tunnel, n *yaml.Node) (err error) { t.Endpoint, err = parseEndpoint(scalar(n)); return err },
	"allowedIPs":    func(t *Tunnel, n *yaml.Node) (err error) { t.Allowed, err = parseNetworks(n); return err },
	"listenPort":    func(t *Tunnel, n *yaml.Node) (err error) { t.Port, err = parsePort(scalar(n)); return err },
}

// scalar is the text of a node, "" for a list or a mapping.
func scalar(n *yaml.Node) string {
	if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
		return ""
	}
	return strings.TrimSpace(n.Value)
}

func parseVIP(text string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(text)
	if ip, errIP := netip.ParseAddr(text); errIP == nil {
		p, err = netip.PrefixFrom(ip, ip.BitLen()), nil
	}
	ip := p.Addr()
	if err != nil || ip.Zone() != "" || ip.Is4In6() || ip.IsUnspecified() || ip.IsMulticast() || ip.IsLoopback() || p.Bits() < 1 {
		return p, errors.New("is not an address such as 198.51.100.200/32")
	}
	return p, nil
}

// parseEndpoint takes an address and no name: a name would have to be asked
// for again and again, at the moment at which a node takes over.
func parseEndpoint(text string) (netip.AddrPort, error) {
	a, err := netip.ParseAddrPort(text)
	if err != nil || a.Port() == 0 || a.Addr().IsUnspecified() || a.Addr().IsMulticast() || a.Addr().Is4In6() || a.Addr().Zone() != "" {
		return a, errors.New("is not an address and a port such as 203.0.113.1:51820 or [2001:db8::1]:51820; host names are not taken")
	}
	return a, nil
}

// parseNetworks takes a list, or one text with commas between.
func parseNetworks(n *yaml.Node) ([]netip.Prefix, error) {
	var items []string
	switch n.Kind {
	case yaml.SequenceNode:
		for _, item := range n.Content {
			items = append(items, scalar(item))
		}
	default:
		items = strings.Split(scalar(n), ",")
	}
	var list []netip.Prefix
	for _, item := range items {
		p, err := netip.ParsePrefix(strings.TrimSpace(item))
		if err != nil || p.Addr().Is4In6() {
			return nil, errors.New("is not a list of networks such as 192.0.2.0/24")
		}
		list = append(list, p.Masked())
	}
	slices.SortFunc(list, netip.Prefix.Compare)
	return slices.Compact(list), nil
}

func parsePort(text string) (uint16, error) {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n <= systemTables {
		return 0, fmt.Errorf("is not a port from %d to 65535; it is the number of the tunnel's routing table as well, of which those up to %d are the system's",
			systemTables+1, systemTables)
	}
	return uint16(n), nil
}

// unique refuses what two tunnels cannot both have.
func unique(all []Tunnel) error {
	names, vips, ports := map[string]bool{}, map[netip.Addr]string{}, map[uint16]string{}
	for _, t := range all {
		switch {
		case names[t.Name]:
			return fmt.Errorf("tunnel %s is given twice", t.Name)
		case vips[t.VIP.Addr()] != "":
			return fmt.Errorf("tunnels %s and %s have one vip", vips[t.VIP.Addr()], t.Name)
		case ports[t.Port] != "":
			return fmt.Errorf("tunnels %s and %s have one listenPort", ports[t.Port], t.Name)
		}
		names[t.Name], vips[t.VIP.Addr()], ports[t.Port] = true, t.Name, t.Name
	}
	return nil
}

// Shared returns the names of tunnels that have one private key and one far
// end: nodes that own the VIP of one and of another take the far end's session
// from each other.
func Shared(all []Tunnel) []string {
	type ends struct{ own, far Key }
	first := map[ends]string{}
	var names []string
	for _, t := range all {
		e := ends{t.PrivateKey, t.PeerKey}
		if other, ok := first[e]; ok {
			names = append(names, other, t.Name)
		} else {
			first[e] = t.Name
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
