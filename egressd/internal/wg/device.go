package wg

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/vipod/vipod/egressd/internal/genl"
	"github.com/vipod/vipod/egressd/internal/tunnel"
)

// Commands, attributes and flags of linux/wireguard.h.
const (
	familyName    = "wireguard"
	familyVersion = 1

	cmdGet = 0
	cmdSet = 1

	deviceName       = 2
	devicePrivateKey = 3
	deviceFlags      = 5
	devicePort       = 6
	devicePeers      = 8
	replacePeers     = 1

	peerKey         = 1
	peerFlags       = 3
	peerEndpoint    = 4
	peerKeepalive   = 5
	peerHandshake   = 6
	peerReceived    = 7
	peerSent        = 8
	peerAllowed     = 9
	replaceAllowed  = 2
	allowedFamily   = 1
	allowedAddress  = 2
	allowedMaskSize = 3

	// firstElement is the type of an element of a list: the kernel does not look.
	firstElement = 0
)

// configure gives a device its keys and its one far end.
func configure(f *genl.Family, t tunnel.Tunnel) error {
	e := netlink.NewAttributeEncoder()
	e.String(deviceName, t.Name)
	e.Bytes(devicePrivateKey, t.PrivateKey[:])
	e.Uint16(devicePort, t.Port)
	e.Uint32(deviceFlags, replacePeers)
	e.Nested(devicePeers, func(list *netlink.AttributeEncoder) error {
		list.Nested(firstElement, func(e *netlink.AttributeEncoder) error {
			encodePeer(e, t)
			return nil
		})
		return nil
	})
	return f.Do(cmdSet, e)
}

func encodePeer(e *netlink.AttributeEncoder, t tunnel.Tunnel) {
	e.Bytes(peerKey, t.PeerKey[:])
	e.Uint32(peerFlags, replaceAllowed)
	e.Bytes(peerEndpoint, sockaddr(t.Endpoint))
	e.Uint16(peerKeepalive, tunnel.Keepalive)
	e.Nested(peerAllowed, func(list *netlink.AttributeEncoder) error {
		for i, p := range t.Allowed {
			list.Nested(uint16(firstElement+i), func(e *netlink.AttributeEncoder) error {
				family := uint16(unix.AF_INET)
				if p.Addr().Is6() {
					family = unix.AF_INET6
				}
				e.Uint16(allowedFamily, family)
				e.Bytes(allowedAddress, p.Addr().AsSlice())
				e.Uint8(allowedMaskSize, uint8(p.Bits()))
				return nil
			})
		}
		return nil
	})
}

// sockaddr is an address as sockaddr_in or sockaddr_in6.
func sockaddr(a netip.AddrPort) []byte {
	if a.Addr().Is4() {
		b := binary.NativeEndian.AppendUint16(nil, unix.AF_INET)
		b = binary.BigEndian.AppendUint16(b, a.Port())
		return append(append(b, a.Addr().AsSlice()...), make([]byte, 8)...)
	}
	b := binary.NativeEndian.AppendUint16(nil, unix.AF_INET6)
	b = binary.BigEndian.AppendUint16(b, a.Port())
	return append(append(append(b, 0, 0, 0, 0), a.Addr().AsSlice()...), 0, 0, 0, 0)
}

func endpoint(b []byte) (netip.AddrPort, error) {
	if len(b) < unix.SizeofSockaddrInet4 {
		return netip.AddrPort{}, errShort
	}
	port := binary.BigEndian.Uint16(b[2:])
	switch family := binary.NativeEndian.Uint16(b); {
	case family == unix.AF_INET:
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[4:8])), port), nil
	case family == unix.AF_INET6 && len(b) >= unix.SizeofSockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16([16]byte(b[8:24])), port), nil
	}
	return netip.AddrPort{}, errors.New("an endpoint has no known family")
}

var errShort = errors.New("an attribute is too short")

