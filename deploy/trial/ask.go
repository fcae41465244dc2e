package trial

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vipod/vipod/deploy/probe"
)

// The questions come from a machine that does not exist: the answers teach
// the kernel of the machine that sends them nothing, so that what it knows of
// an address is what it was told without asking.
var (
	askerMAC = probe.MAC{0x02, 0, 0, 0, 0, 0x65}
	asker4   = netip.MustParseAddr("198.51.100.101")
	asker6   = netip.MustParseAddr("2001:db8:0:1::101")
)

// askEvery is the time between two questions for one address.
const askEvery = 10 * time.Millisecond

// Asker asks everybody on a LAN who has an address, again and again, by ARP
// (RFC 826) and neighbor solicitation (RFC 4861 section 4.3). Whoever holds
// an address and is not silent answers, and a probe.Capture sees it.
type Asker struct {
	socket int
	stop   chan struct{}
	done   sync.WaitGroup
}

// Ask starts to ask from an interface of the calling thread's namespace.
func Ask(iface string, addrs ...netip.Addr) (*Asker, error) {
	link, err := net.InterfaceByName(iface)
	if err != nil {
		return nil, fmt.Errorf("finding interface %s: %w", iface, err)
	}
	// Protocol 0 receives nothing.
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("opening a packet socket: %w", os.NewSyscallError("socket", err))
	}
	a := &Asker{socket: fd, stop: make(chan struct{})}
	to := &unix.SockaddrLinklayer{Ifindex: link.Index}
	var frames [][]byte
	for _, addr := range addrs {
		frames = append(frames, question(addr))
	}
	a.done.Go(func() { a.run(to, frames) })
	return a, nil
}

func (a *Asker) run(to unix.Sockaddr, frames [][]byte) {
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	for {
		for _, frame := range frames {
			_ = unix.Sendto(a.socket, frame, 0, to) // the link may be down just now
		}
		select {
		case <-a.stop:
			return
		case <-tick.C:
		}
	}
}

// Stop stops asking.
func (a *Asker) Stop() {
	close(a.stop)
	a.done.Wait()
	unix.Close(a.socket)
}

// question returns the frame that asks for an address.
func question(addr netip.Addr) []byte {
	if addr.Is4() {
		return arpRequest(addr)
	}
	return solicitation(addr)
}

func arpRequest(addr netip.Addr) []byte {
	target, sender := addr.As4(), asker4.As4()
	frame := ethernet(probe.MAC{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, unix.ETH_P_ARP)
	frame = append(frame, 0, 1, 8, 0, 6, 4, 0, 1) // Ethernet, IPv4, request
	frame = append(frame, askerMAC[:]...)
	frame = append(frame, sender[:]...)
	frame = append(frame, make([]byte, 6)...)
	return append(frame, target[:]...)
}

func solicitation(addr netip.Addr) []byte {
	target, source := addr.As16(), asker6.As16()
	// RFC 4291 section 2.7.1: the solicited-node address.
	group := netip.MustParseAddr("ff02::1:ff00:0").As16()
	copy(group[13:], target[13:])

	message := []byte{135, 0, 0, 0, 0, 0, 0, 0}
	message = append(message, target[:]...)
	message = append(message, 1, 1) // source link-layer address
	message = append(message, askerMAC[:]...)
	pseudo := append(append([]byte{}, source[:]...), group[:]...)
	pseudo = binary.BigEndian.AppendUint32(pseudo, uint32(len(message)))
	pseudo = append(pseudo, 0, 0, 0, unix.IPPROTO_ICMPV6)
	binary.BigEndian.PutUint16(message[2:], checksum(append(pseudo, message...)))

	frame := ethernet(probe.MAC{0x33, 0x33, 0xff, group[13], group[14], group[15]}, unix.ETH_P_IPV6)
	frame = append(frame, 0x60, 0, 0, 0, 0, byte(len(message)), unix.IPPROTO_ICMPV6, 255)
	frame = append(frame, source[:]...)
	frame = append(frame, group[:]...)
	return append(frame, message...)
}

func ethernet(destination probe.MAC, proto uint16) []byte {
	frame := append(destination[:], askerMAC[:]...)
	return binary.BigEndian.AppendUint16(frame, proto)
}

// checksum is that of RFC 1071, over an even number of bytes.
func checksum(data []byte) uint16 {
	var sum uint32
	for i := 0; i+1 < len(data); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(data[i:]))
	}
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	return ^uint16(sum)
}
