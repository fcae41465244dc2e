package config

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// NameMode says which addresses of a host name count.
type NameMode string

// Modes, by kube-vip's names.
const (
	// NameFirst is one address, of IPv4 if there is one.
	NameFirst NameMode = "first"
	NameIPv4  NameMode = "ipv4"
	NameIPv6  NameMode = "ipv6"
	// NameDual is one address of each family.
	NameDual NameMode = "dual"
)

// hosts takes addresses and host names with commas between.
func hosts(addrs func(*raw) *[]netip.Addr, names func(*raw) *[]string) value {
	v := value{allowed: "addresses such as 198.51.100.7, or host names, with commas between"}
	v.set = func(r *raw, text string) error {
		var all []netip.Addr
		var list []string
		for _, item := range split(text) {
			if isHost(item) {
				if name := strings.ToLower(strings.TrimSuffix(item, ".")); !slices.Contains(list, name) {
					list = append(list, name)
				}
				continue
			}
			a, err := parseAddress(item)
			if err != nil {
				return err
			}
			if !slices.Contains(all, a) {
				all = append(all, a)
			}
		}
		if len(all)+len(list) > maxAddresses {
			return fmt.Errorf("%d addresses and names are too many: want at most %d", len(all)+len(list), maxAddresses)
		}
		*addrs(r), *names(r) = all, list
		return nil
	}
	return v
}

// isHost says whether text is a host name and no address.
func isHost(text string) bool {
	_, err := netip.ParseAddr(text)
	return err != nil && isSubdomain(strings.ToLower(strings.TrimSuffix(text, "."))) && strings.ContainsFunc(text, isLetter)
}

func nameMode(field func(*raw) *NameMode) value {
	modes := []NameMode{NameFirst, NameIPv4, NameIPv6, NameDual}
	return into("first, ipv4, ipv6 or dual", field, func(text string) (NameMode, error) {
		if mode := NameMode(text); slices.Contains(modes, mode) {
			return mode, nil
		}
		return "", errNotAllowed
	})
}
