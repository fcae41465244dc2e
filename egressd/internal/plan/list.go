package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/vipod/vipod/shared/schema"
)

// List narrows which connections of a Service's pods leave with its VIP: those
// that one of its rules accepts go as if there were no egress. Services with
// the same list share its chain, which never changes: another list is another
// chain. So a change costs what the list and the Service's pods cost, however
// many others there are. A set of all pods' networks would be copied by the
// kernel as a whole with every change.
type List struct {
	// Denied never get the VIP. Networks do not overlap.
	Denied []netip.Prefix
	// Allowed are the only ones that get it, if there are any, of whatever
	// family.
	Allowed []netip.Prefix
	// Ports are the only ones that get it, if there are any.
	Ports []schema.Port
}

// listPrefix begins the names of lists.
const listPrefix = "list_"

// IsList says whether a chain of that name is a list's.
func IsList(chain string) bool { return strings.HasPrefix(chain, listPrefix) }

// Name returns the name of the list's chain, which says all that is in it.
func (l List) Name() string {
	sum := sha256.Sum256([]byte(l.String()))
	return listPrefix + hex.EncodeToString(sum[:12])
}

// Concerns says whether the list says something about a family, "4" or "6".
func (l List) Concerns(family string) bool {
	return len(l.Allowed) > 0 || len(l.Ports) > 0 ||
		slices.ContainsFunc(l.Denied, func(p netip.Prefix) bool { return p.Addr().Is4() == (family == "4") })
}

// The parts of a list's text.
const (
	accept     = " accept"
	protoPorts = "meta l4proto . th dport != "
)

// familyText is how nft says a family's addresses, and all of it.
var familyText = []struct{ addresses, all string }{{"ip daddr ", "meta nfproto ipv4"}, {"ip6 daddr ", "meta nfproto ipv6"}}

// String returns the rules as nft reads them, with "; " between. It is the
// same for the same list in any order.
func (l List) String() string {
	var rules []string
	for i, f := range familyText {
		of := func(list []netip.Prefix) (out []string) {
			for _, p := range list {
				if p.Addr().Is4() == (i == 0) {
					out = append(out, p.String())
				}
			}
			return sortedTexts(out)
		}
		if denied := of(l.Denied); len(denied) > 0 {
			rules = append(rules, f.addresses+braces(denied)+accept)
		}
		switch allowed := of(l.Allowed); {
		case len(allowed) > 0:
			rules = append(rules, f.addresses+"!= "+braces(allowed)+accept)
		case len(l.Allowed) > 0:
			rules = append(rules, f.all+accept)
		}
	}
	var ports []string
	for _, p := range l.Ports {
		ports = append(ports, fmt.Sprintf("%s . %d", strings.ToLower(string(p.Protocol)), p.Port))
	}
	if len(ports) > 0 {
		rules = append(rules, protoPorts+braces(sortedTexts(ports))+accept)
	}
	return strings.Join(rules, "; ")
}

func sortedTexts(list []string) []string {
	slices.Sort(list)
	return slices.Compact(list)
}

func braces(list []string) string { return "{ " + strings.Join(list, ", ") + " }" }

// ListRule is one rule of a list: what it accepts.
type ListRule struct {
	// Family is "4" or "6", "" for a rule about ports.
	Family string
	// Not: the rule accepts what is not among Elements; without any that is
	// all of the family.
	Not bool
	// Elements are networks, or protocols and ports as "tcp . 443".
	Elements []string
}

// ParseRules reads String.
func ParseRules(text string) ([]ListRule, error) {
	var rules []ListRule
	for part := range strings.SplitSeq(text, "; ") {
		body, ok := strings.CutSuffix(part, accept)
		rule, known := ListRule{}, false
		for i, f := range familyText {
			family := string("46"[i])
			if body == f.all {
				rule, known = ListRule{Family: family, Not: true}, true
			} else if rest, found := strings.CutPrefix(body, f.addresses); found {
				rule, body, known = ListRule{Family: family}, rest, true
			}
		}
		if rest, found := strings.CutPrefix(body, protoPorts); found {
			rule, body, known = ListRule{Not: true}, rest, true
		}
		if rest, found := strings.CutPrefix(body, "!= "); found {
			rule.Not, body = true, rest
		}
		if inner, found := strings.CutPrefix(body, "{ "); found {
			inner, found = strings.CutSuffix(inner, " }")
			rule.Elements, ok = strings.Split(inner, ", "), ok && found
		}
		if !ok || !known || len(rule.Elements) == 0 && !rule.Not {
			return nil, fmt.Errorf("%q is no rule of a list", part)
		}
		rules = append(rules, rule)
	}
	return rules, nil
}
