package tunnel

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
)

// MaxID is the longest id, in bytes.
const MaxID = 50

// hashSize is how many bytes of a hash tell two Services apart whose names
// look alike in an id.
const hashSize = 8

// ID returns the id of a port of a Service:
//
//	<namespace>_<name>[_<hash>]_p<port>_<protocol>
//
// with a hash, 16 digits of SHA-256 over "<namespace>/<name>", where the names
// had to be changed or cut to fit into an identifier of nftables and MaxID.
// An empty protocol is TCP.
func ID(namespace, name string, port uint16, protocol string) string {
	if protocol == "" {
		protocol = "tcp"
	}
	return id(namespace, name, "_p"+strconv.Itoa(int(port))+"_"+strings.ToLower(protocol))
}

// LegacyID returns the id that the port had before ids told protocols apart.
func LegacyID(namespace, name string, port uint16) string {
	return id(namespace, name, "_p"+strconv.Itoa(int(port)))
}

func id(namespace, name, suffix string) string {
	plain := namespace + "_" + name
	base := strings.Map(identifier, plain)
	if base == plain && len(base)+len(suffix) <= MaxID {
		return base + suffix
	}
	sum := sha256.Sum256([]byte(namespace + "/" + name))
	suffix = "_" + hex.EncodeToString(sum[:hashSize]) + suffix
	return base[:min(len(base), MaxID-len(suffix))] + suffix
}

// identifier replaces what an identifier of nftables may not have in it.
func identifier(r rune) rune {
	if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' {
		return r
	}
	return '_'
}
