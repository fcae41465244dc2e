package tunnel

import (
	"encoding/base64"
	"errors"
	"fmt"
)

// Key is a key of WireGuard, private or public. However it is printed, the
// key itself is not.
type Key [32]byte

const hidden = "(hidden)"

// String implements fmt.Stringer.
func (Key) String() string { return hidden }

// Format implements fmt.Formatter, for verbs that do not ask String.
func (Key) Format(s fmt.State, _ rune) { fmt.Fprint(s, hidden) }

// MarshalText implements encoding.TextMarshaler.
func (Key) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// ParseKey reads a key as wg(8) writes it. Its error does not repeat the text.
func ParseKey(text string) (k Key, err error) {
	b, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(b) != len(k) {
		return Key{}, errors.New("is not a key: want 32 bytes in base64, as wg genkey writes them")
	}
	if copy(k[:], b); k == (Key{}) {
		return Key{}, errors.New("is the key of nothing but zeroes")
	}
	return k, nil
}
