package netsafe

import "testing"

// FuzzDecode checks that no message makes a decoder fail otherwise than by an
// error.
func FuzzDecode(f *testing.F) {
	f.Add([]byte{})
	f.Add(make([]byte, 8))
	f.Add(append([]byte{2, 24, 0, 0, 1, 0, 0, 0}, 8, 0, 2, 0, 198, 51, 100, 1))
	f.Add(append(make([]byte, 12), 12, 0, 9, 0, 8, 0, 0, 0, 1, 0, 0, 0))
	f.Fuzz(func(t *testing.T, msg []byte) {
		if a, ok, err := decodeAddress(msg); err == nil && ok && !a.Prefix.IsValid() {
			t.Errorf("invalid prefix accepted: %v", a)
		}
		_, _, _ = decodeLink(msg)
		_, _, _ = decodeDefault(msg)
		_ = nexthops(msg)
	})
}
