package link

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/vipod/vipod/arpd/internal/frame"
	"github.com/vipod/vipod/arpd/internal/plan"
)

// Kernel is the real Network.
type Kernel struct{}

// The reader takes at most readRate frames a second, with bursts of
// readBurst; a flood beyond it stays in the socket's buffer, whose overflow
// costs the kernel next to nothing.
const (
	readRate  = 5000
	readBurst = 1000
	readPause = 10 * time.Millisecond
)

// sockaddr is struct sockaddr_ll with room for InfiniBand's addresses, which
// the one in package unix lacks.
type sockaddr struct {
	family   uint16
	protocol [2]byte // big endian
	index    int32
	hardware uint16
	kind     uint8
	length   uint8
	address  [20]byte
}

type port struct {
	at    plan.Port
	hw    frame.Hardware
	heard func(frame.Claim)
	file  *os.File
	conn  syscall.RawConn
	done  chan struct{}

	received, malformed atomic.Uint64
	dropMu              sync.Mutex
	dropped             uint64
}

// Open implements Network.
func (Kernel) Open(at plan.Port, hw frame.Hardware, heard func(frame.Claim)) (Port, error) {
	file, err := open(at)
	if err != nil {
		return nil, fmt.Errorf("opening packet socket on link %d: %w", at.Link, err)
	}
	conn, err := file.SyscallConn()
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	p := &port{at: at, hw: hw, heard: heard, file: file, conn: conn, done: make(chan struct{})}
	go p.read()
	return p, nil
}

// open makes the socket without a protocol, so that it hears nothing before
// its filter is in place, and binds it then.
func open(at plan.Port) (*os.File, error) {
	program, err := filter(at.Protocol)
	if err != nil {
		return nil, err
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	err = unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
		&unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]})
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: bigEndian(at.Protocol), Ifindex: at.Link})
	}
	if err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), "packet"), nil
}

// bigEndian returns the number whose bytes in memory are n in network order.
func bigEndian(n uint16) uint16 {
	return binary.NativeEndian.Uint16([]byte{byte(n >> 8), byte(n)})
}

func (p *port) Send(f frame.Frame) error {
	if len(f.Payload) == 0 || len(f.To) > 20 {
		return unix.EINVAL
	}
	to := sockaddr{
		family:   unix.AF_PACKET,
		protocol: [2]byte{byte(f.Protocol >> 8), byte(f.Protocol)},
		index:    int32(p.at.Link),
		length:   uint8(len(f.To)),
	}
	copy(to.address[:], f.To)
	var errno syscall.Errno
	// Control and not Write: a full queue is an error at once.
	err := p.conn.Control(func(fd uintptr) {
		_, _, errno = unix.Syscall6(unix.SYS_SENDTO, fd,
			uintptr(unsafe.Pointer(&f.Payload[0])), uintptr(len(f.Payload)), unix.MSG_DONTWAIT,
			uintptr(unsafe.Pointer(&to)), unsafe.Sizeof(to))
	})
	if err == nil && errno != 0 {
		err = errno
	}
	return err
}

// read reads until the socket is closed. A link that goes down is reported
// once as an error and goes on being read.
func (p *port) read() {
	defer close(p.done)
	buf := make([]byte, snapLength)
	tokens, filled := float64(readBurst), time.Now()
	for {
		n, from, err := p.receive(buf)
		switch {
		case errors.Is(err, os.ErrClosed):
			return
		case err != nil:
			time.Sleep(readPause)
			continue
		}
		p.take(buf[:n], from)
		tokens--
		if tokens < 1 {
			now := time.Now()
			tokens, filled = min(readBurst, tokens+now.Sub(filled).Seconds()*readRate), now
		}
		if tokens < 1 {
			time.Sleep(readPause)
		}
	}
}

func (p *port) take(b []byte, from frame.MAC) {
	p.received.Add(1)
	claim, err := frame.Decode(p.at.Protocol, p.hw, from, b)
	if err != nil {
		p.malformed.Add(1)
		return
	}
	p.heard(claim)
}

// receive waits for a frame. The error is os.ErrClosed once the port is closed.
func (p *port) receive(buf []byte) (n int, from frame.MAC, err error) {
	var addr sockaddr
	var errno syscall.Errno
	closed := p.conn.Read(func(fd uintptr) bool {
		length := uint32(unsafe.Sizeof(addr))
		var r uintptr
		r, _, errno = unix.Syscall6(unix.SYS_RECVFROM, fd,
			uintptr(unsafe.Pointer(&buf[0])), uintptr(len(buf)), 0,
			uintptr(unsafe.Pointer(&addr)), uintptr(unsafe.Pointer(&length)))
		n = int(r)
		return errno != unix.EAGAIN
	})
	switch {
	case closed != nil:
		return 0, "", os.ErrClosed
	case errno != 0:
		return 0, "", errno
	}
	return n, frame.MAC(addr.address[:min(int(addr.length), len(addr.address))]), nil
}

func (p *port) Counts() Counts {
	p.dropMu.Lock()
	defer p.dropMu.Unlock()
	// Reading the statistics sets them to zero. A socket that is closed
	// already has nothing more to tell.
	_ = p.conn.Control(func(fd uintptr) {
		if st, err := unix.GetsockoptTpacketStats(int(fd), unix.SOL_PACKET, unix.PACKET_STATISTICS); err == nil {
			p.dropped += uint64(st.Drops)
		}
	})
	return Counts{Received: p.received.Load(), Malformed: p.malformed.Load(), Dropped: p.dropped}
}

func (p *port) Close() error {
	err := p.file.Close()
	<-p.done
	return err
}
