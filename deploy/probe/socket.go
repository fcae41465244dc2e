package probe

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// MAC is an Ethernet address.
type MAC [6]byte

// String returns the usual form with colons.
func (m MAC) String() string { return net.HardwareAddr(m[:]).String() }

const (
	// receiveBuffer holds some seconds of frames while the reader is not
	// scheduled.
	receiveBuffer = 8 << 20
	// receiveTimeout bounds how long Close takes.
	receiveTimeout = 50 * time.Millisecond
	// headerLen is the Ethernet header's length.
	headerLen = 14

	etherTypeARP  = 0x0806
	etherTypeIPv4 = 0x0800
	etherTypeIPv6 = 0x86dd
)

// listener reads frames from an AF_PACKET socket until it is closed.
type listener struct {
	fd     int
	closed chan struct{}
	end    time.Time // set before closed is closed
	once   sync.Once
	done   sync.WaitGroup
}

// listen opens a packet socket on an interface of the calling thread's
// namespace. Frames that pass the filter are given to handle, one after the
// other, with the time when the kernel received them.
func listen(iface string, filter []unix.SockFilter, handle func(time.Time, []byte)) (*listener, error) {
	link, err := net.InterfaceByName(iface)
	if err != nil {
		return nil, fmt.Errorf("finding interface %s: %w", iface, err)
	}
	// Protocol 0 receives nothing until the filter is in place.
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("opening a packet socket: %w", os.NewSyscallError("socket", err))
	}
	timeout := unix.NsecToTimeval(receiveTimeout.Nanoseconds())
	err = errors.Join(
		attach(fd, filter),
		os.NewSyscallError("SO_TIMESTAMPNS", unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1)),
		os.NewSyscallError("SO_RCVBUFFORCE", unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, receiveBuffer)),
		os.NewSyscallError("SO_RCVTIMEO", unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout)),
		os.NewSyscallError("bind", unix.Bind(fd, &unix.SockaddrLinklayer{
			Protocol: bigEndian(unix.ETH_P_ALL), Ifindex: link.Index,
		})),
	)
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("listening on %s: %w", iface, err)
	}
	l := &listener{fd: fd, closed: make(chan struct{})}
	l.done.Go(func() { l.read(handle) })
	return l, nil
}

// read runs until the listener is closed.
func (l *listener) read(handle func(time.Time, []byte)) {
	frame, control := make([]byte, 64*1024), make([]byte, 256)
	for {
		n, controlLen, _, from, err := unix.Recvmsg(l.fd, frame, control, 0)
		if err != nil {
			again := errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) || errors.Is(err, unix.ENETDOWN)
			if !again || l.ended(time.Now()) {
				return
			}
			continue
		}
		link, ok := from.(*unix.SockaddrLinklayer)
		if !ok || link.Pkttype == unix.PACKET_OUTGOING || n < headerLen {
			continue
		}
		at := timestamp(control[:controlLen])
		if l.ended(at) {
			return
		}
		handle(at, frame[:n])
	}
}

// ended says whether the listener was closed before the given time. What was
// received until then is read, however late.
func (l *listener) ended(at time.Time) bool {
	select {
	case <-l.closed:
		return at.After(l.end)
	default:
		return false
	}
}

// close stops reading; handle is not called afterwards.
func (l *listener) close() {
	l.once.Do(func() {
		l.end = time.Now()
		close(l.closed)
		l.done.Wait()
		unix.Close(l.fd)
	})
}

// timestamp returns when the kernel received a frame.
func timestamp(control []byte) time.Time {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return time.Now()
	}
	for _, m := range messages {
		if m.Header.Level == unix.SOL_SOCKET && m.Header.Type == unix.SO_TIMESTAMPNS && len(m.Data) >= 16 {
			seconds := binary.NativeEndian.Uint64(m.Data)
			nanoseconds := binary.NativeEndian.Uint64(m.Data[8:])
			return time.Unix(int64(seconds), int64(nanoseconds))
		}
	}
	return time.Now()
}

// attach sets a socket's filter.
func attach(fd int, filter []unix.SockFilter) error {
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	return os.NewSyscallError("SO_ATTACH_FILTER",
		unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &program))
}

// bigEndian returns the number whose bytes in memory are v's in network order.
func bigEndian(v uint16) uint16 {
	var b [2]byte
	binary.BigEndian.PutUint16(b[:], v)
	return binary.NativeEndian.Uint16(b[:])
}

// match is a condition on a frame: the value of size bytes at offset.
type match struct {
	size   int // 1, 2 or 4
	offset uint32
	value  uint32
}

// matchAny is a filter that passes frames for which every condition of at
// least one of the lists holds.
func matchAny(lists ...[]match) []unix.SockFilter {
	sizes := map[int]uint16{1: unix.BPF_B, 2: unix.BPF_H, 4: unix.BPF_W}
	var program []unix.SockFilter
	for _, list := range lists {
		for i, m := range list {
			// Two instructions per remaining condition, one to accept.
			next := uint8(2*(len(list)-i-1) + 1)
			program = append(program,
				unix.SockFilter{Code: unix.BPF_LD | unix.BPF_ABS | sizes[m.size], K: m.offset},
				unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: m.value, Jf: next})
		}
		program = append(program, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: 64 * 1024})
	}
	return append(program, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: 0})
}
