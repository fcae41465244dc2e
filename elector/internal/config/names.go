package config

import "strings"

// isLabel says whether s is a DNS label as RFC 1123 has it, in lower case.
func isLabel(s string) bool {
	if s == "" || len(s) > 63 || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	return !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-'
	})
}

// isSubdomain says whether s is labels with dots between, at most 245 bytes:
// a name of an object, with room for the prefix of a node's Lease.
func isSubdomain(s string) bool {
	if len(s) > 245 {
		return false
	}
	for label := range strings.SplitSeq(s, ".") {
		if !isLabel(label) {
			return false
		}
	}
	return true
}

func isLetter(r rune) bool { return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' }
