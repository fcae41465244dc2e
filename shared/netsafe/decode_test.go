package netsafe

import (
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

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
		_, _, _ = decodeRule(msg)
		_ = nexthops(msg)
	})
}

func TestOnlyDefaultRoutesAmongRoutesMatter(t *testing.T) {
	for _, c := range []struct {
		kind   uint16
		length uint8
		want   bool
	}{
		{unix.RTM_NEWROUTE, 24, false}, {unix.RTM_DELROUTE, 128, false},
		{unix.RTM_NEWROUTE, 0, true}, {unix.RTM_DELROUTE, 0, true}, {unix.RTM_NEWADDR, 24, true},
	} {
		m := syscall.NetlinkMessage{Header: syscall.NlMsghdr{Type: c.kind}, Data: make([]byte, unix.SizeofRtMsg)}
		m.Data[1] = c.length // rtm_dst_len, rtnetlink(7)
		if got := NotASpecificRoute(m); got != c.want {
			t.Errorf("message %d with length %d: %t", c.kind, c.length, got)
		}
	}
	if !NotASpecificRoute(syscall.NetlinkMessage{Header: syscall.NlMsghdr{Type: unix.RTM_NEWROUTE}}) {
		t.Error("a message that is cut off is not noticed")
	}
}
