package wg

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mdlayher/netlink"

	"github.com/vipod/vipod/egressd/internal/tunnel"
)

func FuzzDecodeDevice(f *testing.F) {
	e := netlink.NewAttributeEncoder()
	e.Bytes(devicePrivateKey, bytes.Repeat([]byte{7}, 32))
	e.Uint16(devicePort, 51820)
	e.Nested(devicePeers, func(list *netlink.AttributeEncoder) error {
		list.Nested(firstElement, func(e *netlink.AttributeEncoder) error {
			encodePeer(e, tunnel.Tunnel{})
			return nil
		})
		return nil
	})
	if data, err := e.Encode(); err == nil {
		f.Add(data)
	}
	f.Add([]byte{4, 0, 8, 128})
	f.Fuzz(func(t *testing.T, data []byte) {
		var d, again tunnel.Device
		now := time.Unix(1<<31, 0)
		if decodeDevice(&d, data, now) != nil {
			return
		}
		if err := decodeDevice(&again, data, now); err != nil || len(d.Peers) != len(again.Peers) || !cmp.Equal(d.Port, again.Port) {
			t.Errorf("twice the same gives %v and %v, %v", d, again, err)
		}
	})
}
