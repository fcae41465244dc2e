package plan

import (
	"encoding/base64"
	"errors"
	"fmt"
	"hash/fnv"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/vipod/vipod/elector/internal/config"
	"github.com/vipod/vipod/shared/bgppeer"
	"github.com/vipod/vipod/shared/schema"
)

// Speaker is what this node's side of BGP follows from.
type Speaker struct {
	Config *config.Config
	// FilePeers are those of the YAML file.
	FilePeers []config.Peer
	// Node is this node; nil while it is not among the Nodes.
	Node *Node
	// Links are this node's, from vipd's report.
	Links []schema.Link
}

// BGP returns this node's side of BGP, or why it is not known. It is nil in
// other modes.
func BGP(in Speaker) (*schema.BGP, error) {
	if in.Config.Mode != config.ModeBGP {
		return nil, nil
	}
	b := in.Config.BGP
	peers := slices.Concat(b.Peers, in.FilePeers)
	if b.AnnotationPrefix != "" {
		var err error
		if err = in.annotated(&b); err != nil {
			return nil, fmt.Errorf("annotations of Node %s: %w", in.Config.NodeName, err)
		}
		peers = slices.Concat(b.Peers, in.FilePeers)
	}
	id, err := in.routerID(&b)
	if err != nil {
		return nil, err
	}
	out := &schema.BGP{AS: b.AS, RouterID: id, Peers: []schema.BGPPeer{}, Listen: b.Listen}
	names := map[string]bool{}
	for _, p := range peers {
		if len(p.NodeSelector) > 0 && (in.Node == nil || !p.Selects(in.Node.Labels)) {
			continue
		}
		if names[p.Name] {
			return nil, fmt.Errorf("peer %s is given twice", p.Name)
		}
		names[p.Name] = true
		out.Peers = append(out.Peers, p.BGPPeer)
	}
	return out, nil
}

// routerID is the one that is set, the address of the interface that is set,
// the Node's first IPv4 address, or a number made of the Node's name, which is
// unique enough (RFC 6286).
func (in Speaker) routerID(b *config.BGP) (netip.Addr, error) {
	if b.RouterID.IsValid() {
		return b.RouterID, nil
	}
	if b.RouterInterface != "" {
		for _, l := range in.Links {
			for _, own := range l.Addresses {
				if l.Name == b.RouterInterface && own.Addr().Is4() {
					return own.Addr(), nil
				}
			}
		}
		return netip.Addr{}, fmt.Errorf("bgp_routerinterface: interface %s has no IPv4 address", b.RouterInterface)
	}
	if in.Node != nil {
		for _, ip := range in.Node.Addresses {
			if ip.Is4() {
				return ip, nil
			}
		}
	}
	h := fnv.New32a()
	h.Write([]byte(in.Config.NodeName))
	n := h.Sum32() | 1
	return netip.AddrFrom4([4]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}), nil
}

// annotated takes AS, source and peers from the Node's annotations, by
// kube-vip's names: node-asn, src-ip, peer-asn and peer-ip, each also behind
// bgp-peers-0-, and peer-ip of more peers behind bgp-peers-1- and so on.
func (in Speaker) annotated(b *config.BGP) error {
	if in.Node == nil {
		return errors.New("it is not among the Nodes of the API server")
	}
	get := func(names ...string) string {
		for _, name := range names {
			if v := in.Node.Annotations[b.AnnotationPrefix+"/"+name]; v != "" {
				return v
			}
		}
		return ""
	}
	as, err := annotatedAS(get("bgp-peers-0-node-asn", "node-asn"), "node-asn")
	if err != nil {
		return err
	}
	source, err := netip.ParseAddr(get("bgp-peers-0-src-ip", "src-ip"))
	if err != nil {
		return errors.New("src-ip is missing or no address")
	}
	b.AS, b.SourceAddress, b.SourceInterface = as, source, ""
	if source.Is4() {
		b.RouterID = source
	}
	b.Peers = nil
	for i := 0; i < maxAnnotated; i++ {
		prefix := fmt.Sprintf("bgp-peers-%d-", i)
		one := func(name string) string {
			if i == 0 {
				return get(prefix+name, name)
			}
			return get(prefix+name, "bgp-peers-0-"+name, name)
		}
		text := get(prefix + "peer-ip")
		if text == "" && i == 0 {
			text = get("peer-ip")
		}
		if text == "" {
			break
		}
		peers, err := annotatedPeers(text, one)
		if err != nil {
			return err
		}
		for _, p := range peers {
			b.Peers = append(b.Peers, b.Annotated(p))
		}
	}
	if len(b.Peers) == 0 {
		return errors.New("peer-ip is missing")
	}
	return nil
}

// maxAnnotated bounds the peers of annotations.
const maxAnnotated = 64

func annotatedAS(text, name string) (uint32, error) {
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("%s is missing or no AS", name)
	}
	return uint32(n), nil
}

// annotatedPeers reads one peer-ip, which may be a list, with what goes with
// it.
func annotatedPeers(text string, one func(string) string) ([]bgppeer.Peer, error) {
	as, err := annotatedAS(one("peer-asn"), "peer-asn")
	if err != nil {
		return nil, err
	}
	multihop := one("peer-multi-hop")
	if multihop != "" && multihop != "true" && multihop != "false" {
		return nil, errors.New("peer-multi-hop is neither true nor false")
	}
	password := one("bgp-pass")
	if _, err := base64.StdEncoding.DecodeString(password); err != nil {
		return nil, errors.New("bgp-pass is not base64")
	}
	var peers []bgppeer.Peer
	for item := range strings.SplitSeq(text, ",") {
		ip, err := netip.ParseAddr(strings.TrimSpace(item))
		if err != nil || ip.Is4In6() || ip.IsUnspecified() || ip.Zone() != "" {
			return nil, fmt.Errorf("peer-ip %s is no address", config.Quote(item))
		}
		// The password itself stays where it is: bgpd has it from a file.
		peers = append(peers, bgppeer.Peer{
			Address: ip, AS: as, Multihop: multihop == "true", Password: password, Port: bgppeer.Port,
		})
	}
	return peers, nil
}