// read reads a device. now is the wall clock, of which handshakes are.
func read(f *genl.Family, name string, now time.Time) (tunnel.Device, error) {
	e := netlink.NewAttributeEncoder()
	e.String(deviceName, name)
	answers, err := f.Ask(cmdGet, netlink.Dump, e)
	if err != nil {
		return tunnel.Device{}, err
	}
	var d tunnel.Device
	for _, a := range answers {
		if err := decodeDevice(&d, a, now); err != nil {
			return tunnel.Device{}, fmt.Errorf("decoding a device: %w", err)
		}
	}
	return d, nil
}

// decodeDevice takes in one answer: a device with many networks comes in
// several.
func decodeDevice(d *tunnel.Device, data []byte, now time.Time) error {
	return each(data, func(kind uint16, b []byte) (err error) {
		switch kind {
		case devicePrivateKey:
			err = fill(&d.PrivateKey, b)
		case devicePort:
			if len(b) < 2 {
				return errShort
			}
			d.Port = binary.NativeEndian.Uint16(b)
		case devicePeers:
			err = each(b, func(_ uint16, b []byte) error { return decodePeer(d, b, now) })
		}
		return err
	})
}

func decodePeer(d *tunnel.Device, data []byte, now time.Time) error {
	var p tunnel.Peer
	err := each(data, func(kind uint16, b []byte) (err error) {
		switch kind {
		case peerKey:
			return fill(&p.Key, b)
		case peerEndpoint:
			p.Endpoint, err = endpoint(b)
			return err
		case peerAllowed:
			return each(b, func(_ uint16, b []byte) error { return decodeAllowed(&p, b) })
		}
		return decodeCounts(&p, kind, b, now)
	})
	if err != nil {
		return err
	}
	if n := len(d.Peers); n > 0 && d.Peers[n-1].Key == p.Key { // it goes on
		d.Peers[n-1].Allowed = append(d.Peers[n-1].Allowed, p.Allowed...)
		return nil
	}
	d.Peers = append(d.Peers, p)
	return nil
}

func decodeCounts(p *tunnel.Peer, kind uint16, b []byte, now time.Time) error {
	size := map[uint16]int{peerKeepalive: 2, peerHandshake: 16, peerReceived: 8, peerSent: 8}[kind]
	if len(b) < size {
		return errShort
	}
	switch kind {
	case peerKeepalive:
		p.Keepalive = binary.NativeEndian.Uint16(b)
	case peerReceived:
		p.Received = binary.NativeEndian.Uint64(b)
	case peerSent:
		p.Sent = binary.NativeEndian.Uint64(b)
	case peerHandshake:
		at := time.Unix(int64(binary.NativeEndian.Uint64(b)), int64(binary.NativeEndian.Uint64(b[8:])))
		if at.Unix() > 0 {
			p.Handshake = max(now.Sub(at), 1)
		}
	}
	return nil
}

func decodeAllowed(p *tunnel.Peer, data []byte) error {
	var ip netip.Addr
	bits := -1
	err := each(data, func(kind uint16, b []byte) error {
		switch kind {
		case allowedAddress:
			ip, _ = netip.AddrFromSlice(b)
		case allowedMaskSize:
			if len(b) < 1 {
				return errShort
			}
			bits = int(b[0])
		}
		return nil
	})
	if err != nil {
		return err
	}
	network, err := ip.Prefix(bits)
	if err != nil {
		return fmt.Errorf("decoding a network: %w", err)
	}
	p.Allowed = append(p.Allowed, network)
	return nil
}

func fill(k *tunnel.Key, b []byte) error {
	if len(b) != len(k) {
		return errShort
	}
	copy(k[:], b)
	return nil
}

// each calls f with every attribute.
func each(data []byte, f func(kind uint16, b []byte) error) error {
	d, err := netlink.NewAttributeDecoder(data)
	if err != nil {
		return err
	}
	for d.Next() {
		if err := f(d.Type(), d.Bytes()); err != nil {
			return err
		}
	}
	return d.Err()
}
