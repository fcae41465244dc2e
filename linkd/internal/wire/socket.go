package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"syscall"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/vipod/vipod/linkd/internal/lease"
)

// Socket is a packet socket on one link for one family.
type Socket struct {
	file  *os.File
	raw   syscall.RawConn
	index int
	is4   bool
	// From is the link's own address of IPv6, from which to send.
	From netip.Addr
}

// maxFrame is the longest packet that is read, in bytes.
const maxFrame = 2048

// Open opens the socket on the link of the index with the hardware address.
func Open(index int, is4 bool, mac string) (*Socket, error) {
	s, err := open(index, is4, mac)
	if err != nil {
		return nil, fmt.Errorf("opening packet socket on link %d: %w", index, err)
	}
	return s, nil
}

func open(index int, is4 bool, mac string) (*Socket, error) {
	protocol := uint16(unix.ETH_P_IPV6)
	if is4 {
		protocol = unix.ETH_P_IP
	}
	program, err := filter(is4, mac)
	if err != nil {
		return nil, err
	}
	// Without a protocol it hears nothing before its filter is in place.
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	err = unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
		&unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]})
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: bigEndian(protocol), Ifindex: index})
	}
	if err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	file := os.NewFile(uintptr(fd), "packet")
	raw, err := file.SyscallConn()
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &Socket{file: file, raw: raw, index: index, is4: is4}, nil
}

// bigEndian returns the number whose bytes in memory are n in network order.
func bigEndian(n uint16) uint16 { return binary.NativeEndian.Uint16([]byte{byte(n >> 8), byte(n)}) }

// filter returns the program by which the kernel keeps from the socket what is
// not for this client: of many clients on one LAN each hears every broadcast.
func filter(is4 bool, mac string) ([]unix.SockFilter, error) {
	const chaddr = udpHead + 28 // RFC 2131, figure 1
	program := []bpf.Instruction{
		bpf.LoadAbsolute{Off: 6, Size: 1},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.IPPROTO_UDP, SkipFalse: 3},
		bpf.LoadAbsolute{Off: ip6Head + 2, Size: 2},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: client6, SkipFalse: 1},
		bpf.RetConstant{Val: maxFrame},
		bpf.RetConstant{Val: 0},
	}
	if is4 {
		program = []bpf.Instruction{
			bpf.LoadAbsolute{Off: 9, Size: 1},
			bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.IPPROTO_UDP, SkipFalse: 8},
			bpf.LoadMemShift{Off: 0},
			bpf.LoadIndirect{Off: 2, Size: 2},
			bpf.JumpIf{Cond: bpf.JumpEqual, Val: client4, SkipFalse: 5},
			bpf.LoadIndirect{Off: chaddr, Size: 4},
			bpf.JumpIf{Cond: bpf.JumpEqual, Val: binary.BigEndian.Uint32([]byte(mac)), SkipFalse: 3},
			bpf.LoadIndirect{Off: chaddr + 4, Size: 2},
			bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(binary.BigEndian.Uint16([]byte(mac)[4:])), SkipFalse: 1},
			bpf.RetConstant{Val: maxFrame},
			bpf.RetConstant{Val: 0},
		}
	}
	raw, err := bpf.Assemble(program)
	if err != nil {
		return nil, fmt.Errorf("assembling filter: %w", err)
	}
	out := make([]unix.SockFilter, len(raw))
	for i, r := range raw {
		out[i] = unix.SockFilter{Code: r.Op, Jt: r.Jt, Jf: r.Jf, K: r.K}
	}
	return out, nil
}

// Send sends a message.
func (s *Socket) Send(p lease.Packet) error {
	frame, to, err := s.frame(p)
	if err != nil {
		return err
	}
	var sent error
	err = s.raw.Control(func(fd uintptr) {
		sent = unix.Sendto(int(fd), frame, unix.MSG_DONTWAIT, to)
	})
	if err = errors.Join(err, sent); err != nil {
		return fmt.Errorf("sending on link %d: %w", s.index, err)
	}
	return nil
}

// errNoAddress is a link without an address of its own.
var errNoAddress = errors.New("the link has no link-local address yet")

// frame returns the packet and where it goes on the link.
func (s *Socket) frame(p lease.Packet) ([]byte, *unix.SockaddrLinklayer, error) {
	from, to, mac := p.From, p.To, p.ToMAC
	ll := &unix.SockaddrLinklayer{Protocol: bigEndian(unix.ETH_P_IPV6), Ifindex: s.index, Halen: 6}
	if s.is4 {
		ll.Protocol = bigEndian(unix.ETH_P_IP)
		if !from.IsValid() {
			from = netip.IPv4Unspecified()
		}
		if !to.IsValid() || len(mac) != 6 {
			to, mac = broadcast4, "\xff\xff\xff\xff\xff\xff"
		}
		copy(ll.Addr[:], mac)
		return build4(from, to, p.Payload), ll, nil
	}
	if !s.From.IsValid() {
		return nil, nil, errNoAddress
	}
	// 33:33 and the last four bytes of the group (RFC 2464, 7).
	group := servers6.As16()
	copy(ll.Addr[:], append([]byte{0x33, 0x33}, group[12:]...))
	return build6(s.From, servers6, p.Payload), ll, nil
}

// Receive waits for a message and returns it with the hardware address that it
// came from. The error is os.ErrClosed once the socket is closed; any other
// passes, such as that of a link that went down.
func (s *Socket) Receive() (payload []byte, from string, err error) {
	buf := make([]byte, maxFrame)
	for {
		var n int
		var addr unix.Sockaddr
		var got error
		err := s.raw.Read(func(fd uintptr) bool {
			n, addr, got = unix.Recvfrom(int(fd), buf, 0)
			return !errors.Is(got, unix.EAGAIN)
		})
		switch {
		case err != nil:
			return nil, "", os.ErrClosed
		case got != nil:
			return nil, "", fmt.Errorf("receiving on link %d: %w", s.index, got)
		}
		parse := parse6
		if s.is4 {
			parse = parse4
		}
		payload, err := parse(buf[:n])
		if err != nil {
			continue
		}
		if ll, ok := addr.(*unix.SockaddrLinklayer); ok && ll.Halen == 6 {
			from = string(ll.Addr[:6])
		}
		return payload, from, nil
	}
}

// Close closes the socket.
func (s *Socket) Close() error { return s.file.Close() }
