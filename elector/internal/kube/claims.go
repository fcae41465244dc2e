package kube

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/vipod/vipod/elector/internal/claim"
)

// AnnotationVIPs holds the addresses that the Lease's holder claims, in
// kube-vip's format.
const AnnotationVIPs = "kube-vip.io/lease-vips"

// MaxClaims is how many addresses one Lease can list: the API server takes
// 256 KiB of annotations per object, and an entry has up to 82 bytes.
const MaxClaims = 3000

const (
	claimsVersion = "v1"
	kindAddress   = "address"
	kindName      = "name"
)

// claimsList is the annotation's value. The order of the fields is part of
// the format: equal lists are equal bytes.
type claimsList struct {
	Version      string       `json:"version"`
	InstanceName string       `json:"instance_name"`
	Protocol     int          `json:"ifa_proto"`
	VIPs         []claimEntry `json:"vips"`
}

type claimEntry struct {
	Index int    `json:"index"`
	Value string `json:"value"`
	Kind  string `json:"kind"`
}

// encodeClaims returns the annotation for the addresses in any order.
func encodeClaims(instance string, protocol int, claims []netip.Addr) (string, error) {
	sorted := slices.Clone(claims)
	slices.SortFunc(sorted, netip.Addr.Compare)
	sorted = slices.Compact(sorted)
	if len(sorted) > MaxClaims {
		return "", fmt.Errorf("encoding %s: %d addresses, at most %d fit", AnnotationVIPs, len(sorted), MaxClaims)
	}
	list := claimsList{Version: claimsVersion, InstanceName: instance, Protocol: protocol, VIPs: []claimEntry{}}
	slices.SortStableFunc(sorted, func(a, b netip.Addr) int { return rank(a) - rank(b) })
	for i, ip := range sorted {
		e := claimEntry{Index: i, Value: ip.String(), Kind: kindAddress}
		if claim.IsToken(ip) {
			e.Value, e.Kind = tokenPrefix+e.Value, kindName
		}
		list.VIPs = append(list.VIPs, e)
	}
	b, err := json.Marshal(list)
	if err != nil {
		return "", fmt.Errorf("encoding %s: %w", AnnotationVIPs, err)
	}
	return string(b), nil
}

// tokenPrefix begins the name by which a token (claim.Token) stands in the list.
const tokenPrefix = "vipod-token:"

// rank orders names behind addresses.
func rank(ip netip.Addr) int {
	if claim.IsToken(ip) {
		return 1
	}
	return 0
}

// decodeClaims returns the addresses of the annotation, and the tokens among
// the names. Other names are left out: nobody but their holder can compare
// them.
func decodeClaims(value string) ([]netip.Addr, error) {
	var list claimsList
	if err := json.Unmarshal([]byte(value), &list); err != nil {
		return nil, fmt.Errorf("decoding %s: %w", AnnotationVIPs, err)
	}
	if list.Version != claimsVersion {
		return nil, fmt.Errorf("decoding %s: version %q is not %q", AnnotationVIPs, list.Version, claimsVersion)
	}
	if len(list.VIPs) > MaxClaims {
		return nil, fmt.Errorf("decoding %s: %d entries, at most %d are allowed", AnnotationVIPs, len(list.VIPs), MaxClaims)
	}
	var claims []netip.Addr
	for i, e := range list.VIPs {
		if e.Index != i {
			return nil, fmt.Errorf("decoding %s: entry %d has index %d", AnnotationVIPs, i, e.Index)
		}
		ip, err := e.address()
		if err != nil {
			return nil, fmt.Errorf("decoding %s: entry %d: %w", AnnotationVIPs, i, err)
		}
		if ip.IsValid() {
			claims = append(claims, ip)
		}
	}
	return claims, nil
}

// address returns the entry's address, without the prefix length that kube-vip
// may have kept, and nothing for a name.
func (e claimEntry) address() (netip.Addr, error) {
	switch e.Kind {
	case kindName:
		token, ok := strings.CutPrefix(e.Value, tokenPrefix)
		if !ok {
			return netip.Addr{}, nil
		}
		ip, err := netip.ParseAddr(token)
		if err != nil || !claim.IsToken(ip) {
			return netip.Addr{}, fmt.Errorf("value %q is not a token", e.Value)
		}
		return ip, nil
	case kindAddress:
	default:
		return netip.Addr{}, fmt.Errorf("kind %q is not %s or %s", e.Kind, kindAddress, kindName)
	}
	ip, err := netip.ParseAddr(e.Value)
	if p, prefixErr := netip.ParsePrefix(e.Value); prefixErr == nil {
		ip, err = p.Addr(), nil
	}
	if err != nil {
		return netip.Addr{}, fmt.Errorf("value %q is not an address", e.Value)
	}
	if ip.Zone() != "" {
		return netip.Addr{}, errors.New("the address has a zone")
	}
	return ip.Unmap(), nil
}
